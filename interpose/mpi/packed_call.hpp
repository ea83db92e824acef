// Small movements of elements that do not lie as in a message, of types that the program made, maybe for one
// call alone: packed here and made as the kept call of so many bytes.
#pragma once

#include <mpi.h>

#include <optional>

#include "core/plan/kind.hpp"
#include "interpose/mpi/call_buffers.hpp"
#include "interpose/mpi/kept_calls.hpp"
#include "interpose/mpi/route.hpp"

namespace ddl::mpi {

/// A movement that is kept by its bytes, of whatever type, is kept as this.
SaidCall said_by_bytes(Collective collective, std::uint64_t bytes, Rank root, Form form);

/// A blocking call; nothing: it is none that is kept, or takes another way: the buffers overlap or are a
/// device's, MPI has to pack, or the call is erroneous.
std::optional<int> run_packed(Collective collective, Task task, const Side& in, const Side& out,
                              MPI_Comm comm);

}  // namespace ddl::mpi
