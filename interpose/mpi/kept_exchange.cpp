#include "interpose/mpi/kept_exchange.hpp"

#include <algorithm>
#include <bit>

#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

// The lists that the engine has now are read by calls that are under way.
Blocks& lists_to_write(std::shared_ptr<Blocks>& own, std::shared_ptr<const Blocks>& given) {
  constexpr long kOwnAndGiven = 2;
  if (!own || own.use_count() > kOwnAndGiven) own = std::make_shared<Blocks>();
  given = own;
  return *own;
}

std::uint64_t longest_of(const BlockSide& side, Rank ranks) {
  const int most = *std::max_element(side.counts, side.counts + ranks);
  return most < 0 ? 0 : static_cast<std::uint64_t>(most) * size_of_known(side.type);
}

bool are_there(const BlockSide& side) { return side.counts && side.displacements; }

// A block of an all-gather is where this rank says, or in place among the others.
bool set_own_block(KeptCall& kept, const Made& made, const Blocks& blocks, const Side& own, Rank me) {
  const auto at = static_cast<std::size_t>(me);
  const bool in_place = made.in == MPI_IN_PLACE;
  if (!in_place && (!can_be_read(own) || bytes_of(own.count, own.type) != blocks.counts[at])) return false;
  using Which = BufferOf::Which;
  kept.in = {blocks.counts[at] == 0 ? Which::none
             : in_place             ? Which::out
                                    : Which::in,
             in_place ? blocks.offsets[at] : 0};
  return true;
}

}  // namespace

bool has_alike_by_lists(Collective collective) {
  return collective == Collective::all_gather_v || collective == Collective::gather_v ||
         collective == Collective::scatter_v || collective == Collective::all_to_all_v;
}

// Of all but an all-gather nobody knows the longest block, and one plan makes them all.
SaidCall::Words alike_by_lists(const SaidCall& said, std::uint64_t longest) {
  const bool has_classes = said.collective() == Collective::all_gather_v && longest > 0;
  return said.alike_by_lists(has_classes ? static_cast<std::uint32_t>(std::bit_width(longest - 1)) : 0);
}

const KeptCall* kept_alike(CommState& comm, const Made& made, const BlockSide* in, const BlockSide& out,
                           const Side* own) {
  const Rank ranks = comm.size;
  if (!are_there(out) || (in && !are_there(*in))) return nullptr;
  const SaidCall::Words alike = alike_by_lists(made.said, in ? 0 : longest_of(out, ranks));
  KeptCall* one = comm.kept.find_alike(alike, made.said, made.lists, ranks);
  if (!one || one->is_for(made.said, made.lists, ranks)) return one;
  one->note_counts(std::nullopt, {}, ranks);  // until all of it is
  Blocks& out_blocks = lists_to_write(one->alike->blocks, one->blocks);
  if (!out_blocks.set(out, ranks, size_of_known(out.type))) return nullptr;
  ddl_counts counts{out_blocks.longest, {}, {out_blocks.counts.data(), out_blocks.offsets.data()}, 0};
  if (in) {
    Blocks& in_blocks = lists_to_write(one->alike->in_blocks, one->in_blocks);
    const auto me = static_cast<std::size_t>(comm.me);
    if (!in_blocks.set(*in, ranks, size_of_known(in->type)) || in_blocks.counts[me] != out_blocks.counts[me])
      return nullptr;
    counts.count = std::max(in_blocks.longest, out_blocks.longest);
    counts.in_blocks = {in_blocks.counts.data(), in_blocks.offsets.data()};
    counts.lengths = one->alike->lengths;
  } else {
    if (!set_own_block(*one, made, out_blocks, *own, comm.me)) return nullptr;
    counts.in_blocks.counts = counts.out_blocks.counts;
    counts.lengths = out_blocks.hash;
  }
  if (!state().api->recount(comm.engine, one->call, &counts)) return nullptr;
  one->note_counts(made.said.counts(), made.lists, ranks);
  return one;
}

}  // namespace ddl::mpi
