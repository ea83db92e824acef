// WireRule: which all-reduces of a communicator travel narrower than they are in memory, and where. Pure, the
// same on all ranks.
#pragma once

#include <algorithm>

#include "core/base/gradient_settings.hpp"
#include "core/plan/kind.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

struct WireRule {
  WireType type = WireType::exact;
  Bytes from = 0;  // what is smaller stays exact
  WireWhere where = WireWhere::between;

  /// Of a collective of blocks of so many bytes.
  WireFormat format_of(Kind kind, DType element, Bytes bytes) const {
    bool is_wide = element == DType::float32 || element == DType::float64;
    if (type == WireType::exact || kind != Kind::all_reduce || !is_wide || bytes < from) return {};
    return {element, type, where};
  }
};

/// From how many bytes on that is faster within one host.
constexpr Bytes worth_within_a_host(WireType) { return 0; }

/// Of a communicator of so many ranks, which all know whether they are on several hosts.
inline WireRule wire_rule(const GradientSettings& settings, Rank ranks, bool spans_hosts) {
  Bytes from = settings.wire_type_from.of(ranks);
  if (!spans_hosts)
    from = settings.wire_where == WireWhere::everywhere
               ? std::max(from, worth_within_a_host(settings.wire_type))
               : BytesByRanks::kNever;
  if (from == BytesByRanks::kNever) return {};
  return {settings.wire_type, from, settings.wire_where};
}

}  // namespace ddl
