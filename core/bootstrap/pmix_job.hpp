// The job of a process that a PMIx server started, for those who need no MPI library to join it: rank, size,
// and some bytes of rank 0 for all.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class PmixJob {
 public:
  /// Null where there is no PMIx server. Throws Error.
  static std::unique_ptr<PmixJob> open(double timeout_s);
  virtual ~PmixJob() = default;
  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  /// What rank 0 gives, on all ranks; the others give nothing. The n-th call of a process meets the n-th of
  /// all others. Throws Error when rank 0 does not come in time.
  virtual std::vector<std::byte> from_rank_0(std::span<const std::byte> mine) = 0;
};

}  // namespace ddl
