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

/// From how many bytes on all-reduces within one host are faster narrower. Two ranks on two cores, medians of
/// three alternating runs in ms, exact, bfloat16, float16, int8: 16 MiB 1.76, 1.54, 1.39, 2.90; 64 MiB 6.92,
/// 6.31, 6.50, 11.5; 256 MiB 27.1, 25.4, 26.8, 46.2. Below that all stays in the caches, and the fastest of
/// six runs were exact: 64 KiB 2.4 us, bfloat16 2.9; 1 MiB 36, 43; 4 MiB 175, 204.
inline constexpr Bytes kWorthWithinAHost = 16 << 20;
constexpr Bytes worth_within_a_host(WireType type) {
  return type == WireType::int8 ? BytesByRanks::kNever : kWorthWithinAHost;
}

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
