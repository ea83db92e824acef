#include "interpose/mpi/blocks.hpp"

#include <algorithm>

#include "interpose/mpi/by_thread.hpp"
#include "interpose/mpi/made_types.hpp"

namespace ddl::mpi {
namespace {

struct LastList {
  std::vector<Block> blocks;
};

std::vector<Block>& empty_list() {
  std::vector<Block>& list = by_thread<LastList>().blocks;
  list.clear();
  return list;
}

std::uint64_t end_of(const std::vector<Block>& packed) {
  return packed.empty() ? 0 : static_cast<std::uint64_t>(packed.back().offset) + packed.back().count;
}

Blocks made_of(std::span<const Block> list) {
  Blocks blocks;
  blocks.set(list.size(), [&](std::size_t i) { return list[i]; });
  return blocks;
}

}  // namespace

bool Blocks::set(const BlockSide& side, Rank ranks, std::uint64_t size) {
  const auto many = static_cast<std::size_t>(ranks);
  const bool is_right =
      size > 0 && std::none_of(side.counts, side.counts + many, [](int n) { return n < 0; });
  if (!is_right) return false;
  const auto extent = static_cast<std::int64_t>(size);
  set(many, [&](std::size_t i) {
    return Block{static_cast<std::uint64_t>(side.counts[i]) * size, side.displacements[i] * extent};
  });
  return side.buffer || total == 0;  // else it is MPI_BOTTOM
}

std::shared_ptr<const Blocks> BlockCache::find(std::span<const Block> list) {
  for (const Kept& kept : kept_.entries)
    if (std::equal(kept.list.begin(), kept.list.end(), list.begin(), list.end())) return kept.blocks;
  const auto blocks = std::make_shared<const Blocks>(made_of(list));
  kept_.add({{list.begin(), list.end()}, blocks});
  return blocks;
}

bool BlockCache::Said::is(const BlockSide& side, const void* side_type) const {
  return type == side_type && std::equal(counts.begin(), counts.end(), side.counts) &&
         std::equal(displacements.begin(), displacements.end(), side.displacements);
}

std::shared_ptr<const Blocks> BlockCache::find(const BlockSide& side, Rank ranks) {
  const auto many = static_cast<std::size_t>(ranks);
  const bool is_kept = !side.types && side.counts && side.displacements;
  const void* type = is_kept ? lasting_name(side.type) : nullptr;
  for (const Said& said : said_.entries)
    if (is_kept && said.is(side, type)) return said.blocks;
  const std::span<const Block> list = list_blocks(side, ranks, Places::given);
  if (list.empty()) return nullptr;
  std::shared_ptr<const Blocks> blocks = find(list);
  if (is_kept)
    said_.add(
        {type, {side.counts, side.counts + many}, {side.displacements, side.displacements + many}, blocks});
  return blocks;
}

std::span<const Block> list_blocks(const BlockSide& side, Rank ranks, Places places) {
  std::vector<Block>& list = empty_list();
  if (!side.counts || !side.displacements) return {};
  MPI_Datatype known = MPI_DATATYPE_NULL;
  MPI_Aint extent = 0;
  std::uint64_t size = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const MPI_Datatype type = side.type_of(rank);
    if (side.counts[rank] < 0) return {};
    if (rank == 0 || type != known) {
      const std::optional<std::uint64_t> found = size_in_call(type);
      if (!found) return {};
      size = *found;
      extent = extent_of(type);
      known = type;
    }
    const auto bytes = static_cast<std::uint64_t>(side.counts[rank]) * size;
    const std::int64_t given = side.displacements[rank] * (side.types ? 1 : extent);
    list.push_back({bytes, places == Places::given ? given : static_cast<std::int64_t>(end_of(list))});
  }
  return list;
}

std::span<const Block> list_blocks(const int counts[], Rank ranks, std::uint64_t elements) {
  std::vector<Block>& list = empty_list();
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (counts[rank] < 0) return {};
    list.push_back(
        {static_cast<std::uint64_t>(counts[rank]) * elements, static_cast<std::int64_t>(end_of(list))});
  }
  return list;
}

}  // namespace ddl::mpi
