#include "interpose/mpi/vector_routes.hpp"

#include <algorithm>

#include "core/api/c_types.hpp"
#include "interpose/mpi/by_thread.hpp"
#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

ddl_collective_call bytes_call(ddl_kind kind, const CommState& comm) {
  return {kind,    nullptr, nullptr, 0,  DDL_UINT8, DDL_BOR, 0, 0,
          nullptr, nullptr, nullptr, {}, {},        0,       0, number_on(comm)};
}

// The blocks of one side are those; the other side has one, this rank's.
void use_blocks(RoutedCall& route, std::shared_ptr<const Blocks> blocks) {
  ddl_collective_call& call = route.call;
  route.blocks = std::move(blocks);
  call.count = route.blocks->longest;
  call.variant |= kUnequalBlocks;
  call.in_blocks.counts = call.out_blocks.counts = route.blocks->counts.data();
  call.lengths = route.blocks->hash;
}

bool is_on_device(const void* one, const void* other) { return state().api->is_device(one, other) != 0; }

// Where all blocks have bytes that the engine can work on in place.
bool are_dense(const BlockSide& side, Rank ranks) {
  MPI_Datatype known = MPI_DATATYPE_NULL;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const MPI_Datatype type = side.type_of(rank);
    if (side.counts[rank] > 0 && type != known && !is_dense(type)) return false;
    known = side.counts[rank] > 0 ? type : known;
  }
  return true;
}

// Of two lone blocks.
struct LoneLists {
  struct {
    std::vector<int> counts, places;
  } both[2];
  int last = 0;
};

// One block and those of all others, which are empty. Two at a time are in use.
BlockSide lone_block(const Side& side, Rank at, int displacement, Rank ranks) {
  LoneLists& lists = by_thread<LoneLists>();
  auto& [counts, places] = lists.both[lists.last = 1 - lists.last];
  counts.assign(static_cast<std::size_t>(ranks), 0);
  places.assign(static_cast<std::size_t>(ranks), 0);
  if (at >= 0) {
    counts[static_cast<std::size_t>(at)] = side.count;
    places[static_cast<std::size_t>(at)] = displacement;
  }
  return {side.buffer, counts.data(), places.data(), side.type};
}

BlockSide no_blocks(Rank ranks) { return lone_block({nullptr, 0, MPI_BYTE}, -1, 0, ranks); }

// The root's own block among its many.
BlockSide own_block(const BlockSide& many, Rank root, Rank ranks) {
  return lone_block({many.buffer, many.counts[root], many.type}, root, many.displacements[root], ranks);
}

// The side of the many blocks and that of the one, on this rank.
struct Sides {
  BlockSide many, one;
};
std::optional<Sides> sides_of(const Side& one, const BlockSide& many, int root, MPI_Comm comm) {
  const CommState* known = state().active ? state_of(comm) : nullptr;
  if (!known || root < 0 || root >= known->size) return std::nullopt;
  const Rank ranks = known->size;
  if (known->me != root) return Sides{no_blocks(ranks), lone_block(one, root, 0, ranks)};
  if (!many.counts || !many.displacements) return std::nullopt;
  return Sides{many,
               one.buffer == MPI_IN_PLACE ? own_block(many, root, ranks) : lone_block(one, root, 0, ranks)};
}

const char* find_all_gather_v_route(RoutedCall& route, const Side& in, const BlockSide& out, MPI_Comm comm) {
  if (const char* reason = find_comm(comm, route.comm)) return reason;
  std::shared_ptr<const Blocks> blocks = route.comm->blocks.find(out, route.comm->size);
  const bool in_place = in.buffer == MPI_IN_PLACE;
  if (!blocks || out.buffer == MPI_IN_PLACE || (!in_place && !can_be_read(in))) return kErroneous;
  if (!in_place && bytes_of(in.count, in.type) != blocks->counts[static_cast<std::size_t>(route.comm->me)])
    return kErroneous;
  route.call = bytes_call(DDL_ALL_GATHER, *route.comm);
  route.is_lasting = true;
  use_blocks(route, std::move(blocks));
  route.bytes = route.blocks->longest;
  return route.bytes > 0 && !out.buffer && is_dense(out.type) ? kErroneous : nullptr;
}

const char* find_pairs_route(RoutedCall& route, Collective collective, const Pairs& pairs, int root,
                             MPI_Comm comm) {
  if (const char* reason = find_comm(comm, route.comm)) return reason;
  const Rank ranks = route.comm->size;
  const auto me = static_cast<std::size_t>(route.comm->me);
  auto are_right = [&](const BlockSide& side, std::shared_ptr<const Blocks>& blocks) {
    blocks = route.comm->blocks.find(side, ranks);
    return blocks && (side.buffer || blocks->longest == 0 || !are_dense(side, ranks));
  };
  const BlockSide& in = pairs.in_place ? pairs.out : pairs.in;
  if (in.buffer == MPI_IN_PLACE || pairs.out.buffer == MPI_IN_PLACE) return kErroneous;
  const bool is_rooted = collective == Collective::gather_v || collective == Collective::scatter_v;
  if (!are_right(pairs.out, route.blocks) || !are_right(in, route.in_blocks)) return kErroneous;
  if (route.in_blocks->counts[me] != route.blocks->counts[me])
    return is_rooted && ranks > 1 ? kOwnBlockDiffers : kErroneous;
  route.bytes = std::max(route.in_blocks->longest, route.blocks->longest);
  route.call = bytes_call(DDL_ALL_TO_ALL, *route.comm);
  route.is_lasting = true;
  route.call.count = route.bytes;
  route.call.pairwise = collective == Collective::gather_v    ? DDL_PAIRS_GATHER
                        : collective == Collective::scatter_v ? DDL_PAIRS_SCATTER
                                                              : DDL_PAIRS;
  route.call.lengths = static_cast<std::uint64_t>(root) + 1;
  route.call.variant = kUnequalBlocks;
  if (collective == Collective::gather_v) route.call.variant |= kGatherV;
  if (collective == Collective::scatter_v) route.call.variant |= kScatterV;
  if (collective == Collective::all_to_all_w) route.call.variant |= kAllToAllW;
  return nullptr;
}

}  // namespace

RoutedCall route_all_gather_v(const Side& in, const BlockSide& out, MPI_Comm comm) {
  RoutedCall route;
  route.reason = find_all_gather_v_route(route, in, out, comm);
  return route;
}

// What the program gives without copies stays where it is; else all blocks lie one after the other.
bool adapt_all_gather_v(RoutedCall& route, const Side& in, const BlockSide& out, CallBuffers& buffers) {
  ddl_collective_call& call = route.call;
  CommState& comm = *route.comm;
  const bool in_place = in.buffer == MPI_IN_PLACE;
  const bool on_device = is_on_device(in_place ? out.buffer : in.buffer, out.buffer);
  const bool unpacks = on_device || !is_dense(out.type),
             packs = in_place ? unpacks : on_device || !is_dense(in.type);
  if ((packs || unpacks) && (route.reason = state().api->left_to_original(comm.engine, &call))) return true;
  call.out = const_cast<void*>(out.buffer);
  if (unpacks) {
    use_blocks(route, comm.blocks.find(list_blocks(out, comm.size, Places::packed)));
    call.out = buffers.unpack_later(out, comm.size, route.blocks->total);
  }
  call.out_blocks.offsets = route.blocks->offsets.data();
  const auto me = static_cast<std::size_t>(comm.me);
  const std::uint64_t own = route.blocks->counts[me];
  if (own == 0) return true;
  if (!packs)
    call.in = in_place ? static_cast<std::byte*>(call.out) + call.out_blocks.offsets[me] : in.buffer;
  else if (in_place)
    call.in = buffers.pack({out.buffer, out.counts[me], out.type},
                           static_cast<std::uint64_t>(out.displacements[me]),
                           static_cast<std::uint64_t>(out.counts[me]), own);
  else
    call.in = buffers.pack(in, 0, static_cast<std::uint64_t>(in.count), own);
  return call.in != nullptr;
}

RoutedCall route_reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm) {
  CommState* known = state().active && counts ? state_of(comm) : nullptr;
  const Rank ranks = known ? known->size : 0;
  const int own = ranks > 0 ? counts[known->me] : 0;
  RoutedCall route = route_reduction({Kind::reduce_scatter}, in, out, own, type, op, comm);
  if (!route.reason && !counts) route.reason = kErroneous;
  if (route.reason || std::all_of(counts, counts + ranks, [&](int count) { return count == counts[0]; }))
    return route;
  std::uint64_t parts = 1;  // of an element; those of the program's own operations are one
  if (Reduction reduction; route.own_op == MPI_OP_NULL) find_reduction(type, op, reduction, parts);
  const std::span<const Block> list = list_blocks(counts, ranks, parts);
  if (list.empty()) return route.reason = kErroneous, route;
  use_blocks(route, known->blocks.find(list));
  route.call.in_blocks.offsets = route.blocks->offsets.data();
  route.bytes = route.call.count * size_of(from_c(route.call.type));
  return route;
}

Pairs pairs_of_gather(const Side& one, const BlockSide& many, int root, MPI_Comm comm) {
  const std::optional<Sides> sides = sides_of(one, many, root, comm);
  return sides ? Pairs{sides->one, sides->many} : Pairs{};
}

Pairs pairs_of_scatter(const BlockSide& many, const Side& one, int root, MPI_Comm comm) {
  const std::optional<Sides> sides = sides_of(one, many, root, comm);
  return sides ? Pairs{sides->many, sides->one} : Pairs{};
}

RoutedCall route_pairs(Collective collective, const Pairs& pairs, int root, MPI_Comm comm) {
  RoutedCall route;
  route.reason = find_pairs_route(route, collective, pairs, root, comm);
  return route;
}

bool adapt_pairs(RoutedCall& route, const Pairs& pairs, CallBuffers& buffers) {
  ddl_collective_call& call = route.call;
  CommState& comm = *route.comm;
  const BlockSide &in = pairs.in_place ? pairs.out : pairs.in, &out = pairs.out;
  const bool on_device = is_on_device(in.buffer, out.buffer);
  const bool packs = on_device || pairs.in_place || !are_dense(in, comm.size);
  const bool unpacks = on_device || !are_dense(out, comm.size);
  call.in_blocks.counts = route.in_blocks->counts.data();
  call.out_blocks.counts = route.blocks->counts.data();
  if ((packs || unpacks) && (route.reason = state().api->left_to_original(comm.engine, &call))) return true;
  auto pack_places = [&](const BlockSide& side) {
    return comm.blocks.find(list_blocks(side, comm.size, Places::packed));
  };
  const bool own_stays = pairs.in_place && !unpacks;
  if (packs && !own_stays) route.in_blocks = pack_places(in);
  if (unpacks) route.blocks = pack_places(out);
  call.in_blocks = {route.in_blocks->counts.data(), route.in_blocks->offsets.data()};
  call.out_blocks = {route.blocks->counts.data(), route.blocks->offsets.data()};
  call.out =
      unpacks ? buffers.unpack_later(out, comm.size, route.blocks->total) : const_cast<void*>(out.buffer);
  if (own_stays) {
    call.in = buffers.pack_for_others(in, comm.size, comm.me, route.in_blocks->total);
    call.in_blocks.offsets = buffers.offsets();
  } else {
    call.in = packs ? buffers.pack(in, comm.size, route.in_blocks->total) : in.buffer;
  }
  return !packs || call.in;
}

}  // namespace ddl::mpi
