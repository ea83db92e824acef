#include "interpose/nccl/comms.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "interpose/nccl/creation.hpp"
#include "interpose/nccl/group.hpp"
#include "interpose/nccl/hierarchies.hpp"
#include "interpose/nccl/pending.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/split_registry.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

struct Table {
  std::atomic<bool> special{false};  // a record was ever more than a rank and a size
  std::mutex mutex;                  // of what follows; held for a look alone
  std::unordered_map<ncclComm_t, CommPtr> comms;
  CommFacts facts;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

// Before the program has the handle: a call that passes looks nothing up.
void note_special(Table& t) {
  t.special.store(true, std::memory_order_release);
  is_watched.store(true, std::memory_order_release);
}

// The table is locked.
CommPtr& record_of(Table& t, ncclComm_t comm) {
  CommPtr& record = t.comms[comm];
  if (!record) record = std::make_shared<Comm>(comm, Comm::Owner::original);
  return record;
}

}  // namespace

std::shared_ptr<StreamComm> Comm::stream() const {
  std::lock_guard lock(mutex);
  return locked_stream;
}

Promise Comm::promise() const {
  std::lock_guard lock(mutex);
  return locked_promise;
}

CommPtr find(ncclComm_t comm) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto found = t.comms.find(comm);
  return found == t.comms.end() ? nullptr : found->second;
}

CommPtr look_up(ncclComm_t comm) {
  return table().special.load(std::memory_order_acquire) ? find(comm) : nullptr;
}

CommPtr find_ours(ncclComm_t comm) {
  CommPtr record = look_up(comm);
  return record && record->is_ours() ? record : nullptr;
}

CommPtr add(ncclComm_t comm, Comm::Owner owner) {
  Table& t = table();
  auto record = std::make_shared<Comm>(comm, owner);
  std::lock_guard lock(t.mutex);
  t.comms[comm] = record;
  note_special(t);
  return record;
}

void attach(ncclComm_t comm, const std::function<void(Comm& record)>& write) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  write(*record_of(t, comm));
  note_special(t);
}

void for_each(const std::function<void(Comm& record)>& body) {
  std::lock_guard lock(table().mutex);
  for (const auto& [comm, record] : table().comms) body(*record);
}

void remember(ncclComm_t comm, int rank, int size) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  Comm& record = *record_of(t, comm);
  if (!std::exchange(record.remembered, true)) {
    ++t.facts.alive;
    ++t.facts.created;
  }
  record.rank = rank;
  record.size = size;
  if (rank < 0 || size < t.facts.largest) return;
  t.facts.lowest = size > t.facts.largest ? rank : std::min(rank, t.facts.lowest);
  t.facts.largest = size;
}

CommPtr forget(ncclComm_t comm) {
  Table& t = table();
  CommPtr record;
  bool was_last = false;
  {
    std::lock_guard lock(t.mutex);
    auto found = t.comms.find(comm);
    if (found == t.comms.end()) return nullptr;
    record = found->second;
    if (record->owner == Comm::Owner::original) t.comms.erase(found);
    if (std::exchange(record->remembered, false)) was_last = --t.facts.alive == 0;
  }
  if (was_last) write_report();
  return record;
}

int size_of(ncclComm_t comm) {
  {
    std::lock_guard lock(table().mutex);
    auto known = table().comms.find(comm);
    if (known != table().comms.end() && known->second->size > 0) return known->second->size;
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
      return create_with("ncclCommSplit",
                         {.at = child, .ranks = 0, .rank = 0, .parent = comm, .color = color, .key = key},
                         config);
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
  if (!handle && !next().ncclCommDestroy) return ncclSuccess;  // what NCCL says to none
  ncclComm_t comm = end_promise(handle);
  if (handle && !comm) return ncclSuccess;
  if (CommPtr record = find_ours(comm)) return guarded([&] { return forget(comm), destroy_ours(*record); });
  finish_calls_on(comm);
  open_group();
  return guarded([&] { return destroy_with_hierarchy(comm, forget(comm)); });
}

ncclResult_t comm_abort(ncclComm_t handle) {
  if (!handle && !next().ncclCommAbort) return ncclSuccess;
  ncclComm_t comm = end_promise(handle);
  if (handle && !comm) return ncclSuccess;
  if (CommPtr record = find_ours(comm)) return guarded([&] { return forget(comm), abort_ours(*record); });
  finish_calls_on(comm);
  open_group();
  return guarded([&] { return abort_with_hierarchy(comm, forget(comm)); });
}

ncclResult_t comm_revoke(ncclComm_t comm, int flags) {
  CommPtr record = look_up(comm);
  if (record && record->is_ours()) return refuse_ours(comm, "ncclCommRevoke");
  finish_calls_on(comm);
  open_group();
  return guarded([&] { return revoke_with_hierarchy(comm, record, flags); });
}

}  // namespace ddl::nccl
