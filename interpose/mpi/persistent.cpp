#include "interpose/mpi/persistent.hpp"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/base/error.hpp"
#include "interpose/mpi/buffered_sends.hpp"
#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/own_tag.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

struct PersistentCall {
  StartCall start;
  std::unique_ptr<HeldArguments> held;
  OwnTag tag;
};

// By their requests: a handle is another's only after MPI_Request_free.
std::mutex calls_mutex;
std::atomic<int> known_calls{0};
auto& calls() {
  static auto& all =
      *new std::unordered_map<MPI_Request, std::shared_ptr<PersistentCall>>;  // for exit handlers
  return all;
}

std::shared_ptr<PersistentCall> find(MPI_Request request) {
  if (known_calls.load(std::memory_order_acquire) == 0) return nullptr;
  std::lock_guard lock(calls_mutex);
  auto found = calls().find(request);
  return found == calls().end() ? nullptr : found->second;
}

// Completes the receive that is the program's request. That has been started, so that a send need not wait;
// but where threads wait for each other in the library's progress, which may have called us, it must not.
int tell_done(const PersistentCall& call) {
  if (!state().several_threads) return PMPI_Send(nullptr, 0, MPI_BYTE, 0, call.tag, state().own_self);
  MPI_Request sent = MPI_REQUEST_NULL;
  const int result = PMPI_Isend(nullptr, 0, MPI_BYTE, 0, call.tag, state().own_self, &sent);
  return result == MPI_SUCCESS ? PMPI_Request_free(&sent) : result;
}

// The nonblocking call of one start, which the original library makes.
class Started : public OriginalWork {
 public:
  Started(std::shared_ptr<PersistentCall> of, MPI_Request request) : of_(std::move(of)) {
    request_ = request;
  }
  // An error has been reported to the error handler by then.
  int finish() override {
    const int told = tell_done(*of_);
    return error_ == MPI_SUCCESS ? told : error_;
  }

 private:
  const std::shared_ptr<PersistentCall> of_;
};

// What the engine does ends without a request of its own: who waits for hundreds of calls would have to ask
// after each of them, and each answer takes a look at the library's sockets.
int begin(const std::shared_ptr<PersistentCall>& call) {
  auto end = [call](int error) {
    tell_done(*call);  // first: the handler may throw
    if (error != MPI_SUCCESS) ask_error_handler(call->held->comm(), error);
  };
  StateInstead state(call->held->state());
  PersistentStart by_engine(std::move(end), call->held->original);
  MPI_Request request = MPI_REQUEST_NULL;
  int error = MPI_SUCCESS;
  try {
    error = call->start(&request);
  } catch (...) {
    tell_done(*call);
    throw;
  }
  if (error != MPI_SUCCESS) {
    tell_done(*call);  // nobody waits for what has not begun
    return error;
  }
  if (by_engine.has_taken()) return MPI_SUCCESS;
  auto started = std::make_unique<Started>(call, request);
  if (started->is_done()) return started->finish();
  watch(std::move(started));
  return MPI_SUCCESS;
}

// The original's requests that wait to be freed: where they are dropped, the program may be within a call of
// the library's progress.
std::mutex waiting_mutex;
auto& waiting() {
  static auto& all = *new std::vector<MPI_Request>;  // for exit handlers
  return all;
}

}  // namespace

void free_what_waits() {
  std::vector<MPI_Request> these;
  {
    std::lock_guard lock(waiting_mutex);
    these.swap(waiting());
  }
  for (MPI_Request request : these) PMPI_Request_free(&request);
}

ddl_function original_that_makes(std::string_view name) {
  const bool is_extension = name.starts_with("MPIX_");
  const std::string what(name.substr(is_extension ? 5 : 4));
  void* library = mpi_library();
  for (const char* prefix : {is_extension ? "PMPIX_" : "PMPI_", is_extension ? "PMPI_" : "PMPIX_"})
    if (void* found = library ? dlsym(library, (prefix + what).c_str()) : nullptr)
      return reinterpret_cast<ddl_function>(found);
  throw Error("this MPI library has no " + std::string(name));
}

HeldArguments::~HeldArguments() {
  if (state_) release(state_);
  if (original == MPI_REQUEST_NULL) return;
  std::lock_guard lock(waiting_mutex);
  waiting().push_back(original);
}

MPI_Datatype HeldArguments::hold(MPI_Datatype type) {
  return is_ignored() ? MPI_DATATYPE_NULL : copy_of(type);
}

MPI_Datatype HeldArguments::copy_of(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL || is_predefined(combiner_of(type))) return type;
  // A duplicate would copy its attributes, by callbacks.
  MPI_Datatype copy = type;
  if (!size_in_call(type) || PMPI_Type_contiguous(1, type, &copy) != MPI_SUCCESS) return type;
  PMPI_Type_commit(&copy);
  types_.emplace_back(copy);
  return copy;
}

const MPI_Datatype* HeldArguments::hold(const MPI_Datatype* types) {
  if (is_ignored() || !types) return nullptr;
  std::vector<MPI_Datatype> copies;
  for (Rank rank = 0; rank < size_; ++rank) copies.push_back(copy_of(types[rank]));
  return arrays_.emplace_back(std::move(copies)).data();
}

// Counts, or places, of all ranks, which stand before their side's type.
const int* HeldArguments::hold(const int* counts) {
  if (!counts || ignored_[types_seen_ % ignored_.size()]) return counts;
  return counts_.emplace_back(counts, counts + size_).data();
}

MPI_Op HeldArguments::hold(MPI_Op op) {
  if (op != MPI_OP_NULL)
    op_ = std::make_unique<OwnReductionCall>(MPI_BYTE, op, OwnReductionCall::Meanwhile::may_be_freed);
  return op;
}

const char* why_not_persistent(MPI_Comm comm) {
  CommState* known = nullptr;
  if (const char* reason = find_comm(comm, known)) return reason;
  return state().api->nonblocking(state().job) ? nullptr : kNoProgressHook;
}

void count_not_persistent(const char* name, const char* reason) {
  State& s = state();
  if (s.job) s.api->count_original(s.job, name, reason, 1, 0, 0);
}

int make_persistent(StartCall start, std::unique_ptr<HeldArguments> held, MPI_Request* request) {
  auto call = std::make_shared<PersistentCall>();
  call->start = std::move(start);
  call->held = std::move(held);
  free_what_waits();
  const int result = PMPI_Recv_init(nullptr, 0, MPI_BYTE, 0, call->tag, state().own_self, request);
  if (result != MPI_SUCCESS) return result;
  std::lock_guard lock(calls_mutex);
  calls()[*request] = std::move(call);
  known_calls.fetch_add(1, std::memory_order_release);
  return MPI_SUCCESS;
}

int start(MPI_Request* request) {
  before_start();
  const std::shared_ptr<PersistentCall> call = request ? find(*request) : nullptr;
  const int result = DDL_NEXT(MPI_Start)(request);
  return call && result == MPI_SUCCESS ? begin(call) : result;
}

int startall(int n, MPI_Request requests[]) {
  before_start();
  int result = DDL_NEXT(MPI_Startall)(n, requests);
  if (result != MPI_SUCCESS) return result;
  for (int i = 0; i < n; ++i) {
    const std::shared_ptr<PersistentCall> call = find(requests[i]);
    if (call && result == MPI_SUCCESS)
      result = begin(call);
    else if (call)
      tell_done(*call);  // nobody waits for what has not begun
  }
  return result;
}

// A collective cannot be cancelled; its request is a receive of ours, which could be.
int cancel(MPI_Request* request) {
  const std::shared_ptr<PersistentCall> call = request ? find(*request) : nullptr;
  return call ? ask_error_handler(call->held->comm(), MPI_ERR_REQUEST) : DDL_NEXT(MPI_Cancel)(request);
}

// One under way ends all the same.
int request_free(MPI_Request* request) {
  if (request && known_calls.load(std::memory_order_acquire) > 0) {
    {
      std::lock_guard lock(calls_mutex);
      if (calls().erase(*request) > 0) known_calls.fetch_sub(1, std::memory_order_release);
    }
    free_what_waits();
  }
  return DDL_NEXT(MPI_Request_free)(request);
}

}  // namespace ddl::mpi
