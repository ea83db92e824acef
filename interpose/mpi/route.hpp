// Where a call goes: to the engine or to the original library, decided only from what MPI guarantees to be
// equal on all ranks (and from errors, which the original reports better).
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "core/api/call_api.h"
#include "core/plan/kind.hpp"
#include "core/reduce/recognise.hpp"
#include "interpose/mpi/call_buffers.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  reduce_scatter_block,
  all_to_all,
  gather,
  scatter,
  barrier,
  all_gather_v,
  gather_v,
  scatter_v,
  all_to_all_v,
  all_to_all_w
};
inline constexpr int kCollectives = 15;

enum class Form : std::uint8_t { blocking, nonblocking };

/// "MPI_Bcast", "MPI_Ibcast"
const char* name_of(Collective collective, Form form);

struct RoutedCall {
  const char* reason = nullptr;  // why the original; null: the engine
  CommState* comm = nullptr;
  ddl_collective_call call{};                 // for the engine
  std::uint64_t bytes = 0;                    // of a block, for the counters, where it goes to the original
  MPI_Datatype own_type = MPI_DATATYPE_NULL;  // of a reduction that the engine has no kernels for,
  MPI_Op own_op = MPI_OP_NULL;                // see own_reductions.hpp
  std::shared_ptr<const Blocks> blocks, in_blocks;  // where they are of unequal length
  bool is_settled = false;                          // that it is the engine's
  bool is_lasting = false;  // the types and the operation mean the same as long as the program runs
};

/// Reasons, and what all routes ask first: null where the engine has the communicator, else why not.
/// The original does not look at kOwnBlockDiffers, which is the root's alone: while it waited for the others in
/// the original, they would wait in the engine. So that is an error here.
inline constexpr const char *kErroneous = "erroneous call", *kOwnBlockDiffers = "own block differs",
                            *kNoProgressHook = "nonblocking without progress hook";
const char* find_comm(MPI_Comm comm, CommState*& found);
bool can_be_read(const Side& side);

/// What tells calls apart that are of one kind to the engine, see Call: bits.
inline constexpr std::uint8_t kBarrier = 1, kOwnReduction = 2, kUnequalBlocks = 4, kGatherV = 8,
                              kScatterV = 16, kAllToAllW = 32;

/// Of a collective that reduces. `out` counts on the root alone where there is one; `count` is that of a
/// block. Buffers as the engine wants them, but for what adapt() does.
RoutedCall route_reduction(Task task, const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm);
/// Of a collective that moves, with the sides as the program gave them: what counts on this rank is looked
/// at.
RoutedCall route_movement(Task task, const Side& in, const Side& out, MPI_Comm comm);
/// `comes_again`: the blocking call on that communicator before was a barrier, too.
RoutedCall route_barrier(MPI_Comm comm, bool comes_again);

/// Makes the copies that the engine needs and gives it these; false: MPI cannot read the program's buffers.
bool adapt_reduction(RoutedCall& route, CallBuffers& buffers);
/// The same of a nonblocking call.
bool adapt_started_reduction(RoutedCall& route, CallBuffers& buffers);
bool adapt_movement(RoutedCall& route, const Side& in, const Side& out, CallBuffers& buffers);

/// Bytes of `count` elements, for the counters; 0 for what is no type.
std::uint64_t bytes_of(int count, MPI_Datatype type);

}  // namespace ddl::mpi
