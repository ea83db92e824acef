// CommTable: what is known of communicators, by their handles. While one is being freed only the thread that
// does so knows it: for others the handle may be another's already.
//
// Thread safety: all.
#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/biased_mutex.hpp"
#include "interpose/mpi/comms.hpp"

namespace ddl::mpi {

class CommTable {
 public:
  /// Null: it is not there.
  CommState* find(MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) return nullptr;
    std::lock_guard lock(mutex_);
    const Known* known = known_here(comm);
    return known ? known->state : nullptr;
  }
  void add(MPI_Comm comm, CommState* created) {
    std::lock_guard lock(mutex_);
    if (!known_.insert_or_assign(comm, Known{created, {}}).second) forget_answers();
  }
  /// Likewise, and for this thread alone from now on, until keep() or take_out().
  CommState* begin_to_free(MPI_Comm comm) {
    std::lock_guard lock(mutex_);
    Known* const known = known_here(comm);
    if (!known) return nullptr;
    known->freer = std::this_thread::get_id();
    forget_answers();
    return known->state;
  }
  void keep(MPI_Comm comm, const CommState* state) {
    std::lock_guard lock(mutex_);
    Known* const known = known_here(comm);
    if (known && known->state == state) known->freer = {};
  }
  /// Whether it was there: who frees it within the free of another library between us has taken it out.
  bool take_out(MPI_Comm comm, const CommState* state) {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(comm);
    const bool is_there = found != known_.end() && found->second.state == state;
    if (is_there) known_.erase(found);
    forget_answers();
    return is_there;
  }
  std::vector<CommState*> take_all() {
    std::lock_guard lock(mutex_);
    std::vector<CommState*> all;
    for (const auto& [comm, one] : known_) all.push_back(one.state);
    known_.clear();
    forget_answers();
    return all;
  }

 private:
  struct Known {
    CommState* state;
    std::thread::id freer;  // none: it is not being freed
  };
  // To this thread; null: it is not.
  Known* known_here(MPI_Comm comm) {
    const auto found = known_.find(comm);
    if (found == known_.end()) return nullptr;
    const std::thread::id freer = found->second.freer;
    return freer == std::thread::id() || freer == std::this_thread::get_id() ? &found->second : nullptr;
  }
  // After a change: who asked before it asks again.
  static void forget_answers() { deletions.fetch_add(1, std::memory_order_acq_rel); }

  BiasedMutex mutex_;
  std::unordered_map<MPI_Comm, Known> known_;
};

}  // namespace ddl::mpi
