// Bootstrap: how the ranks of a job learn about each other, once.
//
// Each rank publishes one card before MPI_Init and reads everybody's after it: the exchange inside MPI_Init
// carries them, so a rank without the engine simply has no card, which all others see alike, and nobody waits
// for it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  /// Ranks of this job on this host; at least 1.
  virtual int local_size() const = 0;
  /// Hosts of the job; 0 when unknown.
  virtual int hosts() const = 0;
  virtual void publish(std::span<const std::byte> card) = 0;
  /// The card of a rank; nothing when it published none. Never waits longer than the timeout.
  virtual std::optional<std::vector<std::byte>> card_of(Rank rank) = 0;
};

}  // namespace ddl
