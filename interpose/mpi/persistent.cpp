#include "interpose/mpi/persistent.hpp"

#include <dlfcn.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "core/base/error.hpp"
#include "interpose/mpi/buffered_sends.hpp"
#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

struct PersistentCall {
  StartCall start;
  std::unique_ptr<HeldArguments> held;
  PersistentRequest request;
};

// By their requests: a handle is another's only after MPI_Request_free.
std::mutex calls_mutex;
auto& calls() {
  static auto& all =
      *new std::unordered_map<MPI_Request, std::shared_ptr<PersistentCall>>;  // for exit handlers
  return all;
}

// The one that was found last: a loop starts and waits for the same one.
struct LastFound {
  MPI_Request request = MPI_REQUEST_NULL;
  const std::shared_ptr<PersistentCall>* call = nullptr;
} last_found;

/// What `use` makes of the call behind that request; of null where it is none of ours.
template <class Use>
auto with_call(MPI_Request request, Use use) {
  static const std::shared_ptr<PersistentCall> none;
  if (!has_persistent()) return use(none);
  const auto lock = lock_for_threads(calls_mutex);
  if (last_found.request == request && request != MPI_REQUEST_NULL) return use(*last_found.call);
  auto found = calls().find(request);
  if (found == calls().end()) return use(none);
  last_found = {request, &found->second};
  return use(found->second);
}

std::shared_ptr<PersistentCall> find(MPI_Request request) {
  return with_call(request, [](const std::shared_ptr<PersistentCall>& call) { return call; });
}

// The nonblocking call of one start, which the original library makes.
class Started : public OriginalWork {
 public:
  Started(std::shared_ptr<PersistentCall> of, MPI_Request request) : of_(std::move(of)) {
    request_ = request;
  }
  // An error has been reported to the error handler by then.
  int finish() override {
    of_->request.end(MPI_SUCCESS);
    return error_;
  }

 private:
  const std::shared_ptr<PersistentCall> of_;
};

// What the engine does ends without a request of its own: who waits for hundreds of calls would have to ask
// after each of them, and each answer takes a look at the library's sockets.
int begin(const std::shared_ptr<PersistentCall>& call) {
  call->request.begin();
  StateInstead state(call->held->state());
  PersistentStart by_engine({call, &call->request}, call->held->original);
  MPI_Request request = MPI_REQUEST_NULL;
  int error = MPI_SUCCESS;
  try {
    error = call->start(&request);
  } catch (...) {
    call->request.not_begun();
    throw;
  }
  if (error != MPI_SUCCESS) {
    call->request.not_begun();
    return error;
  }
  if (by_engine.has_taken()) return MPI_SUCCESS;
  call->request.start_receive();
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
  const int result = call->request.make(call->held->comm(), request);
  if (result != MPI_SUCCESS) return result;
  look_at_requests();
  const auto lock = lock_for_threads(calls_mutex);
  calls()[*request] = std::move(call);
  known_calls.fetch_add(1, std::memory_order_release);
  return MPI_SUCCESS;
}

bool has_no_receive(MPI_Request request) {
  return with_call(request, [](const std::shared_ptr<PersistentCall>& call) {
    return call && !call->request.has_receive();
  });
}

std::shared_ptr<PersistentRequest> without_receive(MPI_Request request) {
  return with_call(request, [](const std::shared_ptr<PersistentCall>& call) {
    using Request = std::shared_ptr<PersistentRequest>;
    return call && !call->request.has_receive() ? Request{call, &call->request} : Request{};
  });
}

void start_receives(int count, const MPI_Request* requests) {
  if (!has_persistent() || !requests) return;
  for (int i = 0; i < count; ++i)
    if (const auto persistent = without_receive(requests[i])) persistent->start_receive();
}

int start(MPI_Request* request) {
  before_start();
  const std::shared_ptr<PersistentCall> call = request ? find(*request) : nullptr;
  if (!call || !call->request.may_begin_without_receive())
    if (const int error = DDL_NEXT(MPI_Start)(request)) return error;
  return call ? begin(call) : MPI_SUCCESS;
}

// The library's own requests, and receives of ours, may get other handles.
int startall(int n, MPI_Request requests[]) {
  before_start();
  if (!has_persistent() || n < 1 || !requests) return DDL_NEXT(MPI_Startall)(n, requests);
  std::vector<std::shared_ptr<PersistentCall>> ours;
  std::vector<MPI_Request> others;
  std::vector<int> places;
  for (int i = 0; i < n; ++i) {
    std::shared_ptr<PersistentCall> call = find(requests[i]);
    if (!call || !call->request.may_begin_without_receive()) {
      others.push_back(requests[i]);
      places.push_back(i);
    }
    if (call) ours.push_back(std::move(call));
  }
  int result = MPI_SUCCESS;
  if (!others.empty()) {
    result = DDL_NEXT(MPI_Startall)(static_cast<int>(others.size()), others.data());
    for (std::size_t i = 0; i < others.size(); ++i) requests[places[i]] = others[i];
    if (result != MPI_SUCCESS) return result;
  }
  for (const std::shared_ptr<PersistentCall>& call : ours)
    if (result == MPI_SUCCESS)
      result = begin(call);
    else if (call->request.has_receive())
      call->request.not_begun();
  return result;
}

// A collective cannot be cancelled; its request is a receive of ours, which could be.
int cancel(MPI_Request* request) {
  const std::shared_ptr<PersistentCall> call = request ? find(*request) : nullptr;
  return call ? ask_error_handler(call->held->comm(), MPI_ERR_REQUEST) : DDL_NEXT(MPI_Cancel)(request);
}

// One under way ends all the same.
int request_free(MPI_Request* request) {
  if (request && has_persistent()) {
    {
      const auto lock = lock_for_threads(calls_mutex);
      last_found = {};
      if (calls().erase(*request) > 0) known_calls.fetch_sub(1, std::memory_order_release);
    }
    free_what_waits();
  }
  return DDL_NEXT(MPI_Request_free)(request);
}

}  // namespace ddl::mpi
