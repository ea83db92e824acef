// Persistent collectives: a request that the program starts again and again.
//
// The request is a genuine one of the original library (persistent_request.hpp), so that every form of Wait
// and Test, MPI_Request_get_status and the rest work on it. Starting it starts the nonblocking call of the
// same kind, and is counted as that.
//
// Ranks may start their requests in different orders. So to the engine each request is a communicator of its
// own, where its starts are the only calls. It knows which of them belong to one of the program's: small
// all-reduces of these may travel together (DDL_LAZY_BYTES). For starts that are left to the original there
// is a persistent request of the original's, made when ours is.
//
// What the program may free between its calls (types, operations, arrays of counts) is held until the request
// is freed. Thread safety: all functions.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/own_reductions.hpp"
#include "interpose/mpi/persistent_request.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

/// Of a call with two types, whether MPI does not look at the first or second one on this rank: what the
/// program gives there may be anything.
using IgnoredTypes = std::array<bool, 2>;
template <class... All>
IgnoredTypes ignored_types(std::string_view name, MPI_Comm comm, All... arguments) {
  const void *in = nullptr, *out = nullptr;
  int last = 0, types = 0;  // the last number is the root where there is one
  auto see = [&](auto one) {
    using One = decltype(one);
    if constexpr (std::is_same_v<One, const void*>) in = one;
    if constexpr (std::is_same_v<One, void*>) out = one;
    if constexpr (std::is_same_v<One, int>) last = one;
    types += std::is_same_v<One, MPI_Datatype> || std::is_same_v<One, const MPI_Datatype*>;
  };
  (see(arguments), ...);
  if (types < 2) return {};
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const bool is_elsewhere = state_of(comm)->me != last;
  return {in == MPI_IN_PLACE || (has("_Scatter") && is_elsewhere),
          out == MPI_IN_PLACE || (has("_Gather") && is_elsewhere)};
}

/// Whether it is a reduction whose function is to see the program's own type, and not one that is held in its
/// place. The same on all ranks.
template <class... All>
bool shows_own_type(All... arguments) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  bool is_reduction = false;
  auto see = [&](auto one) {
    using One = decltype(one);
    if constexpr (std::is_same_v<One, MPI_Datatype>) type = one;
    is_reduction |= std::is_same_v<One, MPI_Op>;
  };
  (see(arguments), ...);
  return is_reduction && type != MPI_DATATYPE_NULL && !may_outlive_call(type);
}

/// The arguments of a call, for as long as its request lives, and what it is made on. Arrays are copied: Open
/// MPI looks at them when the request is made and never again, so programs free them by then.
class HeldArguments {
 public:
  explicit HeldArguments(MPI_Comm comm, IgnoredTypes ignored = {})
      : comm_(comm), size_(state_of(comm)->size), ignored_(ignored) {}
  HeldArguments(const HeldArguments&) = delete;
  HeldArguments& operator=(const HeldArguments&) = delete;
  ~HeldArguments();
  MPI_Comm comm() const { return comm_; }
  /// Once, for a request that the original has made, too: all ranks count those alike.
  void take_part() { state_ = make_state_of_request(comm_); }
  /// Of the starts.
  CommState* state() const { return state_; }
  /// One argument after the other, from the first on.
  MPI_Datatype hold(MPI_Datatype type);
  const MPI_Datatype* hold(const MPI_Datatype* types);
  const int* hold(const int* counts);
  MPI_Op hold(MPI_Op op);
  template <class Other>
  Other hold(Other other) {
    return other;
  }

  MPI_Request original = MPI_REQUEST_NULL;  // the original's for the same call; freed with this

 private:
  bool is_ignored() { return ignored_[types_seen_++ % ignored_.size()]; }
  MPI_Datatype copy_of(MPI_Datatype type);

  MPI_Comm comm_;
  Rank size_;
  CommState* state_ = nullptr;
  IgnoredTypes ignored_;
  std::size_t types_seen_ = 0;
  std::vector<OwnedType> types_;
  std::vector<std::vector<MPI_Datatype>> arrays_;
  std::vector<std::vector<int>> counts_;
  std::unique_ptr<OwnReductionCall> op_;
};

/// Starts the nonblocking call.
using StartCall = std::function<int(MPI_Request*)>;

/// Why persistent calls on that communicator are left to the original library, alike on all ranks; null: they
/// are not.
const char* why_not_persistent(MPI_Comm comm);
void count_not_persistent(const char* name, const char* reason);
int make_persistent(StartCall start, std::unique_ptr<HeldArguments> held, MPI_Request* request);
/// The original's function of that name, or of MPI 4's for an extension's and the other way round. Throws
/// Error: there is neither.
ddl_function original_that_makes(std::string_view name);
void free_what_waits();
/// From now on the program's looks at requests are ours, see DDL_LATE_HOOK; front.cpp.
void look_at_requests();

/// Requests of ours that there are.
inline std::atomic<int> known_calls{0};
inline bool has_persistent() { return known_calls.load(std::memory_order_acquire) > 0; }
/// Whether a handle is one of them whose receive is not started.
bool has_no_receive(MPI_Request request);
/// That; null: it is none.
std::shared_ptr<PersistentRequest> without_receive(MPI_Request request);
/// Of those among these requests: whoever looks at them now sees what has become of them.
void start_receives(int count, const MPI_Request* requests);

/// The hook of a persistent call: its name, its original in the table, and our nonblocking call, whose
/// arguments, but for the request at the end, it has.
template <HookName name, auto original, auto start, class Places>
struct PersistentAs;
template <HookName name, auto original, class... All, int (*start)(All...), std::size_t... i>
struct PersistentAs<name, original, start, std::index_sequence<i...>> {
  template <std::size_t k>
  using Argument = std::tuple_element_t<k, std::tuple<All...>>;
  static int init(Argument<i>... arguments, MPI_Info info, MPI_Request* request) {
    using Maker = Original<int(Argument<i>..., MPI_Info, MPI_Request*)>;
    const MPI_Comm comm = comm_among(arguments...);
    const char* reason = why_not_persistent(comm);
    if (!reason && shows_own_type(arguments...)) reason = "datatype";
    if (reason) {
      count_not_persistent(name.text, reason);
      return Maker::from(next().*original)(arguments..., info, request);
    }
    static const Maker make_original = Maker::from(original_that_makes(name.text));
    auto held = std::make_unique<HeldArguments>(comm, ignored_types(name.text, comm, arguments...));
    // In braces they are held in their order.
    const std::tuple<Argument<i>...> kept{held->hold(arguments)...};
    if (const int error = make_original(std::get<i>(kept)..., info, &held->original)) return error;
    held->take_part();
    auto call = [kept](MPI_Request* under_way) { return start(std::get<i>(kept)..., under_way); };
    return make_persistent(std::move(call), std::move(held), request);
  }
};
template <class Function>
struct CountArguments;
template <class... All>
struct CountArguments<int (*)(All...)> {
  static constexpr std::size_t value = sizeof...(All);
};
template <HookName name, auto original, auto start>
using Persistent =
    PersistentAs<name, original, start, std::make_index_sequence<CountArguments<decltype(start)>::value - 1>>;

/// The hook of a look at requests, one or some, with which its arguments begin.
template <auto original, class Function>
struct Look;
template <auto original, class... All>
struct Look<original, int(All...)> {
  static int at(All... arguments) {
    start_receives_of(arguments...);
    return Original<int(All...)>::from(next().*original)(arguments...);
  }

 private:
  template <class... Rest>
  static void start_receives_of(MPI_Request request, Rest...) {
    start_receives(1, &request);
  }
  template <class... Rest>
  static void start_receives_of(MPI_Request* request, Rest...) {
    start_receives(1, request);
  }
  template <class... Rest>
  static void start_receives_of(int count, MPI_Request* requests, Rest...) {
    start_receives(count, requests);
  }
};

// Hooks of what is done with requests.
int start(MPI_Request* request);
int startall(int n, MPI_Request requests[]);
int request_free(MPI_Request* request);
int cancel(MPI_Request* request);
int wait(MPI_Request* request, MPI_Status* status);
int waitall(int count, MPI_Request* requests, MPI_Status* statuses);

}  // namespace ddl::mpi
