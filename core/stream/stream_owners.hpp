// Which rank of this process uses which stream. Two ranks of one communicator must not share one: on it the
// second's part of a collective would wait behind the first's, which waits for the second.
// Thread safety: all.
#pragma once

#include <atomic>

#include "core/bootstrap/rendezvous_id.hpp"
#include "core/device/cuda_driver.hpp"

namespace ddl::stream_owners {

/// One rank of a communicator, as long as the object lives.
struct Owner {
  RendezvousId::Token group{};    // the communicator's
  std::atomic<int> under_way{0};  // calls on any stream; 0 also when they will not be finished
};

/// True when `owner` may use the stream: nobody else of its group has calls under way there. Then it has one
/// more under way, which it counts down when that is done, or does not begin.
bool claim(cuda::Context context, cuda::Stream stream, Owner& owner);
void forget(const Owner& owner);

}  // namespace ddl::stream_owners
