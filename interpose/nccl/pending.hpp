// Communicators that a nonblocking creation has given the program before it is known whose they will be. The
// handle is a block of ours, behind which a thread meets the other ranks and then makes the communicator;
// from then on the handle stands for that one, of the original's or of ours, in every function of the table.
//
// Thread safety: all.
#pragma once

#include <functional>
#include <optional>

#include "interpose/nccl/nccl_api.h"

namespace ddl::nccl {

/// A handle, at once. `make` runs in a thread of its own, with the place where the communicator belongs.
ncclComm_t make_meanwhile(std::function<ncclResult_t(ncclComm_t* at)> make);

/// Whether there ever was one.
bool has_pending();
/// What a handle stands for; itself where it is none of these, or stands for nothing yet.
ncclComm_t real(ncclComm_t comm);
template <class Other>
Other real(Other other) {
  return other;
}
/// How it stands with a handle that stands for nothing: in progress, or what went wrong. Nothing for others.
std::optional<ncclResult_t> state_of_unmade(ncclComm_t comm);
/// Whether it was one of these, and was ended.
bool is_ended(ncclComm_t comm);
/// The end of a handle: what is to be ended with it, null where there is nothing, or not yet. Itself where it
/// is none of these.
ncclComm_t take_real(ncclComm_t comm);

}  // namespace ddl::nccl
