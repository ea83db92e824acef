#include "interpose/nccl/split_registry.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "interpose/nccl/config.hpp"

namespace ddl::nccl {
namespace {

struct EndLease {
  void operator()(ddl_lease* lease) const { engine()->end_lease(lease); }
};

struct SplitRegistry {
  Creation parent;
  std::unique_ptr<ddl_lease, EndLease> lease;  // rank 0's
  std::uint64_t splits = 0;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, SplitRegistry> registries;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

}  // namespace

void follow_splits(const Creation& parent) {
  SplitRegistry registry{parent, nullptr};
  ddl_lease* lease = nullptr;
  ddl_problem unsaid;  // without it splits get no plans
  if (parent.rank == 0 && engine()->lease(&parent.id, &lease, &unsaid) == DDL_STREAM_OK)
    registry.lease.reset(lease);
  std::lock_guard lock(table().mutex);
  table().registries.insert_or_assign(*parent.at, std::move(registry));
}

std::optional<Creation> next_split(ncclComm_t parent, int color, ncclComm_t* at, const ncclConfig_t* config) {
  std::lock_guard lock(table().mutex);
  auto found = table().registries.find(parent);
  if (found == table().registries.end() || !at) return std::nullopt;
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

void forget_splits(ncclComm_t comm) {
  SplitRegistry ended;  // outside the lock: its lease says goodbye
  std::lock_guard lock(table().mutex);
  auto found = table().registries.find(comm);
  if (found == table().registries.end()) return;
  ended = std::move(found->second);
  table().registries.erase(found);
}

}  // namespace ddl::nccl
