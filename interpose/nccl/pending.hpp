// Communicators that a nonblocking creation has given the program before it is known whose they will be. The
// handle is a block of ours, behind which a thread meets the other ranks and then makes the communicator;
// from then on the handle stands for that one, of the original's or of ours, in every function of the table.
//
// Thread safety: all.
#pragma once

#include <functional>
#include <optional>

#include "interpose/nccl/comms.hpp"

namespace ddl::nccl {

/// A handle, at once. `make` runs in a thread of its own, with the place where the communicator belongs.
ncclComm_t make_meanwhile(std::function<ncclResult_t(ncclComm_t* at)> make);

/// Whether there ever was one.
bool has_pending();

/// What a handle stands for.
struct Standing {
  CommPtr record = {};  // its record, as look_up() has it, or that of what was made of it
  ncclComm_t real;      // itself where it is none of these, or stands for nothing yet
  bool ended = false;   // it was one of these, and was ended
  // How it stands with a handle that stands for nothing: in progress, or what went wrong.
  std::optional<ncclResult_t> unmade = {};
};
Standing standing_of(ncclComm_t comm);
/// Why a function cannot have such a handle, which is said; success when it can.
ncclResult_t refuse_unmade(const char* function, const Standing& standing);

/// The end of a handle: what is to be ended with it, null where there is nothing, or not yet. Itself where it
/// is none of these.
ncclComm_t end_promise(ncclComm_t comm);

}  // namespace ddl::nccl
