#include "core/collective/engine.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/pause.hpp"
#include "core/collective/yields_awhile.hpp"
#include "core/topology/caches.hpp"

namespace ddl {
namespace {

// Blocking calls, and pauses or yields in one, between two calls into the original library; and between two
// looks at what makes no message in this host. Where ranks share cores each round of a waiting rank delays
// one that has work: 4 hosts x 2 on two cores up to 16 KiB, 7 % (library and sockets in every round: 117 us,
// now 109).
constexpr int kHostProgressEvery = 64;
constexpr int kLookEvery = 16;
constexpr int kPollRounds =
    4;  // of poll() where other hosts are heard, before the library has its turn again
// With the lock held, see Communicator::run. An operation costs as much as a switch to another rank: where
// ranks share cores, who has to wait in nearly every call yields first (4 ranks on two cores, one call after
// the other, with and without: reduce of 4 bytes 0.56 and 1.31 us, all-to-all of 256 bytes 3.4 and 6.5,
// all-gather of 1 KiB 4.0 and 5.7).
constexpr int kPausesAtOnce = 200, kYieldsAtOnce = 16;
constexpr Nanoseconds kFirstSleep = 50'000;
// What takes longer on the wire is slept through at once (16 MiB, 4 hosts x 2, unshaped: 32.6 -> 31.5 ms).
constexpr Bytes kBrief = 1 << 20;
// Where ranks outnumber cores, whom this one waits for is likely to want its core, and a yield costs less
// than a sleep (4 ranks on two cores, up to 256 KiB: 4 to 7 % less than without).
constexpr int kCrowdedYields = 4;
constexpr Nanoseconds kLongestSleepWithoutWakeFd = 200'000;  // nothing on the wire ends it

}  // namespace

Engine::Engine(Fabrics fabrics, Waiting waiting)
    : fabrics_(fabrics),
      waiting_(std::move(waiting)),
      shared_{.fabrics = fabrics,
              .mutex = mutex_,
              .streamed_from = ddl::streamed_from(caches(), fabrics.local->ranks()),
              .for_the_other = waiting_.for_the_other} {
  if (waiting_.spins == 0) balance_.emplace(fabrics.local->activities(), fabrics.local->place());
}

Engine::~Engine() {
  {
    std::lock_guard lock(helper_mutex_);
    helper_ends_ = true;
  }
  helper_wakes_.notify_all();
  if (helper_.joinable()) helper_.join();
  for (Early& early : early_) early.view.release();
}

// ---- communicators ----

Communicator& Engine::create(CommId id, std::shared_ptr<PlanStore> plans, CommId known_as) {
  std::lock_guard lock(mutex_);
  if (std::find(stores_.begin(), stores_.end(), plans) == stores_.end()) stores_.push_back(plans);
  auto [place, is_new] =
      communicators_.try_emplace(id, std::make_unique<Communicator>(id, std::move(plans), shared_, known_as));
  if (!is_new) throw Error(fmt::format("two communicators have the identity {:x}", id));
  forget_early_senders(id, place->second->members().ranks);
  if (!early_.empty()) {
    std::vector<Early> early;
    early.swap(early_);
    early_bytes_ = 0;
    for (Early& message : early) deliver(message.header, message.view);
  }
  return *place->second;
}

void Engine::destroy(Communicator& communicator) {
  std::lock_guard lock(mutex_);
  settle();
  std::erase(left_, &communicator);
  std::erase(active_, &communicator);
  auto found = communicators_.find(communicator.id());
  if (failed()) buried_.push_back(std::move(found->second));
  communicators_.erase(found);
  std::erase_if(stores_, [this](const std::shared_ptr<PlanStore>& store) {
    if (store.use_count() > 1) return false;
    store->collect(counted_);
    return true;
  });
}

void Engine::time_dimensions(Communicator& communicator) {
  std::lock_guard lock(mutex_);
  communicator.time_dimensions();
}

void Engine::collect(Counters& into, std::vector<WireBytes>& wire) {
  std::lock_guard lock(mutex_);
  take_arithmetic();
  settle();  // what is counted begins anew
  add(wire, std::exchange(shared_.wire_bytes, {}));
  into.take(counted_);
  shared_.time.collect(into, now());
  for (auto& store : stores_) store->collect(into);
  for (const Attached& one : backgrounds_) one.background->collect(into);
}

// ---- calls ----

// A small message may wait for others to the same peer, unless nothing else is under way that it could wait
// for.
Started Engine::start(Communicator& communicator, const Call& call, Completion& completion,
                      PreparedPlan* plan) {
  if (!plan) plan = &communicator.plans().plan_for(call.task(), call.bytes());
  std::lock_guard lock(mutex_);
  settle();
  completion.goes_on_ = true;
  completion.gets_notice_ = false;
  begin_time(call, completion);
  bool quiet = shared_.going_on.load(std::memory_order_relaxed) == 0;
  communicator.start(call, *plan, completion);
  take_up(communicator, quiet ? 0 : kTogether);
  if (completion.done()) return Started::done;
  completion.gets_notice_ = completion.asks_for_notice_;
  tell_helper(call, *plan);
  return Started::under_way;
}

void Engine::start_together(Communicator& communicator, std::span<const Call> calls,
                            std::span<Completion> done) {
  std::vector<PreparedPlan*> plans;  // this may throw: before anything is queued
  for (const Call& call : calls) {
    if (!is_between_two(call.kind)) throw Error("only sends and receives can be started together");
    plans.push_back(&communicator.plans().plan_for(call.task(), call.bytes()));
  }
  std::lock_guard lock(mutex_);
  settle();
  for (std::size_t i = 0; i < calls.size(); ++i) communicator.start(calls[i], *plans[i], done[i]);
  take_up(communicator, 0);
}

void Engine::run(Communicator& communicator, const Call& call, PreparedPlan* plan, Observed* observed) {
  Completion completion;
  completion.observe(observed);
  start_waiting(communicator, call, completion, plan);
  if (!completion.done()) wait(communicator, completion);
}

void Engine::run_part(Communicator& communicator, Call call, PreparedPlan* plan) {
  call.is_part = true;
  run(communicator, call, plan);
}

void Engine::count(const Call& call, PreparedPlan& plan) {
  const Nanoseconds time = now() - call.began;
  std::lock_guard lock(mutex_);
  if (failed()) return;
  plan.use_of(call.collective).tally.add(call.bytes(), time);
}

void Engine::run(Communicator& communicator, BriefCall& call) {
  Completion completion;
  move_host_now_and_then();
  {
    std::lock_guard lock(mutex_);
    call.prefetch_first_entries();
    make_way(communicator);
    if (active_.empty()) {
      run_among_left(communicator, call, completion);
    } else {
      call.start_time();
      communicator.start(call.call(), call.plan(), completion);
    }
    take_up_rest(communicator, completion);
  }
  call.combine_what_is_left();
  if (!completion.done()) wait(communicator, completion);
}

// Who never waits must move the original library too: what the program sent with it may depend on that.
// Threads that count at once count one call less, which nobody minds.
void Engine::move_host_now_and_then() {
  const std::uint32_t calls = calls_.load(std::memory_order_relaxed);
  calls_.store(calls + 1, std::memory_order_relaxed);
  if (calls % kHostProgressEvery == 0) waiting_.host_progress();
}

// The lock is kept for the pauses: they last some microseconds, and nothing else is under way. A move to
// another core may take a slice of the scheduler, once in a while.
ShortWait Engine::wait_at_once() {
  if (!balance_) return ShortWait::pauses(std::min(waiting_.spins, kPausesAtOnce));
  balance_->look_now_and_then();
  return ShortWait::yields(kYieldsAtOnce);
}

void Engine::start_waiting(Communicator& communicator, const Call& call, Completion& completion,
                           PreparedPlan* plan) {
  move_host_now_and_then();
  if (!plan) plan = &communicator.plans().plan_for(call.task(), call.bytes());
  {
    std::lock_guard lock(mutex_);
    make_way(communicator);
    // Whose message has come may take part in reading it while this rank copies what is its own.
    if (reads_in_place(plan->plan) && !BriefCall::is_possible(call, *plan, communicator.size()))
      fabrics_.local->progress(*this);
    if (active_.empty() && !is_between_two(call.kind))
      communicator.run(call, *plan, completion, wait_at_once());
    else
      communicator.start(call, *plan, completion);
    take_up_rest(communicator, completion);
  }
  communicator.combine_what_is_left();
}

// Nobody wants to know of one of our own.
void Engine::begin_time(const Call& call, Completion& completion) {
  completion.timed_as_ = *call.collective ? call.collective : nullptr;
  if (completion.timed_as_) shared_.time.begin(completion.timed_as_, call.began);
}

// What has just been started there.
void Engine::take_up(Communicator& communicator, Bytes push_at_least) {
  // What has left may let an operation go on.
  while (fabrics_.wire && fabrics_.wire->push(push_at_least)) communicator.advance();
  if (!communicator.problem().empty()) fail_locked(communicator.problem());
  activate_unless_idle(communicator);
}

void Engine::activate_unless_idle(Communicator& communicator) {
  if (!communicator.idle() && std::find(active_.begin(), active_.end(), &communicator) == active_.end())
    active_.push_back(&communicator);
}

// One that is done at once leaves nothing, unless something was found wrong on the way.
void Engine::take_up_rest(Communicator& communicator, const Completion& completion) {
  if (!completion.done() || !communicator.problem().empty()) take_up(communicator, 0);
}

Completion* Engine::next_done() {
  if (!shared_.notices.any()) return nullptr;
  std::lock_guard lock(mutex_);
  return shared_.notices.take();
}

// ---- waiting ----

bool Engine::test(const Completion& completion) {
  bool moved = false;
  return look(completion, moved, nullptr);
}

// `waiting`: where the call is that this thread does nothing but wait for; null: it does not wait.
bool Engine::look(const Completion& completion, bool& moved, Communicator* waiting) {
  if (completion.done()) return true;
  rounds_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (failed()) return is_over();
  moved = progress_locked();
  if (waiting && !moved && !completion.done() && !failed()) moved = waiting->help_readers();
  return completion.done() || (failed() && is_over());
}

// Pause, or yield, while an answer is likely within microseconds, then sleep until a peer or the wire wakes
// us, and never long: the original library must be moved too.
void Engine::wait(Communicator& communicator, const Completion& completion) {
  if (completion.goes_on_ && finish_left(completion)) return;
  note_absence();
  bool wire = communicator.members().grid.spans_hosts();
  bool has_no_wake_fd = wire && fabrics_.wire->wake_fd() < 0;
  bool hears_wire = wire && completion.hears_wire_;
  int brief_yields = completion.bytes_ <= kBrief ? waiting_.wire_yields : 0;
  const bool crowded = !wire && waiting_.spins == 0;
  int rounds = crowded          ? kCrowdedYields
               : !wire          ? waiting_.spins
               : has_no_wake_fd ? waiting_.yields_without_wake_fd
                                : brief_yields;
  Nanoseconds longest =
      has_no_wake_fd ? std::min(waiting_.longest_sleep, kLongestSleepWithoutWakeFd) : waiting_.longest_sleep;
  Nanoseconds next_sleep = kFirstSleep;
  YieldsAwhile yields(wire ? 0 : waiting_.yields_for);
  for (int idle = 0;;) {
    bool moved = false;
    // Who hears from this host only sees it without the lock and without asking the kernel; the rest (room
    // for a message, another thread's work, other communicators) is looked for now and then.
    bool worth_it = hears_wire || idle % kLookEvery == 0 || fabrics_.local->has_arrived();
    if (worth_it && look(completion, moved, &communicator)) return;
    idle = moved ? 0 : idle + 1;
    if (idle < rounds || yields.yield()) {
      next_sleep = kFirstSleep;
      if (idle < rounds) wire || crowded ? static_cast<void>(::sched_yield()) : pause_a_moment();
      if (idle % kHostProgressEvery == kHostProgressEvery - 1) waiting_.host_progress();
      continue;
    }
    waiting_.host_progress();
    bool done = false;
    sleeping_.fetch_add(1, std::memory_order_relaxed);
    sleep_unless([&] { return (done = look(completion, moved, &communicator)) || moved; }, next_sleep);
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
    if (done) return;
    next_sleep = std::min(next_sleep * 2, longest);
  }
}

bool Engine::progress() {
  rounds_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && !failed() && progress_locked();
}

bool Engine::poll() {
  note_absence();
  if (shared_.notices.any()) return true;
  std::uint32_t round = rounds_.fetch_add(1, std::memory_order_relaxed);
  if (!fabrics_.wire) {
    bool worth_it = round % kLookEvery == 0 || fabrics_.local->has_arrived();
    return worth_it && progress();
  }
  for (int i = 0; i < kPollRounds; ++i) {
    if (progress()) return true;
    ::sched_yield();
  }
  return false;
}

bool Engine::progress_locked() {
  bool moved = move_left();
  const bool is_for_left = leave_arrived(moved);
  if (failed()) return moved;
  moved |= is_for_left ? fabrics_.local->end_single_copies() : fabrics_.local->progress(*this);
  if (wire_is_closed_) return moved;
  if (fabrics_.wire) moved |= fabrics_.wire->progress(*this);
  if (!questions_.empty()) answer_questions();
  do {
    moved |= advance_active();
    if (!backgrounds_.empty()) moved |= advance_backgrounds();
  } while (!failed() && fabrics_.wire && fabrics_.wire->push(0));  // what has left may let an operation go on
  return moved;
}

bool Engine::advance_active() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Communicator& communicator = *active_[i];
    moved |= communicator.advance();
    if (!communicator.problem().empty()) {
      fail_locked(communicator.problem());
      return true;
    }
    if (communicator.idle()) {
      std::erase(active_, &communicator);  // its place may have changed
    } else {
      ++i;
    }
  }
  return moved;
}

}  // namespace ddl
