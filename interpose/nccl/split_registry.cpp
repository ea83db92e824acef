#include "interpose/nccl/split_registry.hpp"

#include <memory>

#include "interpose/nccl/config.hpp"

namespace ddl::nccl {

struct EndLease {
  void operator()(ddl_lease* lease) const { stream_api()->end_lease(lease); }
};

struct SplitRegistry {
  Creation parent;
  std::unique_ptr<ddl_lease, EndLease> lease;  // rank 0's
  std::uint64_t splits = 0;
};

void follow_splits(const Creation& parent) {
  auto registry = std::make_shared<SplitRegistry>(parent, nullptr);
  ddl_lease* lease = nullptr;
  ddl_problem unsaid;  // without it splits get no plans
  if (parent.rank == 0 && stream_api()->lease(&parent.id, &lease, &unsaid) == DDL_STREAM_OK)
    registry->lease.reset(lease);
  attach(*parent.at, [&](Comm& record) { record.splits = std::move(registry); });
}

std::optional<Creation> next_split(ncclComm_t parent, int color, ncclComm_t* at, const ncclConfig_t* config) {
  CommPtr record = look_up(parent);
  if (!record || !record->splits || !at) return std::nullopt;
  GivenConfig given = copy_of(config);
  if (!given.trouble.empty()) return std::nullopt;
  SplitRegistry& registry = *record->splits;
  Creation split = registry.parent;
  split.at = at;
  stream_api()->part_of(&registry.parent.id, ++registry.splits, color, &split.id);
  if (!given.bytes.empty()) {
    split.config = std::move(given.bytes);
    split.texts = std::move(given.texts);
  }
  if (color < 0 || !is_blocking(split.config)) return std::nullopt;
  return split;
}

}  // namespace ddl::nccl
