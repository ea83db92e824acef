#include "interpose/nccl/split_registry.hpp"

#include <memory>

#include "interpose/nccl/config.hpp"

namespace ddl::nccl {

struct EndLease {
  void operator()(ddl_lease* lease) const { engine()->end_lease(lease); }
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
  if (parent.rank == 0 && engine()->lease(&parent.id, &lease, &unsaid) == DDL_STREAM_OK)
    registry->lease.reset(lease);
  attach(*parent.at, [&](Comm& its) { its.splits = std::move(registry); });
}

std::optional<Creation> next_split(ncclComm_t parent, int color, ncclComm_t* at, const ncclConfig_t* config) {
  CommPtr its = look_up(parent);
  if (!its || !its->splits || !at) return std::nullopt;
  GivenConfig given = copy_of(config);
  if (!given.trouble.empty()) return std::nullopt;
  SplitRegistry& registry = *its->splits;
  Creation split = registry.parent;
  split.at = at;
  engine()->part_of(&registry.parent.id, ++registry.splits, color, &split.id);
  if (!given.bytes.empty()) {
    split.config = std::move(given.bytes);
    split.texts = std::move(given.texts);
  }
  if (color < 0 || !is_blocking(split.config)) return std::nullopt;
  return split;
}

}  // namespace ddl::nccl
