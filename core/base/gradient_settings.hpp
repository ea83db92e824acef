// What is asked of gradients: what they travel as and where, what is fused, what is sent of them. The
// variables DDL_WIRE_TYPE, DDL_LAZY_BYTES, DDL_SPARSE and those beside them.
#pragma once

#include <vector>

#include "core/base/sparse_settings.hpp"

namespace ddl {

/// A size that may be another one for communicators of so many ranks.
struct BytesByRanks {
  static constexpr Bytes kNever = ~Bytes{0};
  struct Exception {
    Rank ranks = 0;
    Bytes bytes = 0;
    friend bool operator==(const Exception&, const Exception&) = default;
  };
  Bytes others = 0;
  std::vector<Exception> exceptions = {};  // each number of ranks once

  Bytes of(Rank ranks) const {
    for (const Exception& one : exceptions)
      if (one.ranks == ranks) return one.bytes;
    return others;
  }
  friend bool operator==(const BytesByRanks&, const BytesByRanks&) = default;
};

struct GradientSettings {
  WireType wire_type = WireType::exact;
  WireWhere wire_where = WireWhere::between;
  BytesByRanks wire_type_from = {};
  Bytes lazy = 0;  // nonblocking all-reduces are fused, so many bytes at a time; 0: they are not
  SparseSettings sparse = {};
  friend bool operator==(const GradientSettings&, const GradientSettings&) = default;
};

}  // namespace ddl
