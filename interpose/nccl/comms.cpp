#include "interpose/nccl/comms.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "interpose/nccl/creation.hpp"
#include "interpose/nccl/group.hpp"
#include "interpose/nccl/hierarchies.hpp"
#include "interpose/nccl/pending.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/split_registry.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

struct Known {
  int rank, size;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, Known> comms;
  CommFacts facts;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

}  // namespace

void remember(ncclComm_t comm, int rank, int size) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  bool is_new = t.comms.insert_or_assign(comm, Known{rank, size}).second;
  t.facts.created += is_new;
  if (rank < 0 || size < t.facts.largest) return;
  t.facts.lowest = size > t.facts.largest ? rank : std::min(rank, t.facts.lowest);
  t.facts.largest = size;
}

void forget(ncclComm_t comm) {
  Table& t = table();
  bool was_last;
  {
    std::lock_guard lock(t.mutex);
    was_last = t.comms.erase(comm) == 1 && t.comms.empty();
  }
  if (was_last) write_report();
}

int size_of(ncclComm_t comm) {
  Table& t = table();
  {
    std::lock_guard lock(t.mutex);
    auto known = t.comms.find(comm);
    if (known != t.comms.end() && known->second.size > 0) return known->second.size;
  }
  int size = 0, rank = -1;
  if (original::ncclCommCount(comm, &size) != ncclSuccess || size < 1) return 1;
  if (original::ncclCommUserRank(comm, &rank) != ncclSuccess) rank = -1;
  remember(comm, rank, size);
  return size;
}

CommFacts comm_facts() {
  std::lock_guard lock(table().mutex);
  return table().facts;
}

ncclResult_t created(ncclResult_t result, ncclComm_t* at, int rank, int size) {
  if (!went_well(result) || !at) return result;
  if (in_group())
    note_created_in_group(at, rank, size);
  else if (*at)
    remember(*at, rank, size);
  return result;
}

ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  if (is_ours(comm))
    return guarded([&] {
      return create_with("ncclCommSplit", {child, 0, 0, {}, {}, {}, nullptr, comm, color, key}, config);
    });
  open_group();
  return guarded([&] { return split_original(comm, color, key, child, config); });
}

ncclResult_t comm_shrink(ncclComm_t comm, int* excluded, int excluded_n, ncclComm_t* child,
                         ncclConfig_t* config, int flags) {
  if (is_ours(comm)) return refuse_ours(comm, "ncclCommShrink");
  open_group();
  return guarded([&] {
    ncclResult_t result = original::ncclCommShrink(comm, excluded, excluded_n, child, config, flags);
    return created(result, child, -1, excluded_n < 0 ? 0 : size_of(comm) - excluded_n);
  });
}

// Forgotten before the original frees the handle: another thread may get the same one at once.
ncclResult_t comm_destroy(ncclComm_t handle) {
  ncclComm_t comm = take_real(handle);
  if (handle && !comm) return ncclSuccess;
  if (is_ours(comm)) return guarded([&] { return forget(comm), destroy_ours(comm); });
  finish_calls_on(comm);
  open_group();
  return guarded([&] { return forget(comm), forget_splits(comm), destroy_with_hierarchy(comm); });
}

ncclResult_t comm_abort(ncclComm_t handle) {
  ncclComm_t comm = take_real(handle);
  if (handle && !comm) return ncclSuccess;
  if (is_ours(comm)) return guarded([&] { return forget(comm), abort_ours(comm); });
  finish_calls_on(comm);
  open_group();
  return guarded([&] { return forget(comm), forget_splits(comm), abort_with_hierarchy(comm); });
}

ncclResult_t comm_revoke(ncclComm_t comm, int flags) {
  if (is_ours(comm)) return refuse_ours(comm, "ncclCommRevoke");
  finish_calls_on(comm);
  open_group();
  return guarded([&] { return revoke_with_hierarchy(comm, flags); });
}

}  // namespace ddl::nccl
