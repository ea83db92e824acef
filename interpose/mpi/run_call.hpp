// What all hooks of collectives do: a call is made by the engine, or by the original library with the reason
// counted.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/biased_mutex.hpp"
#include "core/base/clock.hpp"
#include "core/trace/counters.hpp"
#include "interpose/mpi/call_note.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/route.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {

/// Counts a call without elements: there is nothing to do, and nobody to wait for.
int done_without_elements(Collective collective, Form form);
/// Whether that is so on all ranks.
inline bool is_empty(const RoutedCall& route) {
  return !route.reason && route.call.count == 0 && !route.call.pairwise;
}
/// Tells the report what was counted here.
void tell_counts();

/// The engine has failed: says why, once.
void say_failure();
/// The same, and asks the error handler of the communicator.
int report_failure(MPI_Comm comm);
/// Likewise, of buffers that cannot be read or written.
int report_unreadable(Collective collective, Form form, MPI_Comm comm);
/// Likewise, of kOwnBlockDiffers.
int report_own_block(Collective collective, Form form, MPI_Comm comm);

/// Calls of one collective that went to the original. Each costs the program what is done here: so after some
/// only every so many are timed, for all, and told. Thread safety: all members.
class PassedCalls {
 public:
  /// Whether the next one is to be timed.
  bool begin() {
    // No locked instruction, which would wait for all stores before it: threads at once may count one less.
    const std::uint64_t number = calls_.load(std::memory_order_relaxed);
    calls_.store(number + 1, std::memory_order_relaxed);
    return number < kAllTimed || number % kTimedEvery == 0;
  }
  /// It is over; `time`: where it was timed.
  void end(Collective collective, Form form, const char* reason, std::uint64_t bytes,
           std::optional<Nanoseconds> time) {
    const std::lock_guard lock(mutex_);
    if (reason != reason_) {
      tell_locked(name_of(collective, form));
      reason_ = reason;
    }
    if (time) usual_ = *time;
    untold_.add(bytes, usual_);
    if (time) tell_locked(name_of(collective, form));
  }
  void tell(const char* name);

 private:
  static constexpr std::uint64_t kAllTimed = 32, kTimedEvery = 16;
  void tell_locked(const char* name);

  std::atomic<std::uint64_t> calls_{0};
  BiasedMutex mutex_;
  const char* reason_ = nullptr;
  Tally untold_;
  Nanoseconds usual_ = 0;  // the last that was timed
};
/// One of each for every collective in both forms.
template <class T>
using ByCollective = std::array<std::array<T, 2>, kCollectives>;
template <class T>
T& at(ByCollective<T>& all, Collective collective, Form form) {
  return all[static_cast<std::size_t>(collective)][static_cast<std::size_t>(form)];
}
/// They outlive exit handlers, which may make calls.
inline constinit ByCollective<PassedCalls> passed_calls{};

/// Runs the original and counts it with the reason.
template <class Original>
int pass_through(Collective collective, Form form, const char* reason, std::uint64_t bytes,
                 const Original& original) {
  PassedCalls& passed = at(passed_calls, collective, form);
  const bool is_timed = passed.begin();
  const Nanoseconds began = is_timed ? now() : 0;
  const int result = [&] {
    const PassingNote note;
    return original();
  }();
  std::optional<Nanoseconds> time;
  if (is_timed) time = now() - began;
  passed.end(collective, form, reason, bytes, time);
  return result;
}
template <class Original>
int pass_through(Collective collective, Form form, const RoutedCall& route, const Original& original) {
  return pass_through(collective, form, route.reason, route.bytes, original);
}

/// A call as the program made it.
struct Made {
  SaidCall said;
  const void* in;
  const void* out;
  MPI_Comm comm;
  Lists lists = {};
};
inline Made reduction_made(Collective collective, const void* in, void* out, int count, MPI_Datatype type,
                           MPI_Op op, int root, MPI_Comm comm, Form form) {
  return {{type, op, count, 0, root, collective, SaidCall::about(in, out), form}, in, out, comm};
}
/// Notes that a reduction goes to the original for what it says, if it does and that can be recognised.
void note_passed(const Made& made, const RoutedCall& route);
/// Has the original make such a call once more; nothing: it is none.
template <class Original>
[[gnu::always_inline]] inline std::optional<int> pass_again(const Made& made, const Original& original) {
  const CommState* comm = state_of_noted(made.comm);
  if (!comm || !comm->last_passed.reason || made.said.words_but_root() != comm->last_passed.said_but_root ||
      comm->last_passed.operations_freed != operations_freed(made.said.other()))
    return std::nullopt;
  return pass_through(made.said.collective(), made.said.form(), comm->last_passed.reason,
                      comm->last_passed.bytes, original);
}
void forget_kept(CommState& comm);
/// Gives those of these types that the program has made a name that lasts; false: there are none.
bool name_types(Made& made, MPI_Datatype type, MPI_Datatype other);
/// Whether it may use its operation, if that is not one of the engine's; if not, all that is kept is
/// forgotten.
bool may_reduce_again(const KeptCall& kept, CommState& comm);
/// A kept call with buffers as the engine wants them; nothing: it has to be made anew.
inline std::optional<int> make_again(const KeptCall& kept, CommState& comm, const Made& made, const void* in,
                                     void* out) {
  comm.ends_with_barrier = made.said.collective() == Collective::barrier;
  const ddl_outcome outcome = state().api->run_kept(comm.engine, kept.call, in, out, number_on(comm));
  if (kept.reduction) kept.reduction->throw_on();
  if (outcome == DDL_DONE) return MPI_SUCCESS;
  if (outcome == DDL_FAILED) return report_failure(made.comm);
  if (!state().api->is_device(in, out)) forget_kept(comm);
  return std::nullopt;
}
/// One that differs from it in its counts alone is made for these; null: none is kept, or not for them.
const KeptCall* kept_alike(CommState& comm, const SaidCall& said);
/// Null: it is not kept.
inline const KeptCall* kept_call(CommState& comm, const SaidCall& said, const Lists& lists) {
  const KeptCall* kept = comm.kept.find(said, lists, comm.size);
  return kept || lists[0] ? kept : kept_alike(comm, said);
}
/// Notes a call without elements, if it can be recognised.
void note_empty(const Made& made);
/// Whether such a call is made once more.
inline bool is_empty_again(const Made& made, const CommState& comm) {
  const LastEmpty& last = comm.last_empty;
  return made.said.counts_none() && !made.lists[0] && last.is_set && made.said.words() == last.said &&
         last.operations_freed == operations_freed(made.said.other());
}
/// Makes it once more if it is kept or has no elements; nothing: neither. `comm`: state_of_noted() its
/// communicator.
inline std::optional<int> run_kept(const Made& made, CommState* comm) {
  if (comm && is_empty_again(made, *comm))
    return done_without_elements(made.said.collective(), Form::blocking);
  const KeptCall* kept = comm ? kept_call(*comm, made.said, made.lists) : nullptr;
  if (!kept) return std::nullopt;
  if (!may_reduce_again(*kept, *comm)) return std::nullopt;
  const void* in = kept->in.at(made.in, made.out);
  void* out = kept->out.at(made.in, made.out);
  if (kept->pairs.count == 0) return make_again(*kept, *comm, made, in, out);
  if (state().api->is_device(out, out)) return std::nullopt;
  const KeptPairs pairs = kept->pairs;  // the call itself may be forgotten meanwhile
  const std::optional<int> done = make_again(*kept, *comm, made, in, pairs.memory.get());
  if (done == MPI_SUCCESS) copy_pairs(out, pairs.memory.get(), pairs.count, pairs.type);
  return done;
}
inline std::optional<int> run_kept(const Made& made) { return run_kept(made, state_of_noted(made.comm)); }
/// Likewise where the program may have made the type: then it gets a name that lasts.
inline std::optional<int> run_kept_by_name(Made& made, MPI_Datatype type) {
  CommState* comm = state_of_noted(made.comm);
  if (const std::optional<int> done = run_kept(made, comm)) return *done;
  if (!comm || !name_types(made, type, nullptr)) return std::nullopt;
  return run_kept(made, comm);
}
/// A reduction that has been made before, by the engine or by the original; nothing: it has not. What passes
/// costs the program least.
template <class Original>
[[gnu::always_inline]] inline std::optional<int> reduce_again(Made& made, MPI_Datatype type,
                                                              const Original& original) {
  if (const std::optional<int> done = pass_again(made, original)) return *done;
  if (const std::optional<int> done = run_kept_by_name(made, type)) return *done;
  return pass_again(made, original);  // by the name of its type
}
/// Starts it once more likewise. `buffers`: what it needs for itself, which is its
/// own from then on.
std::optional<int> start_kept(const Made& made, MPI_Request* request, CallBuffers* buffers = nullptr);
/// A reduction likewise, or the original starts it once more. Starts of persistent ones are others.
template <class Original>
std::optional<int> start_reduction_again(const Made& made, MPI_Request* request, const Original& original) {
  if (!PersistentStart::current())
    if (const std::optional<int> done = pass_again(made, original)) return *done;
  return start_kept(made, request);
}
/// Starts that one; nothing: it has to be made anew.
std::optional<int> start_again(const KeptCall& kept, CommState& comm, const Made& made, MPI_Request* request,
                               CallBuffers* buffers);
std::optional<int> start_kept_by_name(Made& made, MPI_Request* request, MPI_Datatype type,
                                      MPI_Datatype other);
/// What it is to be kept as when it is done: as itself, or as one of those alike but for their counts.
std::optional<SaidCall::Words> worth_keeping_as(const Made& made, const RoutedCall& route,
                                                const CallBuffers& buffers);
/// `reduction`: of a call with one of the program's own.
void keep(const SaidCall::Words& as, const Made& made, const RoutedCall& route, ddl_kept_call* call,
          std::shared_ptr<OwnReductionCall> reduction = nullptr);

/// A blocking call. `adapt` readies the buffers for the engine, false where it cannot; `in_two_steps` is what
/// the original does in mode m; `made`, where there is one, may be kept.
template <class Adapt, class Original, class InTwoSteps>
int run_call(Collective collective, RoutedCall& route, MPI_Comm comm, Adapt adapt, const Original& original,
             const InTwoSteps& in_two_steps, const Made* made) {
  if (is_empty(route)) {
    if (made) note_empty(*made);
    return done_without_elements(collective, Form::blocking);
  }
  if (route.reason == kOwnBlockDiffers) return report_own_block(collective, Form::blocking, comm);
  // Wherever it goes: a rank that would have to pack for the original leaves a call to that sooner than
  // others. But not of a call that MPI refuses, perhaps on this rank alone.
  if (route.comm && route.reason != kErroneous)
    route.comm->ends_with_barrier = collective == Collective::barrier;
  route.call.name = name_of(collective, Form::blocking);
  CallBuffers buffers;
  if (!route.reason && !adapt(route, buffers)) return report_unreadable(collective, Form::blocking, comm);
  if (route.reason) return pass_through(collective, Form::blocking, route, original);
  const ddl_engine_api* api = state().api;
  int is_measured = 0;
  ddl_kept_call* kept = nullptr;
  std::optional<SaidCall::Words> as;
  if (made) as = worth_keeping_as(*made, route, buffers);
  const ddl_outcome outcome =
      api->run(route.comm->engine, &route.call, &route.reason, &is_measured, as ? &kept : nullptr);
  if (kept) keep(*as, *made, route, kept, buffers.reduction());
  if (buffers.reduction()) buffers.reduction()->throw_on();
  if (outcome == DDL_DONE) return buffers.finish();
  if (outcome == DDL_FAILED) return report_failure(comm);
  // With what is done here: that is what the program pays for the original.
  const Nanoseconds began = is_measured ? now() : 0;
  int result = MPI_ERR_OTHER;  // where it throws
  // Counted after an error too, which may be this rank's alone: the calls keep their numbers on all ranks.
  auto count = [&](void*) {
    constexpr Nanoseconds kNoTime = 3'600'000'000'000;
    const Nanoseconds time = now() - began;
    api->original_done(route.comm->engine, &route.call, result == MPI_SUCCESS ? time : kNoTime);
  };
  const std::unique_ptr<int, decltype(count)> at_end(is_measured ? &is_measured : nullptr, count);
  result = outcome == DDL_ORIGINAL ? pass_through(collective, Form::blocking, route, original)
                                   : pass_through(collective, Form::blocking, route, in_two_steps);
  return result;
}

template <class Adapt, class Original>
int run_call(Collective collective, RoutedCall& route, MPI_Comm comm, Adapt adapt, const Original& original,
             const Made* made = nullptr) {
  return run_call(collective, route, comm, adapt, original, original, made);
}

/// A nonblocking one.
template <class Adapt, class Original>
int start_call(Collective collective, RoutedCall& route, MPI_Comm comm, MPI_Request* request, Adapt adapt,
               const Original& original, const Made* made = nullptr) {
  if (!route.reason && !state().api->nonblocking(state().job)) route.reason = kNoProgressHook;
  if (!route.reason && route.own_op != MPI_OP_NULL && !may_outlive_call(route.own_type))
    route.reason = "datatype";
  if (is_empty(route)) {
    if (made) note_empty(*made);
    done_without_elements(collective, Form::nonblocking);
    return make_done_request(request);
  }
  if (route.reason == kOwnBlockDiffers) return report_own_block(collective, Form::nonblocking, comm);
  route.call.name = name_of(collective, Form::nonblocking);
  CallBuffers buffers;
  if (!route.reason && !adapt(route, buffers)) return report_unreadable(collective, Form::nonblocking, comm);
  if (!route.reason) {
    const std::shared_ptr<OwnReductionCall> reduction = buffers.reduction();
    std::optional<SaidCall::Words> as;
    if (made) as = worth_keeping_as(*made, route, buffers);
    buffers.outlive_call(route.blocks, route.in_blocks);
    Pending* call = new_pending(route.comm, std::move(buffers), route.bytes);
    ddl_started* started = nullptr;
    ddl_kept_call* kept = nullptr;
    const ddl_outcome outcome = state().api->start(route.comm->engine, &route.call, call, &started,
                                                   &route.reason, as ? &kept : nullptr);
    if (kept) keep(*as, *made, route, kept, reduction);
    if (outcome == DDL_UNDER_WAY) return make_request(call, started, request);
    const int finished = outcome == DDL_DONE ? finish_pending(call) : MPI_SUCCESS;
    drop_pending(call);
    if (reduction) reduction->throw_on();
    if (finished != MPI_SUCCESS) return finished;
    if (outcome == DDL_DONE) return make_done_request(request);
    if (outcome == DDL_FAILED) return report_failure(comm);
  }
  if (PersistentStart* start = PersistentStart::current())
    return pass_through(collective, Form::nonblocking, route, [&] { return start->start_original(request); });
  return pass_through(collective, Form::nonblocking, route, original);
}

}  // namespace ddl::mpi
