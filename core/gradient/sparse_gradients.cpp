#include "core/gradient/sparse_gradients.hpp"

#include <utility>

#include "core/base/clock.hpp"

namespace ddl {
namespace {

// In place, of one of our own.
Call sum_of(DType type, void* values, Elements count) {
  return {values, values, count, type, Op::sum, "", now()};
}

}  // namespace

SparseGradients::SparseGradients(Engine& engine, std::shared_ptr<PlanStore> plans, Identities identities,
                                 const SparseSettings& settings, WireRule wire)
    : engine_(engine),
      plans_(std::move(plans)),
      program_(identities.program),
      settings_(settings),
      wire_(wire),
      norms_on_(engine.create(identities.norms, plans_)),
      chunks_on_(engine.create(identities.chunks, plans_)) {
  engine_.attach(*this);
}

SparseGradients::~SparseGradients() {
  engine_.detach(*this);
  engine_.destroy(norms_on_);
  engine_.destroy(chunks_on_);
}

// ---- which calls ----

bool SparseGradients::is_eligible(const Call& call) const {
  return settings_.is_on() && call.kind == Kind::all_reduce && !call.own &&
         can_be_sparse(call.type, call.op) && call.bytes() >= settings_.from;
}

std::optional<SparseGradients::Proposal> SparseGradients::propose(const Call& call, std::uint64_t number) {
  const auto place = pattern_.hear(number, call.count * 2 + (call.type == DType::float64));
  if (std::exchange(pattern_broken_, pattern_.broken()) != pattern_.broken()) forget();
  if (!place) return std::nullopt;
  std::shared_ptr<SparseGradient>& gradient = gradients_[*place];
  if (!gradient) gradient = std::make_shared<SparseGradient>(SparseGradient{.settings = settings_});
  return Proposal{*place, gradient, gradient->residual || kept() + call.bytes() <= settings_.most_kept};
}

void SparseGradients::accept(Proposal& proposal, const Call& call) {
  SparseGradient& gradient = *proposal.gradient;
  const Elements chunks = chunks_of(call.count);
  proposal.sent = proposal.fits ? chunks_sent(settings_, chunks, gradient.times) : chunks;
  proposal.is_sparse = proposal.sent < chunks;
  ++gradient.times;
  if (!proposal.is_sparse || gradient.residual) return;
  gradient.residual.emplace(call.count, call.type);
  kept_.fetch_add(gradient.residual->bytes(), std::memory_order_relaxed);
}

bool SparseGradients::takes(const Call& call) {
  if (!is_eligible(call)) return false;
  taken_ = propose(call, heard_++);
  if (!taken_) return false;
  accept(*taken_, call);
  return taken_->is_sparse;
}

// What was kept for another pattern belongs to no gradient any more. Calls under way still have theirs.
void SparseGradients::forget() {
  gradients_.clear();
  kept_.store(0, std::memory_order_relaxed);
}

PreparedPlan& SparseGradients::plan_of_norms(const Call& call) const {
  return plans_->plan_for({}, chunks_of(call.count) * sizeof(float));
}

PreparedPlan& SparseGradients::plan_of_chunks(const Call& call, Elements sent) const {
  const WireFormat format = wire_.format_of(Kind::all_reduce, call.type, call.bytes());
  return plans_->plan_for({}, sent * kChunk * size_of(call.type), format);
}

// ---- calls in order ----

void SparseGradients::start(const Call& call, Completion& completion) {
  start(std::move(taken_->gradient), taken_->sent, call, completion);
}

void SparseGradients::start(const std::shared_ptr<SparseGradient>& gradient, const Call& call,
                            Completion& completion) {
  start(gradient, chunks_sent(gradient->settings, chunks_of(call.count), gradient->times++), call,
        completion);
}

void SparseGradients::start(std::shared_ptr<SparseGradient> gradient, Elements chunks, const Call& call,
                            Completion& completion) {
  const Elements sent = chunks * kChunk, norms = chunks_of(call.count);
  PreparedPlan& norms_plan = plan_of_norms(call);
  PreparedPlan& chunks_plan = plan_of_chunks(call, chunks);
  engine_.take_turn(*this, [&](EngineTurn& turn) {
    if (idle_.empty()) idle_.push_back(std::make_unique<SparseCall>());
    calls_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    SparseCall& one = *calls_.back();
    one.call = call;
    one.completion = &completion;
    one.gradient = std::move(gradient);
    one.phase = Phase::made;
    one.norms.resize(norms);
    one.packed.resize(sent * size_of(call.type));
    one.norms_plan = &norms_plan;
    one.chunks_plan = &chunks_plan;
    turn.promise(completion, call, plans_->members().grid.spans_hosts());
    if (may_add(calls_.size() - 1)) add(one, turn);
  });
}

// ---- what is under way; the engine's lock is held ----

bool SparseGradients::advance(EngineTurn& turn) {
  bool moved = false;
  for (std::size_t i = 0; i < calls_.size() && !turn.failed(); ++i) moved |= step(i, turn);
  while (!calls_.empty() && calls_.front()->phase == Phase::done) {
    calls_.front()->gradient.reset();  // who knows when the slot is used again
    idle_.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  return moved;
}

bool SparseGradients::step(std::size_t number, EngineTurn& turn) {
  SparseCall& one = *calls_[number];
  switch (one.phase) {
    case Phase::made:
      if (!may_add(number)) return false;
      add(one, turn);
      return true;
    case Phase::norms:
      if (!one.norms_done.done() || !all_before(number, Phase::chunks)) return false;
      take(one, turn);
      return true;
    case Phase::chunks:
      if (!one.chunks_done.done()) return false;
      put(one, turn);
      return true;
    default:  // another thread is at it
      return false;
  }
}

bool SparseGradients::all_before(std::size_t number, Phase reached) const {
  for (std::size_t i = 0; i < number; ++i)
    if (calls_[i]->phase < reached) return false;
  return true;
}

// A gradient of the next step waits until that of this one has been taken from what is kept.
bool SparseGradients::may_add(std::size_t number) const {
  return all_before(number, Phase::norms) && !calls_[number]->gradient->is_busy;
}

void SparseGradients::add(SparseCall& one, EngineTurn& turn) {
  one.phase = Phase::adding;
  one.gradient->is_busy = true;
  turn.work([&one] { one.gradient->residual->add(one.call.in, one.norms); });
  if (turn.failed()) return;
  one.phase = Phase::norms;
  turn.start(norms_on_, sum_of(DType::float32, one.norms.data(), one.norms.size()), *one.norms_plan,
             one.norms_done);
}

void SparseGradients::take(SparseCall& one, EngineTurn& turn) {
  one.phase = Phase::taking;
  turn.work([&one] {
    one.chosen = choose_chunks(one.norms, one.packed.size() / size_of(one.call.type) / kChunk);
    one.gradient->residual->take(one.chosen, one.packed.data());
  });
  if (turn.failed()) return;
  one.gradient->is_busy = false;
  one.phase = Phase::chunks;
  const Elements elements = one.packed.size() / size_of(one.call.type);
  turn.start(chunks_on_, sum_of(one.call.type, one.packed.data(), elements), *one.chunks_plan,
             one.chunks_done);
}

void SparseGradients::put(SparseCall& one, EngineTurn& turn) {
  one.phase = Phase::putting;
  const Call& call = one.call;
  turn.work([&one, &call] { put_chunks(call.type, call.out, call.count, one.chosen, one.packed.data()); });
  if (turn.failed()) return;
  one.phase = Phase::done;
  count(call, one.packed.size(), 0);
  turn.fulfil(*one.completion);
}

// Of a call that goes on by itself the engine knows the time.
void SparseGradients::count(const Call& call, Bytes sent, Nanoseconds time) {
  counted_.collect(call.collective, size_class(call.bytes()), "sparse", {1, call.bytes(), time});
  counted_.count_sparse(call.collective, call.bytes(), sent + chunks_of(call.count) * sizeof(float), kept());
}

ProgramCall SparseGradients::oldest() const {
  return {calls_.empty() ? nullptr : &calls_.front()->call, program_, {&norms_on_, &chunks_on_}};
}

void SparseGradients::collect(Counters& into) { into.take(counted_); }

// ---- calls with numbers ----

bool SparseGradients::run(const Call& call, std::uint64_t number, Communicator& on) {
  if (!is_eligible(call)) return false;
  std::optional<Proposal> mine = claim(call, number);
  const bool is_sparse = agree(mine, on, call) && mine->is_sparse;
  if (is_sparse) run(call, *mine, on);
  std::lock_guard lock(mutex_);
  if (mine) mine->gradient->is_busy = false;
  return is_sparse && !engine_.failed();
}

// Nobody waits for a call of the step before: others may wait for this one.
std::optional<SparseGradients::Proposal> SparseGradients::claim(const Call& call, std::uint64_t number) {
  std::lock_guard lock(mutex_);
  std::optional<Proposal> mine = propose(call, number);
  if (!mine || mine->gradient->is_busy) return std::nullopt;
  mine->gradient->is_busy = true;
  return mine;
}

// Whether all ranks take it for the same gradient. The one that has sent it least often counts: it may have
// lost the pattern in between. It is sparse if it can be on all of them.
bool SparseGradients::agree(std::optional<Proposal>& mine, Communicator& on, const Call& call) {
  constexpr std::int64_t kUnknown = -1;
  const auto place = mine ? static_cast<std::int64_t>(mine->place) : kUnknown;
  const auto times = mine ? static_cast<std::int64_t>(mine->gradient->times) : kUnknown;
  std::int64_t least[] = {place, -place, times, mine && mine->fits};
  engine_.run(on, {least, least, std::size(least), DType::int64, Op::min, "", now()});
  if (engine_.failed() || least[0] == kUnknown || least[0] != -least[1]) return false;
  std::lock_guard lock(mutex_);
  mine->gradient->times = static_cast<std::uint64_t>(least[2]);
  mine->fits = least[3] != 0;
  accept(*mine, call);
  return true;
}

void SparseGradients::run(const Call& call, const Proposal& agreed, Communicator& on) {
  Residual& residual = *agreed.gradient->residual;
  std::vector<float> norms(residual.chunks());
  residual.add(call.in, norms);
  engine_.run(on, sum_of(DType::float32, norms.data(), norms.size()), &plan_of_norms(call));
  if (engine_.failed()) return;
  const std::vector<std::uint32_t> chosen = choose_chunks(norms, agreed.sent);
  const Elements elements = agreed.sent * kChunk;
  std::vector<std::byte> packed(elements * size_of(call.type));
  residual.take(chosen, packed.data());
  engine_.run(on, sum_of(call.type, packed.data(), elements), &plan_of_chunks(call, agreed.sent));
  if (engine_.failed()) return;
  put_chunks(call.type, call.out, call.count, chosen, packed.data());
  count(call, packed.size(), now() - call.began);
}

}  // namespace ddl
