// Nonblocking calls as generalized requests: real MPI_Requests, so every form of Wait and Test works on them.
//
// Who moves them: the engine's helper thread while the program computes, and Open MPI's progress loop, which
// calls on_progress() from the program's own Wait and Test. Only the latter completes them: completing a
// request from a foreign thread would need MPI_THREAD_MULTIPLE.
#include <algorithm>
#include <mutex>
#include <utility>

#include "core/base/log.hpp"
#include "interpose/mpi/front.hpp"

namespace ddl::mpi {
namespace {

class EngineWork : public PendingWork {
 public:
  EngineWork(ddl_work* work, CommState* comm) : work_(work), comm_(comm) {
    comm->users.fetch_add(1, std::memory_order_relaxed);
  }
  bool is_done() override { return state().api->test(work_); }
  int finish() override {
    State& s = state();
    bool fine = s.api->finish(work_);
    if (!fine) log_error(std::string(s.api->failure(s.job)));
    release(comm_);
    return fine ? MPI_SUCCESS : MPI_ERR_OTHER;
  }

 private:
  ddl_work* work_;
  CommState* comm_;
};

struct Pending {
  std::unique_ptr<PendingWork> work;
  MPI_Request request = MPI_REQUEST_NULL;
  int error = MPI_SUCCESS;
};

std::mutex pending_mutex;
std::vector<Pending*> pending;
std::atomic<int> pending_count{0};
bool registered = false;
thread_local bool inside = false;  // the engine's wait moves Open MPI, which calls us again

int on_query(void* extra, MPI_Status* status) {
  auto* call = static_cast<Pending*>(extra);
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return call->error;
}

int on_free(void* extra) {
  delete static_cast<Pending*>(extra);
  return MPI_SUCCESS;
}

int on_cancel(void*, int) { return MPI_SUCCESS; }  // collectives cannot be cancelled

// Those that are done, taken out of the list; nothing when another thread is at it.
std::vector<Pending*> take_finished() {
  std::unique_lock lock(pending_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  auto unfinished = [](Pending* call) { return !call->work->is_done(); };
  auto finished = std::stable_partition(pending.begin(), pending.end(), unfinished);
  std::vector<Pending*> done(finished, pending.end());
  pending.erase(finished, pending.end());
  pending_count.store(static_cast<int>(pending.size()), std::memory_order_relaxed);
  return done;
}

int on_progress() {
  if (inside || pending_count.load(std::memory_order_relaxed) == 0) return 0;
  inside = true;
  std::vector<Pending*> done = take_finished();
  for (Pending* call : done) {
    call->error = call->work->finish();
    PMPI_Grequest_complete(call->request);
  }
  inside = false;
  return static_cast<int>(done.size());
}

}  // namespace

int make_request(ddl_work* work, CommState* comm, MPI_Request* request) {
  return make_request(std::make_unique<EngineWork>(work, comm), request);
}

int make_request(std::unique_ptr<PendingWork> work, MPI_Request* request) {
  auto* call = new Pending{std::move(work)};
  int result = PMPI_Grequest_start(on_query, on_free, on_cancel, call, &call->request);
  *request = call->request;
  std::lock_guard lock(pending_mutex);
  pending.push_back(call);
  pending_count.store(static_cast<int>(pending.size()), std::memory_order_relaxed);
  if (!registered) state().opal_progress_register(on_progress);
  registered = true;
  return result;
}

void close_requests() {
  if (registered) state().opal_progress_unregister(on_progress);
  registered = false;
}

void move_original() {
  State& s = state();
  if (s.opal_progress) {
    bool was_inside = std::exchange(inside, true);
    s.opal_progress();
    inside = was_inside;
    return;
  }
  int flag = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s.own_self, &flag, MPI_STATUS_IGNORE);
}

}  // namespace ddl::mpi
