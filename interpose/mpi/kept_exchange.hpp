// Calls with a count for every rank that differ from a kept one in their counts and places alone.
//
// Thread safety: that of the calls of one communicator, which are made one after the other.
#pragma once

#include "interpose/mpi/blocks.hpp"
#include "interpose/mpi/kept_calls.hpp"
#include "interpose/mpi/run_call.hpp"

namespace ddl::mpi {

/// What those are kept as: all whose plan is the same one. `longest`: of a block that all ranks know.
SaidCall::Words alike_by_lists(const SaidCall& said, std::uint64_t longest);
/// Whether there are such calls.
bool has_alike_by_lists(Collective collective);

/// The kept one, made for the counts of that call, all of MPI's own types; null: none is kept, or it takes
/// another way, as what is erroneous does. In an all-gather `in` is null and `own` this rank's block.
const KeptCall* kept_alike(CommState& comm, const Made& made, const BlockSide* in, const BlockSide& out,
                           const Side* own);

}  // namespace ddl::mpi
