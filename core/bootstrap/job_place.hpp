// JobPlace: where the ranks of a job meet that is started by variables, as torchrun sets them. Pure.
//
//   RANK, WORLD_SIZE       which rank this process is, of how many
//   MASTER_ADDR            the host of rank 0
//   MASTER_PORT            torch's own store holds that port, so ours is the next one
//   TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT
//                          tell a job from others, and from what it was before a restart
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/types.hpp"
#include "core/bootstrap/rendezvous_id.hpp"

namespace ddl {

/// What the program says itself; -1, "" and 0: nothing.
struct JobAsked {
  Rank rank = -1, size = -1;
  std::string address;
  std::uint16_t port = 0;
  bool is_silent() const { return rank < 0 && size < 0 && address.empty(); }
};

struct JobPlace {
  Rank rank = 0, size = 1;
  std::string address;
  std::uint16_t port = 0;
  RendezvousId::Token token{};  // equal in all processes of the job: no secret, it keeps jobs apart
};

/// `before`: how many jobs this process has been in. `variable` gives the value of a variable, "" where it is
/// not set; `port` is DDL_PORT, 0: not set. Throws UsageError, naming the variable that is missing or wrong.
JobPlace place_of(const JobAsked& asked, std::uint64_t port, std::uint32_t before,
                  const std::function<std::string(const char*)>& variable);

}  // namespace ddl
