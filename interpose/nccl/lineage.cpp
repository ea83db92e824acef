#include "interpose/nccl/lineage.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "interpose/nccl/config.hpp"

namespace ddl::nccl {
namespace {

struct LetGo {
  void operator()(ddl_keeper* keeper) const { engine()->let_go(keeper); }
};

struct Lineage {
  Creation parent;
  std::unique_ptr<ddl_keeper, LetGo> keeper;  // rank 0's
  std::uint64_t splits = 0;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, Lineage> lineages;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

}  // namespace

void found_lineage(const Creation& parent) {
  Lineage lineage{parent, nullptr};
  ddl_keeper* keeper = nullptr;
  ddl_problem unsaid;  // without it splits get no plans
  if (parent.rank == 0 && engine()->keep(&parent.id, &keeper, &unsaid) == DDL_NATIVE_OK)
    lineage.keeper.reset(keeper);
  std::lock_guard lock(table().mutex);
  table().lineages.insert_or_assign(*parent.at, std::move(lineage));
}

std::optional<Creation> next_split(ncclComm_t parent, int color, ncclComm_t* at, const ncclConfig_t* config) {
  std::lock_guard lock(table().mutex);
  auto found = table().lineages.find(parent);
  if (found == table().lineages.end() || !at) return std::nullopt;
  GivenConfig given = copy_of(config);
  if (!given.trouble.empty()) return std::nullopt;
  Creation split = found->second.parent;
  split.at = at;
  engine()->part_of(&found->second.parent.id, ++found->second.splits, color, &split.id);
  if (!given.bytes.empty()) {
    split.config = std::move(given.bytes);
    split.texts = std::move(given.texts);
  }
  if (color < 0 || !is_blocking(split.config)) return std::nullopt;
  return split;
}

void end_lineage(ncclComm_t comm) {
  Lineage ended;  // outside the lock: its keeper says goodbye
  std::lock_guard lock(table().mutex);
  auto found = table().lineages.find(comm);
  if (found == table().lineages.end()) return;
  ended = std::move(found->second);
  table().lineages.erase(found);
}

}  // namespace ddl::nccl
