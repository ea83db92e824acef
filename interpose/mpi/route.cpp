#include "interpose/mpi/route.hpp"

#include <limits>

#include "core/api/c_types.hpp"
#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/own_reductions.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

bool is_root_there(Task task, const CommState& comm) {
  return !has_root(task.kind) || (task.root >= 0 && task.root < comm.size);
}

std::byte* at_block(void* buffer, Rank block, std::uint64_t bytes) {
  return static_cast<std::byte*>(buffer) + static_cast<std::uint64_t>(block) * bytes;
}

// What the program says about the sides of a movement on this rank.
struct Sides {
  Rank in_blocks, out_blocks;
  bool uses_in, uses_out;  // the buffers; not where it says MPI_IN_PLACE
  const Side* said;        // the side that tells how long a block is

  // What counts as the input is at its place in the output, or, of a scatter, the other way around.
  bool in_place() const { return (in_blocks > 0 && !uses_in) || (out_blocks > 0 && !uses_out); }
  bool is_in_place_wrongly(Kind kind) const {
    const bool in_output = in_blocks > 0 && !uses_in, in_input = out_blocks > 0 && !uses_out;
    return kind == Kind::scatter ? in_output || (in_input && in_blocks == 0)
                                 : in_input || (in_output && out_blocks == 0);
  }
};

Sides sides_of(Task task, const CommState& comm, const Side& in, const Side& out) {
  const Rank in_blocks = blocks_in(task, comm.me, comm.size),
             out_blocks = blocks_out(task, comm.me, comm.size);
  const bool uses_in = in_blocks > 0 && in.buffer != MPI_IN_PLACE;
  const bool uses_out = out_blocks > 0 && out.buffer != MPI_IN_PLACE;
  const bool out_says = task.kind == Kind::scatter ? uses_out : out_blocks > 0;
  return {in_blocks, out_blocks, uses_in, uses_out, out_says ? &out : &in};
}

bool is_right(const Side& side) { return side.count >= 0 && size_in_call(side.type); }

// MPI forbids it and Open MPI lets it pass. Other ranks, whose blocks lie elsewhere, know nothing of it, so
// it must not choose the route.
bool is_one_buffer(Task task, const Side& in, const Side& out) {
  return in.buffer == out.buffer && task.kind != Kind::broadcast;
}

// Field by field, where it is to be: a copy would read in wide pieces what has just been written in narrow
// ones, for which a processor waits.
void set_call(RoutedCall& route, ddl_kind kind, std::uint64_t count, ddl_type type, ddl_op op, Rank root,
              std::uint8_t variant) {
  ddl_collective_call& call = route.call;
  call.kind = kind;
  call.count = count;
  call.type = type;
  call.op = op;
  call.root = root;
  call.variant = variant;
  call.number = route.comm ? number_on(*route.comm) : 0;
}

// What Open MPI lets pass, as in place, where a reduction names one buffer twice.
int most_in_one_buffer(Kind kind) {
  if (kind == Kind::reduce_scatter || !state().checks_arguments) return std::numeric_limits<int>::max();
  return kind == Kind::all_reduce ? 1 : 0;
}

// Leaves it with a reason, or without.
const char* find_reduction_route(RoutedCall& route, Task task, const void* in, void* out, int count,
                                 MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (const char* reason = find_comm(comm, route.comm)) return reason;
  const CommState& known = *route.comm;
  Reduction reduction;
  std::uint64_t parts = 1;
  if (const char* reason = find_reduction(type, op, reduction, parts)) {
    const std::optional<DType> layout = layout_of_own(type, op);
    if (!layout) return reason;
    reduction = {*layout, Op::bor};
    route.own_type = type;
    route.own_op = op;
  }
  if (count < 0 || !is_root_there(task, known)) return kErroneous;
  const bool has_out = blocks_out(task, known.me, known.size) > 0;
  if (in == MPI_IN_PLACE && has_out)
    in = out;
  else if (in == MPI_IN_PLACE || (has_out && in == out && count > most_in_one_buffer(task.kind)))
    return kErroneous;
  if (count > 0 && (!in || (has_out && (!out || out == MPI_IN_PLACE)))) return kErroneous;
  const auto elements = static_cast<std::uint64_t>(count) * parts;
  route.bytes = elements * size_of(reduction.type);
  set_call(route, to_c(task.kind), elements, to_c(reduction.type), to_c(reduction.op), task.root,
           route.own_op == MPI_OP_NULL ? std::uint8_t{0} : kOwnReduction);
  route.call.in = in;
  route.call.out = has_out ? out : nullptr;
  route.is_lasting = route.own_op != MPI_OP_NULL || is_known(type);
  return nullptr;
}

const char* find_movement_route(RoutedCall& route, Task task, const Side& in, const Side& out,
                                MPI_Comm comm) {
  if (const char* reason = find_comm(comm, route.comm)) return reason;
  if (!is_root_there(task, *route.comm)) return kErroneous;
  const Sides sides = sides_of(task, *route.comm, in, out);
  const bool uses_in = sides.uses_in, uses_out = sides.uses_out;
  route.bytes = bytes_of(sides.said->count, sides.said->type);
  if (sides.is_in_place_wrongly(task.kind) || (uses_in && !can_be_read(in)) ||
      (uses_out && !can_be_read(out)))
    return kErroneous;
  if (uses_in && uses_out && bytes_of(in.count, in.type) != route.bytes)
    return has_root(task.kind) && route.comm->size > 1 ? kOwnBlockDiffers : kErroneous;
  set_call(route, to_c(task.kind), route.bytes, DDL_UINT8, DDL_BOR, task.root, 0);
  route.is_lasting = (!uses_in || is_known(in.type)) && (!uses_out || is_known(out.type));
  return nullptr;
}

// In place, a reduce-scatter reads all of the output and writes its beginning.
bool adapt_reduction(RoutedCall& route, CallBuffers& buffers, OwnReductionCall::Meanwhile meanwhile) {
  ddl_collective_call& call = route.call;
  if (route.own_op != MPI_OP_NULL) {
    call.combine = OwnReductionCall::combine;
    call.context = buffers.reduce_by(route.own_type, route.own_op, meanwhile);
  }
  const bool is_scattered = call.kind == DDL_REDUCE_SCATTER;
  const bool has_pairs = route.own_op != MPI_OP_NULL && has_gaps(route.own_type);
  if (!is_scattered && !has_pairs) return true;
  const std::uint64_t size = size_of(from_c(call.type));
  const std::uint64_t own =
      route.blocks ? route.blocks->counts[static_cast<std::size_t>(route.comm->me)] : call.count;
  // The engine itself copies no blocks of unequal length from a device.
  const bool on_device = route.blocks && state().api->is_device(call.in, call.out) != 0;
  if (has_pairs && call.out)
    call.out = buffers.copy_pairs_later(call.out, own, own * size, route.own_type);
  else if (is_scattered && (on_device || call.in == call.out))
    call.out = buffers.copy_later(call.out, own * size);
  if (on_device) {
    const std::uint64_t bytes = route.blocks->total * size;
    call.in = buffers.pack({call.in, 0, MPI_BYTE}, 0, bytes, bytes);
  }
  return call.in != nullptr;
}

}  // namespace

const char* find_comm(MPI_Comm comm, CommState*& found) {
  if (!state().active) return "engine is off";
  found = state_of(comm);
  if (!found) return "communicator unknown to the engine";
  return found->engine ? nullptr : found->reason;
}

bool can_be_read(const Side& side) {
  // Else it is MPI_BOTTOM.
  return is_right(side) && (side.buffer || bytes_of(side.count, side.type) == 0 || !is_dense(side.type));
}

const char* name_of(Collective collective, Form form) {
  static constexpr const char* names[kCollectives][2] = {
      {"MPI_Allreduce", "MPI_Iallreduce"},
      {"MPI_Bcast", "MPI_Ibcast"},
      {"MPI_Reduce", "MPI_Ireduce"},
      {"MPI_Allgather", "MPI_Iallgather"},
      {"MPI_Reduce_scatter", "MPI_Ireduce_scatter"},
      {"MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block"},
      {"MPI_Alltoall", "MPI_Ialltoall"},
      {"MPI_Gather", "MPI_Igather"},
      {"MPI_Scatter", "MPI_Iscatter"},
      {"MPI_Barrier", "MPI_Ibarrier"},
      {"MPI_Allgatherv", "MPI_Iallgatherv"},
      {"MPI_Gatherv", "MPI_Igatherv"},
      {"MPI_Scatterv", "MPI_Iscatterv"},
      {"MPI_Alltoallv", "MPI_Ialltoallv"},
      {"MPI_Alltoallw", "MPI_Ialltoallw"}};
  return names[static_cast<int>(collective)][static_cast<int>(form)];
}

std::uint64_t bytes_of(int count, MPI_Datatype type) {
  return count > 0 ? static_cast<std::uint64_t>(count) * size_of_type(type).value_or(0) : 0;
}

RoutedCall route_reduction(Task task, const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm) {
  RoutedCall route;
  route.reason = find_reduction_route(route, task, in, out, count, type, op, comm);
  if (!route.reason) return route;
  route.comm = nullptr;
  route.own_op = MPI_OP_NULL;
  route.bytes = bytes_of(count, type);
  return route;
}

RoutedCall route_movement(Task task, const Side& in, const Side& out, MPI_Comm comm) {
  RoutedCall route;
  route.reason = find_movement_route(route, task, in, out, comm);
  return route;
}

RoutedCall route_barrier(MPI_Comm comm, bool comes_again) {
  RoutedCall route;
  route.reason = find_comm(comm, route.comm);
  // The engine has no barrier: an all-reduce ends when all ranks have begun it. Of the operations one says
  // that this is all that matters: then the engine may let the first rank leave first, since the others will
  // mostly wait for it next. Who makes one barrier after the other will not.
  set_call(route, DDL_ALL_REDUCE, 1, DDL_UINT8, comes_again ? DDL_BAND : DDL_BOR, 0, kBarrier);
  route.is_lasting = true;
  return route;
}

bool adapt_reduction(RoutedCall& route, CallBuffers& buffers) {
  using Meanwhile = OwnReductionCall::Meanwhile;
  return adapt_reduction(route, buffers,
                         state().several_threads ? Meanwhile::may_be_freed : Meanwhile::stays);
}

bool adapt_started_reduction(RoutedCall& route, CallBuffers& buffers) {
  return adapt_reduction(route, buffers, OwnReductionCall::Meanwhile::may_be_freed);
}

// The side that has more blocks holds the other where they are one; see collective/call.hpp.
bool adapt_movement(RoutedCall& route, const Side& in, const Side& out, CallBuffers& buffers) {
  ddl_collective_call& call = route.call;
  const CommState& comm = *route.comm;
  const Task task{from_c(call.kind), call.root};
  const Sides sides = sides_of(task, comm, in, out);
  const std::uint64_t block = route.bytes;
  auto elements = [](const Side& side, Rank blocks) {
    return static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(side.count);
  };
  auto bytes = [&](Rank blocks) { return static_cast<std::uint64_t>(blocks) * block; };
  const bool packs =
      sides.uses_in && (!is_dense(in.type) || (sides.uses_out && is_one_buffer(task, in, out)));
  const bool unpacks = sides.uses_out && !is_dense(out.type);
  // What the original is given needs no copies.
  const bool copies = packs || unpacks || (task.kind == Kind::all_to_all && sides.in_place());
  if (copies && !route.is_settled && (route.reason = state().api->left_to_original(comm.engine, &call)))
    return true;
  void* to = const_cast<void*>(out.buffer);
  const bool is_source = task.kind == Kind::broadcast && sides.in_blocks > 0;
  if (sides.uses_out && !is_source) {
    const std::uint64_t number = elements(out, sides.out_blocks);
    call.out = unpacks ? buffers.unpack_later(out, number, bytes(sides.out_blocks)) : to;
  }
  if (sides.uses_in) {
    const std::uint64_t number = elements(in, sides.in_blocks);
    call.in = packs ? buffers.pack(in, 0, number, bytes(sides.in_blocks)) : in.buffer;
    if (!call.in) return false;
  }
  if (is_source) call.out = const_cast<void*>(call.in);
  if (!sides.in_place()) return true;
  if (task.kind == Kind::scatter) {
    call.out = at_block(const_cast<void*>(call.in), comm.me, block);
  } else if (task.kind == Kind::all_to_all) {
    // Between hosts blocks may have to lie one after the other.
    const bool own_stays = !unpacks && state().api->is_within_host(comm.engine) &&
                           !state().api->is_device(out.buffer, out.buffer);
    call.in = own_stays ? buffers.pack_for_others(out, comm.size, comm.me, block)
                        : buffers.pack(out, 0, elements(out, sides.out_blocks), bytes(sides.out_blocks));
    if (own_stays && call.in) call.in_blocks.offsets = buffers.offsets();
  } else {  // a gather
    std::byte* own = at_block(call.out, comm.me, block);
    const auto first = static_cast<std::uint64_t>(comm.me) * static_cast<std::uint64_t>(out.count);
    call.in = own;
    if (unpacks) call.in = buffers.pack(out, first, static_cast<std::uint64_t>(out.count), block);
  }
  return call.in != nullptr;
}

}  // namespace ddl::mpi
