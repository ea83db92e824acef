// What is asked of sparse all-reduces: DDL_SPARSE and its like, the same on all ranks once these have met.
#pragma once

#include "core/base/types.hpp"

namespace ddl {

struct SparseSettings {
  double share = 1;            // of the chunks that travel in the end; 1: all, nothing is sparse
  Bytes from = 64 << 10;       // shorter calls stay whole
  std::uint64_t warm_up = 50;  // times that each gradient is sent whole first
  Bytes most_kept = 1 << 30;   // bytes of residuals per communicator; gradients beyond stay whole

  bool is_on() const { return share < 1; }
  friend bool operator==(const SparseSettings&, const SparseSettings&) = default;
};

}  // namespace ddl
