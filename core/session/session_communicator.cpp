#include "core/session/session_communicator.hpp"

#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/collective/reduce_all.hpp"
#include "core/device/device_memory.hpp"
#include "core/session/identity.hpp"

namespace ddl {
namespace {

using What = Outcome::What;

// Of what no front makes of a communicator.
constexpr std::uint64_t kKeyed = ~std::uint64_t{0}, kLazy = kKeyed - 1, kSparse = kKeyed - 2,
                        kRequests = kKeyed - 3, kStarts = kKeyed - 4;
// Nothing that was measured of other calls holds for the starts of persistent requests. A bit no front has.
constexpr std::uint8_t kOfRequest = 64;

Outcome left(const Route& route) {
  return {route.how == Route::Original::as_called ? What::original : What::original_in_two_steps,
          route.original, route.is_watched};
}

}  // namespace

SessionCommunicator::SessionCommunicator(SessionCommunicator& parent, CommId id)
    : SessionCommunicator(parent.session_, id, parent.plans_) {
  const std::uint64_t number = parent.requests_made_++;
  slot_ = number % RequestGroup::kMost;
  if (slot_ == 0) {
    const CommId group = identity_of(parent.id_, kRequests, number / RequestGroup::kMost);
    parent.requests_ = std::make_shared<RequestGroup>(session_, plans_, group);
  }
  group_ = parent.requests_;
}

SessionCommunicator::~SessionCommunicator() {
  if (ready_) session_.outstanding().give_back(*ready_);
  sparse_.reset();
  lazy_.reset();
  selection_.reset();
  for (Communicator* communicator : {of_runs_, of_starts_})
    if (communicator) session_.engine().destroy(*communicator);
}

void SessionCommunicator::make_usable() {
  if (selection_) return;
  const TuneSettings& settings = session_.tuning().settings();
  auto agree = [this](std::span<std::int64_t> numbers, Op op) {
    Call call{numbers.data(), numbers.data(), numbers.size(), DType::int64, op, decided_.collective, now()};
    call.number = decided_.number;
    session_.engine().run_part(of_runs(), call);
  };
  selection_ = std::make_unique<Selection>(*plans_, settings, session_.tuning().memory(),
                                           session_.tuning().budget(), agree);
  lazy_ = lazy_here();
  const SparseSettings& sparse = session_.job_map().gradients.sparse;
  if (sparse.is_on() && plans_->members().grid.spans_hosts()) make_sparse(sparse);
}

Communicator& SessionCommunicator::of_runs() {
  if (of_runs_) return *of_runs_;
  Engine& engine = session_.engine();
  of_runs_ = &engine.create(id_, plans_);
  if (session_.tuning().settings().options.dump_iter) engine.time_dimensions(*of_runs_);
  return *of_runs_;
}

Communicator& SessionCommunicator::of_starts() {
  if (!of_starts_) of_starts_ = &session_.engine().create(identity_of(id_, kStarts, 0), plans_, id_);
  return *of_starts_;
}

// The engine knows its members all the same, for lines about who does not come to what the original does.
Outcome SessionCommunicator::leave(const Route& route) {
  of_runs();
  return left(route);
}

std::shared_ptr<LazyAllReduce> SessionCommunicator::lazy_here() const {
  if (group_) return {group_, group_->all_reduces()};
  return make_lazy(session_, plans_, {identity_of(id_, kLazy, 0), identity_of(id_, kLazy, 1), id_}, 1);
}

// Elements of an operation of the program's own are no floats to us, whatever their type is called.
CallShape SessionCommunicator::shape_of(const Call& call) const {
  const DType type = call.own ? DType::uint8 : call.type;
  CallShape shape{call.task(), call.bytes(), fingerprint_of(call), call.variant, type, is_barrier(call)};
  if (call.pairwise)
    shape.bytes = pairwise_bytes(call.rooted, plans_->members().grid.spans_hosts(), plans_->limits().rails);
  if (group_) shape.variant |= kOfRequest;
  return shape;
}

void SessionCommunicator::make_sparse(const SparseSettings& settings) {
  const SparseGradients::Identities identities{identity_of(id_, kSparse, 0), identity_of(id_, kSparse, 1),
                                               id_};
  sparse_ = std::make_unique<SparseGradients>(session_.engine(), plans_, identities, settings,
                                              wire_rule_of(session_, plans_->members()));
}

std::shared_ptr<SparseGradient> SessionCommunicator::make_gradient(Residual residual,
                                                                   SparseSettings settings) {
  if (!has_failed()) make_usable();
  if (!sparse_) make_sparse({});
  if (!plans_->members().grid.spans_hosts()) settings.share = 1;
  auto made = std::make_shared<SparseGradient>(SparseGradient{.settings = settings});
  made->residual = std::move(residual);
  return made;
}

void SessionCommunicator::warm_up() {
  if (has_failed()) return;
  make_usable();
  of_runs();
  for (Bytes bytes = 64; bytes <= 4096; bytes *= 2) selection_->prepare({}, bytes);
}

Outcome SessionCommunicator::run(Call&& call) {
  if (has_failed()) return {};
  make_usable();
  if (sparse_ && sparse_->takes(call)) return run_sparse(call);
  call.fingerprint = fingerprint_of(call);
  const CallShape shape = shape_of(call);
  decided_ = {call.collective, call.number};
  Route route = selection_->blocking(shape);
  if (has_failed()) return {};  // while the ranks met
  if (route.began_anew) call.began = now();
  if (!route.plan) return leave(route);
  Observed observed;
  Staged staged;
  void* const out = call.out;
  fetch(call, plans_->members().me, plans_->members().size(), staged);
  if (route.plan->task_choice.padded > 0)
    run_padded(session_.engine(), of_runs(), call, *route.plan, padding_);
  else if (route.plan->task_choice.reduces_all)
    run_reducing_all(session_.engine(), of_runs(), call, *route.plan, padding_.out);
  else
    session_.engine().run(of_runs(), call, route.plan, route.is_watched ? &observed : nullptr);
  if (has_failed()) return {};
  if (!staged.memory.empty()) {
    call.out = out;
    bring_back(call, staged);
  }
  if (route.is_watched) selection_->finished(shape, route, now() - call.began, &observed);
  if (has_failed()) return {};
  return {What::done, "", false, route.stays ? route.plan : nullptr};
}

// Not between hosts, where rails are measured.
SessionCommunicator::Kept* SessionCommunicator::keep(const Call& asked, PreparedPlan& plan, How how) {
  const Members& members = plans_->members();
  const bool is_plain = !members.grid.spans_hosts() && plan.shifted.empty();
  if (!is_plain || !BriefCall::is_possible(asked, plan, members.size())) return nullptr;
  Call call = asked;
  call.fingerprint = fingerprint_of(call);
  if (kept_.empty()) kept_since_ = selection_->settlings();
  Kept& kept = *kept_.emplace_back(std::make_unique<Kept>());
  kept.on = how == How::run ? &of_runs() : &of_starts();
  kept.on->make_brief(kept.call, call, plan);
  kept.shape = shape_of(call);
  kept.counter = selection_->counter_of(kept.shape);
  return &kept;
}

bool SessionCommunicator::recount(Kept& kept, const Counts& counts) {
  if (has_failed()) return false;
  if (kept.is_started) session_.engine().let_go_of_brief_calls();
  Call call = kept.call.call();
  call.count = counts.count;
  call.in_blocks = counts.in_blocks;
  call.out_blocks = counts.out_blocks;
  call.lengths = counts.lengths;
  call.fingerprint = compute_fingerprint(call);
  PreparedPlan& plan = kept.call.plan();
  CallShape shape = kept.shape;
  if (!call.pairwise) shape.bytes = call.bytes();
  shape.barrier = is_barrier(call);
  // Nonblocking ones alone are fused, and a blocking one would lose little.
  const bool is_fused = lazy_ && lazy_->takes(call);
  if (is_fused || !selection_->are_alike(kept.shape, shape) ||
      !BriefCall::is_possible(call, plan, plans_->members().size()))
    return false;
  if (!kept.call.recount(call)) kept.on->make_brief(kept.call, call, plan);
  return true;
}

Outcome::What SessionCommunicator::run(Kept& kept, const void* in, void* out, std::uint64_t number) {
  BriefCall& call = kept.call;
  if (has_failed()) return What::failed;
  if (selection_->settlings() != kept_since_ || is_on_device(kept, in, out)) return What::original;
  Tuner* const counter = kept.counter;
  if (counter && !counter->leaves_alone(call.call().fingerprint)) return What::original;
  if (plans_->members().size() == 1) return session_.engine().run_alone(*kept.on, call, in, out), What::done;
  call.use(in, out, number);
  if (counter) counter->next(call.call().fingerprint);
  const bool is_timed = counter && counter->wants_time();
  if (is_timed) call.start_time();
  session_.engine().run(*kept.on, call);
  if (has_failed()) return What::failed;
  if (is_timed) counter->record(now() - call.call().began);
  return What::done;
}

// What was the host's in the call before is not looked at again, for the reason that is_device_memory() has:
// that remembers what it was asked last, this what was asked for each call.
bool SessionCommunicator::is_on_device(Kept& kept, const void* in, const void* out) {
  const bool is_known = kept.in == in && kept.out == out && !is_driver_known();
  if (!is_known && is_device_memory(in, out)) return true;
  kept.in = in;
  kept.out = out;
  return false;
}

Outcome SessionCommunicator::start(Kept& kept, const void* in, void* out, std::uint64_t number, void* owner,
                                   SessionCall*& started) {
  BriefCall& call = kept.call;
  if (has_failed()) return {};
  if (selection_->settlings() != kept_since_ || sparse_) return {What::original, "another plan"};
  if (is_on_device(kept, in, out)) return {What::original, "device memory"};
  kept.is_started = true;
  OutstandingCalls& outstanding = session_.outstanding();
  if (!ready_) ready_ = &outstanding.make_ready();
  outstanding.take(*ready_, owner, *kept.on);
  if (session_.engine().start(*kept.on, call, in, out, number, *ready_) == Started::under_way) {
    started = std::exchange(ready_, nullptr);
    return {What::under_way};
  }
  outstanding.take_over(*ready_);
  return {has_failed() ? What::failed : What::done};
}

void SessionCommunicator::forget_kept() {
  session_.engine().let_go_of_brief_calls();
  kept_.clear();
  kept_since_ = selection_->settlings();
}

Outcome SessionCommunicator::run_sparse(const Call& asked) {
  SessionCall call;
  start({Way::sparsely, {}}, asked, call);
  return wait(call);
}

Route SessionCommunicator::route_of(const CallShape& shape) {
  std::lock_guard lock(mutex_);
  make_usable();
  return selection_->nonblocking(shape);
}

// A key that comes again makes another one.
CommId SessionCommunicator::identity_of_key(std::uint64_t key) {
  std::lock_guard lock(mutex_);
  return identity_of(identity_of(id_, 0, kKeyed), key, made_.count(key));
}

// Each call with a key has a communicator of its own, for as long as it takes.
Outcome SessionCommunicator::run(const Call& asked, std::uint64_t key) {
  if (has_failed()) return {};
  const Route route = route_of(shape_of(asked));
  if (!route.plan) return left(route);
  Engine& engine = session_.engine();
  const CommId id = identity_of_key(key);
  auto destroy = [&engine](Communicator* communicator) { engine.destroy(*communicator); };
  std::unique_ptr<Communicator, decltype(destroy)> communicator(&engine.create(id, plans_), destroy);
  Call call = asked;
  Staged staged;
  fetch(call, plans_->members().me, plans_->members().size(), staged);
  if (!sparse_ || !sparse_->run(call, key, *communicator)) engine.run(*communicator, call, route.plan);
  if (has_failed()) return {};
  bring_back(asked, staged);
  return {What::done};
}

void SessionCommunicator::original_done(const Call& call, Nanoseconds time) {
  if (has_failed()) return;
  decided_ = {call.collective, call.number};
  selection_->finished(shape_of(call), {}, time, nullptr);
}

const char* SessionCommunicator::left_to_original(const Call& asked) {
  if (has_failed()) return nullptr;
  make_usable();
  return selection_->left_to_original(shape_of(asked));
}

SessionCommunicator::StartRoute SessionCommunicator::route_to_start(const Call& asked) {
  if (sparse_ && sparse_->takes(asked)) return {Way::sparsely, {}};
  if (lazy_ && lazy_->takes(asked)) return {Way::lazily, {}};
  return {Way::by_plan, selection_->nonblocking(shape_of(asked))};
}

Outcome SessionCommunicator::start(const Call& asked, void* owner, SessionCall*& started) {
  if (has_failed()) return {};
  make_usable();
  const StartRoute way = route_to_start(asked);
  if (way.route.original) return leave(way.route);
  OutstandingCalls& outstanding = session_.outstanding();
  SessionCall& call = outstanding.take(owner, of_starts());
  PreparedPlan* plan = nullptr;
  try {
    const Started how = start(way, asked, call);
    if (way.how == Way::by_plan && !is_device_memory(asked.in, asked.out)) plan = way.route.plan;
    if (how == Started::under_way) {
      started = &call;
      return {What::under_way, "", false, plan};
    }
  } catch (...) {
    outstanding.give_back(call);  // nobody is told of its end
    throw;
  }
  outstanding.give_back(call);
  return {What::done, "", false, plan};
}

Outcome SessionCommunicator::start(const Call& asked, SessionCall& call) {
  if (has_failed()) return {};
  make_usable();
  if (is_between_two(asked.kind)) {
    call.asked = asked;
    call.staged = {};
    Completion& completion = call;
    session_.engine().start_together(of_starts(), {&asked, 1}, {&completion, 1});
    if (call.done()) return {has_failed() ? What::failed : What::done};
    return {What::under_way};
  }
  const StartRoute way = route_to_start(asked);
  if (way.route.original) return leave(way.route);
  if (start(way, asked, call) == Started::under_way) return {What::under_way};
  return {has_failed() ? What::failed : What::done};
}

Outcome SessionCommunicator::start(const Call& asked, const std::shared_ptr<SparseGradient>& gradient,
                                   SessionCall& call) {
  if (has_failed()) return {};
  start({Way::sparsely, {}, &gradient}, asked, call);
  return {What::under_way};
}

Outcome SessionCommunicator::wait(SessionCall& call) {
  session_.engine().wait(of_starts(), call);
  return end(call);
}

std::optional<Outcome> SessionCommunicator::test(SessionCall& call) {
  if (!session_.engine().test(call)) return std::nullopt;
  return end(call);
}

Outcome SessionCommunicator::end(SessionCall& call) {
  if (has_failed()) return {};
  bring_back(call.asked, call.staged);
  return {What::done};
}

Started SessionCommunicator::start(const StartRoute& way, const Call& asked, SessionCall& call) {
  call.asked = asked;
  Call here = asked;
  fetch(here, plans_->members().me, plans_->members().size(), call.staged);
  if (way.how == Way::lazily) return lazy_->start(here, call, slot_), Started::under_way;
  if (way.how == Way::sparsely) {
    way.gradient ? sparse_->start(*way.gradient, here, call) : sparse_->start(here, call);
    return Started::under_way;
  }
  Started started = session_.engine().start(of_starts(), here, call, way.route.plan);
  if (started == Started::done && !has_failed()) bring_back(asked, call.staged);
  return started;
}

}  // namespace ddl
