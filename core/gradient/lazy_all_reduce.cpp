#include "core/gradient/lazy_all_reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

// Between agreements that decide nothing. Who has something new does not pause, and the others see it begin:
// so the longest only matters to what it costs while there is nothing new.
constexpr Nanoseconds kFirstPause = 50'000, kLongestPause = 4'000'000;
constexpr std::size_t kBits = 64;

std::uint64_t bit_of(std::size_t slot) { return std::uint64_t{1} << slot % kBits; }

std::string text_of(const FusionClass& of) {
  std::string text = fmt::format("{}, {}", name_of(of.type), name_of(of.op));
  return of.wire.is_exact() ? text : text + ", " + describe(of.wire);
}

}  // namespace

LazyAllReduce::LazyAllReduce(Engine& engine, std::shared_ptr<PlanStore> plans, Identities identities,
                             std::size_t slots, FusionRule rule, WireRule wire, PlanFor plan_for,
                             FusionMemory& memory)
    : engine_(engine),
      plans_(std::move(plans)),
      program_(identities.program),
      slots_(slots),
      rule_(rule),
      wire_(wire),
      plan_for_(std::move(plan_for)),
      memory_(memory),
      agreements_(engine.create(identities.agreements, plans_)),
      fused_(engine.create(identities.batches, plans_)),
      mine_((slots + kBits - 1) / kBits),
      agreed_(mine_.size()),
      agreement_plan_(plan_for_(mine_.size() * sizeof mine_[0], {})) {
  engine_.attach(*this);
}

LazyAllReduce::~LazyAllReduce() {
  engine_.detach(*this);
  engine_.destroy(fused_);
  engine_.destroy(agreements_);
}

FusionClass LazyAllReduce::class_of(const Call& call) const {
  return {call.type, call.op, wire_.format_of(call.kind, call.type, call.bytes())};
}

bool LazyAllReduce::takes(const Call& call) const {
  if (call.kind != Kind::all_reduce || call.own || call.variant != 0 || !rule_.takes(call.bytes()))
    return false;
  return find_plan(call.bytes(), class_of(call).wire) != nullptr;
}

PreparedPlan* LazyAllReduce::find_plan(Bytes bytes, const WireFormat& wire) const {
  bytes = size_class(bytes);
  std::lock_guard lock(plans_mutex_);
  for (const KnownPlan& known : known_plans_)
    if (known.size_class == bytes && known.wire == wire) return known.plan;
  PreparedPlan* plan = nullptr;
  try {
    plan = &plan_for_(bytes, wire);
  } catch (const Error&) {  // alike on all ranks
  }
  known_plans_.push_back({bytes, wire, plan});
  return plan;
}

void LazyAllReduce::start(const Call& call, Completion& completion, std::size_t slot) {
  engine_.take_turn(*this, [&](EngineTurn& turn) {
    undecided_.push_back({call, class_of(call), &completion, slot});
    turn.promise(completion, call, spans_hosts());
    ++started_;
    pause_ = 0;
    undecided_bytes_ += call.bytes();
    if (undecided_bytes_ >= rule_.threshold && !is_agreeing_) agree(turn);
  });
}

bool LazyAllReduce::advance(EngineTurn& turn) {
  bool moved = false;
  for (bool again = true; again && !turn.failed(); moved |= again) {
    again = false;
    if (is_agreeing_ && agreement_.done()) {
      decide();
      again = true;
    }
    if (!is_agreeing_ && !undecided_.empty() && may_agree()) {
      agree(turn);
      again = true;
    }
    again |= start_next(turn);
    again |= end_first_done(turn);
  }
  return moved;
}

// ---- what all have started ----

bool LazyAllReduce::may_agree() const {
  return pause_ == 0 || agreements_.is_awaited() || now() - paused_since_ >= pause_;
}

void LazyAllReduce::agree(EngineTurn& turn) {
  is_agreeing_ = true;
  offer();
  const Op op = has_slots() ? Op::band : Op::min;
  turn.start(agreements_, {mine_.data(), agreed_.data(), mine_.size(), DType::uint64, op, "", now()},
             agreement_plan_, agreement_);
}

void LazyAllReduce::offer() {
  if (!has_slots()) {
    mine_[0] = started_;
    return;
  }
  std::fill(mine_.begin(), mine_.end(), 0);
  for (const Waiting& one : undecided_) mine_[one.slot / kBits] |= bit_of(one.slot);
}

// Of a slot one call at a time.
bool LazyAllReduce::is_next_decided(std::size_t slot) {
  if (!has_slots()) return decided_ < agreed_[0] && ++decided_;
  std::uint64_t& word = agreed_[slot / kBits];
  const std::uint64_t before = word;
  word &= ~bit_of(slot);
  return word != before;
}

// In an order that all ranks have.
std::vector<LazyAllReduce::Waiting> LazyAllReduce::take_decided() {
  std::vector<Waiting> all;
  for (; !undecided_.empty() && is_next_decided(undecided_.front().slot); undecided_.pop_front())
    all.push_back(undecided_.front());
  if (!has_slots()) return all;
  std::deque<Waiting> left;
  for (const Waiting& one : undecided_)
    if (is_next_decided(one.slot))
      all.push_back(one);
    else
      left.push_back(one);
  undecided_.swap(left);
  std::sort(all.begin(), all.end(), [](const Waiting& a, const Waiting& b) { return a.slot < b.slot; });
  return all;
}

void LazyAllReduce::decide() {
  is_agreeing_ = false;
  const std::vector<Waiting> all = take_decided();
  std::vector<Part> parts;
  for (const Waiting& one : all) {
    parts.push_back({one.of, one.call.count});
    undecided_bytes_ -= one.call.bytes();
  }
  pause_ = all.empty() ? std::clamp(2 * pause_, kFirstPause, kLongestPause) : 0;
  if (pause_ > 0) paused_since_ = now();
  for (const std::vector<std::size_t>& indices : cut_batches(parts, rule_.largest_batch)) {
    std::vector<Waiting> chosen;
    for (std::size_t i : indices) chosen.push_back(all[i]);
    add_batch(std::move(chosen));
  }
}

// ---- batches ----

// Ranks that made different calls find that out by the fingerprint.
void LazyAllReduce::add_batch(std::vector<Waiting> parts) {
  auto batch = std::make_unique<Batch>();
  const FusionClass& of = parts[0].of;
  batch->call = parts[0].call;
  if (parts.size() > 1) {
    Elements count = 0;
    std::uint64_t all = parts.size();
    for (const Waiting& one : parts) {
      count += Part{one.of, one.call.count}.room();
      all = (all ^ fingerprint_of(one.call)) * 0x9e3779b97f4a7c15ull;
    }
    batch->call = {nullptr, nullptr, count, of.type, of.op};
    batch->call.fingerprint = static_cast<Fingerprint>(all >> 32) | 1;
  }
  batch->plan = find_plan(batch->call.bytes(), of.wire);
  if (!batch->plan) {  // there is one for each call alone, see takes()
    for (Waiting& one : parts) add_batch({one});
    return;
  }
  batch->parts = std::move(parts);
  batches_.push_back(std::move(batch));
}

// The oldest is never refused memory: what it waits for are calls that all ranks have started.
bool LazyAllReduce::start_next(EngineTurn& turn) {
  if (under_way_ == batches_.size() || under_way_ == kBatchesUnderWay) return false;
  Batch& batch = *batches_[under_way_];
  if (batch.parts.size() > 1) {
    const Bytes bytes = batch.call.bytes();
    batch.block =
        memory_.take(bytes, under_way_ == 0 ? FusionMemory::Need::pressing : FusionMemory::Need::can_wait);
    if (!batch.block.memory) return false;
    batch.call.in = batch.call.out = batch.block.memory.get();
    turn.work([&batch] { gather(batch); });
    if (turn.failed()) return false;
    batch.call.began = now();
  }
  ++under_way_;
  turn.start(fused_, batch.call, *batch.plan, batch.completion);
  return true;
}

bool LazyAllReduce::end_first_done(EngineTurn& turn) {
  const auto end = batches_.begin() + static_cast<std::ptrdiff_t>(under_way_);
  auto done = std::find_if(batches_.begin(), end, [](const auto& batch) { return batch->completion.done(); });
  if (done == end) return false;
  const std::unique_ptr<Batch> batch = std::move(*done);
  batches_.erase(done);
  --under_way_;
  if (batch->parts.size() > 1) {
    turn.work([&batch] { scatter(*batch); });
    memory_.give_back(std::move(batch->block));
    count(*batch);
  }
  if (turn.failed()) return false;
  for (const Waiting& one : batch->parts) turn.fulfil(*one.completion);
  return true;
}

template <class Body>
void LazyAllReduce::each_part(const Batch& batch, Body body) {
  std::byte* at = batch.block.memory.get();
  for (const Waiting& one : batch.parts) {
    const Bytes room = Part{one.of, one.call.count}.room() * size_of(one.of.type);
    body(one.call, at, room);
    at += room;
  }
}

void LazyAllReduce::gather(const Batch& batch) {
  each_part(batch, [](const Call& call, std::byte* at, Bytes room) {
    std::memcpy(at, call.in, call.bytes());
    std::memset(at + call.bytes(), 0, room - call.bytes());
  });
}

void LazyAllReduce::scatter(const Batch& batch) {
  each_part(batch, [](const Call& call, std::byte* at, Bytes) { std::memcpy(call.out, at, call.bytes()); });
}

// ---- the report ----

// Calls of a kind mostly come together.
void LazyAllReduce::count(const Batch& batch) {
  const std::string plan = fmt::format("fused: {}", batch.plan->plan.name), of = text_of(batch.parts[0].of);
  for (auto one = batch.parts.begin(); one != batch.parts.end();) {
    const char* collective = one->call.collective;
    const Bytes bytes = size_class(one->call.bytes());
    Tally tally;
    for (; one != batch.parts.end() && one->call.collective == collective &&
           size_class(one->call.bytes()) == bytes;
         ++one)
      tally.add(one->call.bytes(), 0);
    if (*collective) counted_.collect(collective, bytes, plan, tally);
  }
  const char* collective = batch.parts[0].call.collective;
  if (*collective) counted_.count_fused(collective, of, batch.parts.size(), batch.call.bytes());
}

ProgramCall LazyAllReduce::oldest() const {
  const Call* call = !batches_.empty()     ? &batches_.front()->parts.front().call
                     : !undecided_.empty() ? &undecided_.front().call
                                           : nullptr;
  return {call, program_, {&agreements_, &fused_}};
}

void LazyAllReduce::collect(Counters& into) { into.take(counted_); }

}  // namespace ddl
