// Nonblocking calls as generalized requests: real MPI_Requests, so every form of Wait and Test works on them.
//
// Who moves them: the engine's helper thread while the program computes, and Open MPI's progress loop, which
// calls on_progress() from the program's own Wait and Test. Only the latter completes them: completing a
// request from a foreign thread would need MPI_THREAD_MULTIPLE.
//
// In MPI_Wait and MPI_Waitall, calls of the engine alone are waited for in the engine.
#include "interpose/mpi/requests.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/pending.hpp"
#include "interpose/mpi/persistent.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

std::mutex asked_mutex;
std::vector<Pending*> asked;  // those that ask for themselves
std::atomic<int> under_way{0}, asked_count{0};
std::atomic<bool> registered{false};
thread_local bool inside = false;  // the engine's wait moves Open MPI, which calls us again
thread_local PersistentStart* persistent_start = nullptr;

// The request of the engine's call that this thread has started last. It may be freed by another thread.
struct Newest {
  MPI_Request request = MPI_REQUEST_NULL;
  Pending* call = nullptr;
  std::uint32_t freed = 0;
};
thread_local Newest newest;
std::atomic<std::uint32_t> freed{0};  // requests that were not the newest of the thread that freed them

// Those of long calls, which are worth a lock.
constexpr std::uint64_t kLong = 1 << 20;
class LongRequests {
 public:
  void add(Pending* call) {
    std::lock_guard lock(mutex_);
    calls_[call->request] = call;
    count_.store(calls_.size(), std::memory_order_relaxed);
  }
  void remove(Pending* call) {
    std::lock_guard lock(mutex_);
    calls_.erase(call->request);
    count_.store(calls_.size(), std::memory_order_relaxed);
  }
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  Pending* find(MPI_Request request) {
    std::lock_guard lock(mutex_);
    auto found = calls_.find(request);
    return found == calls_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<MPI_Request, Pending*> calls_;
  std::atomic<std::size_t> count_{0};
} long_requests;

int on_query(void* extra, MPI_Status* status) {
  auto* call = static_cast<Pending*>(extra);
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return call->error;
}

int on_free(void* extra) {
  auto* call = static_cast<Pending*>(extra);
  if (call->is_long) long_requests.remove(call);
  if (newest.call == call)
    newest = {};
  else
    freed.fetch_add(1, std::memory_order_relaxed);
  idle_calls().give_back(call);
  return MPI_SUCCESS;
}

int on_cancel(void*, int) { return MPI_ERR_REQUEST; }  // collectives cannot be cancelled

void step(Pending* call) {
  if (call->steps.fetch_add(1, std::memory_order_acq_rel) != 1) return;
  under_way.fetch_sub(1, std::memory_order_relaxed);
  if (call->request != MPI_REQUEST_NULL) {
    PMPI_Grequest_complete(call->request);  // on_free() has it from now on
    return;
  }
  const int error = call->error;
  const std::shared_ptr<PersistentRequest> persistent = std::move(call->start_of);
  idle_calls().give_back(call);
  if (!persistent) return;
  persistent->under_way = nullptr;
  persistent->end(error);
}

void end_engine_call(Pending* call, bool right) {
  if (!right) {
    say_failure();
    call->error = MPI_ERR_OTHER;
  } else {
    call->error = call->buffers.finish();
  }
  release(call->comm);
  step(call);
}

int complete_engine_calls() {
  State& s = state();
  int done = 0, right = 0;
  while (auto* call = static_cast<Pending*>(s.api->next_done(s.job, &right))) {
    end_engine_call(call, right);
    ++done;
  }
  return done;
}

// Nothing when another thread is at it.
int complete_those_that_ask() {
  std::unique_lock lock(asked_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  auto unfinished = [](Pending* call) { return !call->work->is_done(); };
  auto finished = std::stable_partition(asked.begin(), asked.end(), unfinished);
  std::vector<Pending*> done(finished, asked.end());
  asked.erase(finished, asked.end());
  asked_count.store(static_cast<int>(asked.size()), std::memory_order_relaxed);
  lock.unlock();
  for (Pending* call : done) {
    call->error = call->work->finish();
    step(call);
  }
  return static_cast<int>(done.size());
}

int complete_those_done() {
  State& s = state();
  s.api->poll(s.job);
  int done = complete_engine_calls();
  if (asked_count.load(std::memory_order_relaxed) > 0) done += complete_those_that_ask();
  return done;
}

int on_progress() {
  if (inside || under_way.load(std::memory_order_relaxed) == 0) return 0;
  inside = true;
  int done = 0;
  try {
    done = complete_those_done();
  } catch (...) {
    try {
      report_exception("a nonblocking call", MPI_COMM_WORLD);
    } catch (...) {  // the library is about to go on, and nothing may pass it
      std::terminate();
    }
  }
  inside = false;
  return done;
}

void be_called() {
  if (!registered.exchange(true)) state().opal_progress_register(on_progress);
}

void ask_for(Pending* call) {
  std::lock_guard lock(asked_mutex);
  asked.push_back(call);
  asked_count.store(static_cast<int>(asked.size()), std::memory_order_relaxed);
}

int request_of(Pending* call, MPI_Request* request) {
  be_called();
  int result = PMPI_Grequest_start(on_query, on_free, on_cancel, call, &call->request);
  *request = call->request;
  if (call->is_long) long_requests.add(call);
  if (call->started) newest = {call->request, call, freed.load(std::memory_order_relaxed)};
  step(call);
  return result;
}

/// That of a request of the engine's call where we know it: of the newest one and of long ones.
Pending* known(MPI_Request request) {
  if (request == MPI_REQUEST_NULL) return nullptr;
  if (newest.request == request && newest.freed == freed.load(std::memory_order_relaxed)) return newest.call;
  return long_requests.empty() ? nullptr : long_requests.find(request);
}

// Whether any request may be one of ours.
bool has_any_of_ours() { return under_way.load(std::memory_order_relaxed) > 0 || has_persistent(); }

// The engine's call that it stands for, if that is under way.
Pending* under_way_of(MPI_Request request, const std::shared_ptr<PersistentRequest>& persistent) {
  return persistent ? persistent->under_way : known(request);
}

bool may_wait_in_engine(int count, const MPI_Request* requests) {
  if (!state().active || inside || asked_count.load(std::memory_order_relaxed) > 0) return false;
  return std::all_of(requests, requests + count, [](MPI_Request request) {
    return request == MPI_REQUEST_NULL || known(request) ||
           (!state().several_threads && has_no_receive(request));
  });
}

// Waits as a blocking call does, for calls of the engine alone. The library's own wait is no match: it takes
// turns with looking after its sockets (4 hosts x 2, 4 B: 57 us, in here 49) and never sleeps (16 MiB: 420 ms
// of all processors, in here 145).
void wait_in_engine(int count, const MPI_Request* requests) {
  State& s = state();
  if (!requests || count < 1) return;
  if (!may_wait_in_engine(count, requests)) return start_receives(count, requests);
  try {
    // Those that the helper has ended: the library's wait would look at sockets first.
    complete_engine_calls();
    for (int i = 0; i < count; ++i) {
      const std::shared_ptr<PersistentRequest> persistent = without_receive(requests[i]);
      auto complete = [](PersistentRequest* one) { one->complete(); };  // an error handler may throw
      const std::unique_ptr<PersistentRequest, decltype(complete)> at_end(persistent.get(), complete);
      Pending* call = under_way_of(requests[i], persistent);
      int right = 0;
      if (call && s.api->wait(s.job, call->started, call, &right))
        end_engine_call(call, right);
      else if (call)
        complete_engine_calls();  // it had ended meanwhile
    }
  } catch (...) {
    report_exception("a nonblocking call", MPI_COMM_WORLD);
  }
}

}  // namespace

bool OriginalWork::is_done() {
  int done = 0;
  error_ = PMPI_Test(&request_, &done, MPI_STATUS_IGNORE);  // on_progress() knows
  return done || error_ != MPI_SUCCESS;
}

Pending* new_pending(CommState* comm, CallBuffers buffers, std::uint64_t bytes) {
  comm->users.fetch_add(1, std::memory_order_relaxed);
  under_way.fetch_add(1, std::memory_order_relaxed);
  Pending* call = idle_calls().take();
  call->comm = comm;
  call->buffers = std::move(buffers);
  call->is_long = bytes > kLong;
  return call;
}

Pending* new_pending(CommState* comm, Layouts layouts) {
  Pending* call = new_pending(comm, CallBuffers(), 0);
  call->layouts = std::move(layouts);
  return call;
}

int finish_pending(Pending* call) { return call->buffers.finish(); }

void drop_pending(Pending* call) {
  under_way.fetch_sub(1, std::memory_order_relaxed);
  release(call->comm);
  idle_calls().give_back(call);
}

PersistentStart::PersistentStart(std::shared_ptr<PersistentRequest> of, MPI_Request original)
    : of_(std::move(of)), original_(original) {
  persistent_start = this;
  there_are_.fetch_add(1, std::memory_order_relaxed);
}

PersistentStart::~PersistentStart() {
  there_are_.fetch_sub(1, std::memory_order_relaxed);
  persistent_start = nullptr;
}

PersistentStart* PersistentStart::of_thread() { return persistent_start; }

int PersistentStart::start_original(MPI_Request* request) {
  *request = original_;
  return PMPI_Start(&original_);
}

int make_request(Pending* call, ddl_started* started, MPI_Request* request) {
  call->started = started;
  if (PersistentStart* start = PersistentStart::current(); start && !start->has_taken()) {
    be_called();
    *request = MPI_REQUEST_NULL;
    call->start_of = start->take();
    call->start_of->under_way = call;
    step(call);
    return MPI_SUCCESS;
  }
  return request_of(call, request);
}

int make_request(std::unique_ptr<PendingWork> work, MPI_Request* request) {
  Pending* call = idle_calls().take();
  call->work = std::move(work);
  under_way.fetch_add(1, std::memory_order_relaxed);
  int result = request_of(call, request);
  ask_for(call);
  return result;
}

void watch(std::unique_ptr<PendingWork> work) {
  be_called();
  Pending* call = idle_calls().take();
  call->work = std::move(work);
  call->steps = 1;  // there is no request to be made
  under_way.fetch_add(1, std::memory_order_relaxed);
  ask_for(call);
}

int wait(MPI_Request* request, MPI_Status* status) {
  if (has_any_of_ours()) wait_in_engine(1, request);
  return DDL_NEXT(MPI_Wait)(request, status);
}

int waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  if (has_any_of_ours()) wait_in_engine(count, requests);
  return DDL_NEXT(MPI_Waitall)(count, requests, statuses);
}

// What a send to nobody gets: complete for ever.
int make_done_request(MPI_Request* request) {
  if (PersistentStart* start = PersistentStart::current(); start && !start->has_taken()) {
    *request = MPI_REQUEST_NULL;
    start->take()->end(MPI_SUCCESS);
    return MPI_SUCCESS;
  }
  return PMPI_Isend(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, request);
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
