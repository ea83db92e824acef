// WireRule: which all-reduces travel narrower between hosts than they are in memory. Pure, the same on all
// ranks.
#pragma once

#include "core/plan/kind.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

struct WireRule {
  WireType type = WireType::exact;
  Bytes from = 0;  // what is smaller stays exact

  /// Of a collective of blocks of so many bytes among ranks that all know whether they are on several hosts.
  WireFormat format_of(Kind kind, DType element, Bytes bytes, bool spans_hosts) const {
    bool is_wide = element == DType::float32 || element == DType::float64;
    if (type == WireType::exact || kind != Kind::all_reduce || !is_wide || bytes < from || !spans_hosts)
      return {};
    return {element, type};
  }
};

}  // namespace ddl
