#include "interpose/mpi/run_call.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <type_traits>

#include "core/base/log.hpp"
#include "interpose/mpi/call_note.hpp"
#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/kept_exchange.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

// Calls without elements.
constinit ByCollective<std::atomic<std::uint64_t>> empty_calls{};
static_assert(std::is_trivially_destructible_v<PassedCalls>);

bool is_lasting_name(const void* name) {
  auto* type = const_cast<void*>(name);
  return is_name_of_made(type) || is_known(static_cast<MPI_Datatype>(type));
}
bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter || collective == Collective::reduce_scatter_block;
}

// What such a call may be kept as that differs in its counts alone.
std::optional<SaidCall::Words> alike_to(const Made& made, const RoutedCall& route,
                                        const CallBuffers& buffers) {
  const SaidCall& said = made.said;
  const bool has_lists = made.lists[0] || route.blocks;
  if (has_lists && has_alike_by_lists(said.collective()) && !said.is_by_bytes())
    return alike_by_lists(said, route.blocks->longest);
  const bool may_be_longer = !said.is_in_one_buffer() || said.collective() == Collective::broadcast;
  const bool is_of_count = !has_lists && !buffers.reduction() && may_be_longer;
  return is_of_count && said.count() > 0 && route.call.count % said.count() == 0 ? said.alike()
                                                                                 : std::nullopt;
}

}  // namespace

int done_without_elements(Collective collective, Form form) {
  auto& empty = at(empty_calls, collective, form);
  if (state().several_threads)
    empty.fetch_add(1, std::memory_order_relaxed);
  else
    empty.store(empty.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

std::optional<SaidCall::Words> worth_keeping_as(const Made& made, const RoutedCall& route,
                                                const CallBuffers& buffers) {
  // Where another thread may free an operation meanwhile, a call that is kept would hold it. And who makes
  // one for each call gets the handles of those before: then keeping costs more than it saves.
  if (buffers.reduction() && (state().several_threads || operations_freed(made.said.other()) > 0))
    return std::nullopt;
  const bool has_pairs = buffers.are_of_pairs() && route.call.kind != DDL_REDUCE_SCATTER;
  const bool can_be_kept = made.said.is_by_bytes() || (route.is_lasting && (buffers.are_none() || has_pairs));
  KeptCalls& kept = route.comm->kept;
  const Rank ranks = route.comm->size;
  if (!can_be_kept || ranks > KeptCalls::kMostRanks) return std::nullopt;
  // One that is kept may have been made on a device's memory now.
  auto if_not_kept = [&](const SaidCall::Words& words, const Lists& lists) {
    return kept.find(words, lists, ranks) ? std::nullopt : std::optional(words);
  };
  const SaidCall& said = made.said;
  if (kept.is_made_again(said.words(), made.lists, ranks)) return if_not_kept(said.words(), made.lists);
  const std::optional<SaidCall::Words> alike = alike_to(made, route, buffers);
  if (!alike || !kept.is_made_again(*alike, {}, ranks)) return std::nullopt;
  return if_not_kept(*alike, {});
}

const KeptCall* kept_alike(CommState& comm, const SaidCall& said) {
  const std::optional<SaidCall::Words> alike = said.alike();
  KeptCall* one = alike ? comm.kept.find_alike(*alike, said, {}, comm.size) : nullptr;
  if (!one || one->is_for(said, {}, comm.size)) return one;
  const ddl_counts counts{said.count() * one->alike->elements_of_one, {}, {}, 0};
  if (!state().api->recount(comm.engine, one->call, &counts)) return nullptr;
  one->count_anew(said);
  return one;
}

bool name_types(Made& made, MPI_Datatype type, MPI_Datatype other) {
  const bool is_made = !is_known(type), is_other_made = other && !is_known(other);
  if (is_made) made.said.name_type(lasting_name(type));
  if (is_other_made) made.said.name_other(lasting_name(other));
  return is_made || is_other_made;
}

std::optional<int> start_kept_by_name(Made& made, MPI_Request* request, MPI_Datatype type,
                                      MPI_Datatype other) {
  if (state_of_noted(made.comm)) name_types(made, type, other);
  return start_kept(made, request);
}

std::optional<int> start_kept(const Made& made, MPI_Request* request, CallBuffers* buffers) {
  // The starts of a persistent request have one of their own.
  CommState* comm = PersistentStart::current() ? state_of(made.comm) : state_of_noted(made.comm);
  if (comm && is_empty_again(made, *comm)) {
    done_without_elements(made.said.collective(), Form::nonblocking);
    return make_done_request(request);
  }
  const KeptCall* kept = comm ? kept_call(*comm, made.said, made.lists) : nullptr;
  return kept ? start_again(*kept, *comm, made, request, buffers) : std::nullopt;
}

bool may_reduce_again(const KeptCall& kept, CommState& comm) {
  if (!kept.reduction) return true;
  const void* operation = SaidCall::other_of(kept.said);
  if (kept.operations_freed == operations_freed(operation) && !kept.reduction->has_thrown()) return true;
  forget_kept(comm);
  return false;
}

std::optional<int> start_again(const KeptCall& kept, CommState& comm, const Made& made, MPI_Request* request,
                               CallBuffers* buffers) {
  if (!may_reduce_again(kept, comm)) return std::nullopt;
  if (buffers && buffers->are_none()) buffers = nullptr;  // the program's own will do
  const void* const in = kept.in.at(made.in, made.out);
  void* out = kept.out.at(made.in, made.out);
  if (kept.pairs.count > 0 && state().api->is_device(out, out)) return std::nullopt;
  if (comm.size == 1 && !buffers && kept.pairs.count == 0) {  // it is done at once
    const std::optional<int> done = make_again(kept, comm, made, in, out);
    return done == MPI_SUCCESS ? make_done_request(request) : done;
  }
  const std::shared_ptr<OwnReductionCall> reduction = kept.reduction;
  CallBuffers of_reduction(reduction);
  if (reduction) buffers = &of_reduction;
  if (buffers) buffers->outlive_call(kept.blocks, kept.in_blocks);
  if (const KeptPairs& pairs = kept.pairs; pairs.count > 0)
    out = of_reduction.copy_pairs_later(out, pairs.count, pairs.bytes, pairs.type);
  Pending* call = buffers ? new_pending(&comm, std::move(*buffers), 0)
                          : new_pending(&comm, Layouts{kept.blocks, kept.in_blocks});
  ddl_started* started = nullptr;
  const ddl_outcome outcome =
      state().api->start_kept(comm.engine, kept.call, in, out, number_on(comm), call, &started);
  if (outcome == DDL_UNDER_WAY) return make_request(call, started, request);
  const int finished = buffers && outcome == DDL_DONE ? finish_pending(call) : MPI_SUCCESS;
  drop_pending(call);
  if (reduction) reduction->throw_on();
  if (finished != MPI_SUCCESS) return finished;
  if (outcome == DDL_DONE) return make_done_request(request);
  if (outcome == DDL_FAILED) return report_failure(made.comm);
  if (!state().api->is_device(made.in, made.out)) forget_kept(comm);  // they take another way by now
  return std::nullopt;
}

void forget_kept(CommState& comm) {
  state().api->forget_kept(comm.engine);
  comm.kept.clear();
}

// What the engine was given is a buffer of the program's or, in place, a part of the other one. Where there
// are too many all are forgotten, this one too: those that are still made will be kept anew.
void keep(const SaidCall::Words& as, const Made& made, const RoutedCall& route, ddl_kept_call* call,
          std::shared_ptr<OwnReductionCall> reduction) {
  using Which = BufferOf::Which;
  KeptCalls& all = route.comm->kept;
  if (all.is_full(route.comm->size)) return forget_kept(*route.comm);
  auto buffer = [](const void* given, const void* own, Which which, const void* other, Which otherwise) {
    if (!given) return BufferOf{};
    if (given == own) return BufferOf{which, 0};
    return BufferOf{otherwise, static_cast<const std::byte*>(given) - static_cast<const std::byte*>(other)};
  };
  const bool has_pairs = reduction && has_gaps(route.own_type) && route.call.out;
  KeptPairs pairs;
  if (has_pairs) pairs = {route.call.count, route.bytes, route.own_type};
  if (has_pairs && made.said.form() == Form::blocking)
    pairs.memory = std::make_shared<std::byte[]>(route.bytes);
  const bool is_exact = as == made.said.words();
  KeptCall one{
      as,
      call,
      buffer(route.call.in, made.in, Which::in, made.out, Which::out),
      has_pairs ? BufferOf{Which::out, 0} : buffer(route.call.out, made.out, Which::out, made.in, Which::in),
      {},
      route.blocks,
      route.in_blocks,
      std::move(reduction),
      operations_freed(made.said.other()),
      std::move(pairs)};
  if (!is_exact) {
    one.alike = std::make_unique<OfAlike>(OfAlike{made.said.counts()});
    one.alike->lengths = route.call.lengths;
    if (!route.blocks) one.alike->elements_of_one = route.call.count / made.said.count();
  }
  all.add(std::move(one), made.lists, route.comm->size);
}

// Where its type has a name that lasts.
void note_passed(const Made& made, const RoutedCall& route) {
  const bool is_another = !route.reason || route.reason == kErroneous || PersistentStart::current();
  CommState* comm = is_another ? nullptr : state_of_noted(made.comm);
  if (!comm || !is_lasting_name(made.said.type())) return;
  comm->last_passed = {made.said.words_but_root(), route.reason, route.bytes,
                       operations_freed(made.said.other())};
}

// Likewise, and where it counts none: nothing by lists, and no type of no size. Starts of persistent requests
// have names of their own.
void note_empty(const Made& made) {
  const SaidCall& said = made.said;
  if (!said.counts_none() || made.lists[0] || said.is_by_bytes() || PersistentStart::current()) return;
  CommState* comm = state_of_noted(made.comm);
  auto lasts = [](const void* name) { return !name || is_lasting_name(name); };
  if (!comm || !lasts(said.type()) || !(reduces(said.collective()) || lasts(said.other()))) return;
  comm->last_empty = {made.said.words(), true, operations_freed(made.said.other())};
}

void PassedCalls::tell(const char* name) {
  std::lock_guard lock(mutex_);
  tell_locked(name);
}

void PassedCalls::tell_locked(const char* name) {
  State& s = state();
  if (s.job && untold_.calls > 0)
    s.api->count_original(s.job, name, reason_, untold_.calls, untold_.bytes, untold_.time);
  untold_ = {};
}

void tell_counts() {
  State& s = state();
  for (int c = 0; c < kCollectives; ++c)
    for (Form form : {Form::blocking, Form::nonblocking}) {
      const auto collective = static_cast<Collective>(c);
      const char* name = name_of(collective, form);
      if (std::uint64_t calls = at(empty_calls, collective, form).exchange(0))
        s.api->count_empty(s.job, name, calls);
      at(passed_calls, collective, form).tell(name);
    }
}

int report_failure(MPI_Comm comm) {
  say_failure();
  return ask_error_handler(comm, MPI_ERR_OTHER);
}

// Where a rank is gone its launcher ends all the others within a second or so, of which this one need not be
// the first: what MPI's error handler says stands before our line, which takes another way to the user. Where
// ranks make different calls all of them learn of it at once, and say so before the first ends the job.
void say_failure() {
  constexpr std::chrono::milliseconds kForTheLauncher{2000}, kForTheOthers{1000};
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  State& s = state();
  log_error(s.api->failure(s.job));
  const Activity* activity = noted_in.load(std::memory_order_acquire);
  const Rank cause = activity ? activity->gave_up.load(std::memory_order_relaxed) - 1 : -1;
  const bool is_peer_gone = cause >= 0 && cause != s.rank;
  std::this_thread::sleep_for(is_peer_gone ? kForTheLauncher : kForTheOthers);
}

int report_unreadable(Collective collective, Form form, MPI_Comm comm) {
  return report_error(
      fmt::format("{}: MPI cannot pack the elements of the buffer", name_of(collective, form)), comm,
      MPI_ERR_TYPE);
}

int report_own_block(Collective collective, Form form, MPI_Comm comm) {
  return report_error(
      fmt::format(
          "{}: the root's own block is not as long where it is sent as where it is received (MPI wants "
          "the count times the type of both sides to be equal)",
          name_of(collective, form)),
      comm, MPI_ERR_TRUNCATE);
}

}  // namespace ddl::mpi
