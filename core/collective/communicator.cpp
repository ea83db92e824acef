#include "core/collective/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/pause.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

namespace {

constexpr Rank kMostAtOnce = 32;  // ranks of a communicator that Communicator::run() cares for
constexpr Bytes kOneShotBlock = SharedMemoryTransport::block_bytes(16 << 10);

// Sends everything to all others, who are on this host, reduces what they sent, and that is all.
bool is_one_shot(const Plan& plan, Rank size) {
  auto others = static_cast<std::uint32_t>(size - 1);
  return size > 1 && plan.steps.size() == 2 && plan.steps[0].verb == Verb::send &&
         plan.steps[0].fabric == Fabric::local && plan.steps[0].peers == others &&
         plan.steps[1].verb == Verb::reduce && plan.steps[1].peers == others && plan.flows.size() == 1;
}

}  // namespace

Bytes Communicator::one_shot_staging() { return 2 * kOneShotBlock; }

Communicator::Communicator(CommunicatorSpec spec, Fabrics fabrics)
    : spec_(std::move(spec)), fabrics_(fabrics) {
  // A small part of the area, the same on all members.
  if (spec_.area.begin) one_shot_bytes_ = std::min(kOneShotBlock, spec_.limits.staging / 8 / 64 * 64);
  spec_.limits.staging -= 2 * one_shot_bytes_;
  shared_.slot_bytes = spec_.limits.staging / kSharedBlocks / 64 * 64;
  for (Bytes i = 0; i < kSharedBlocks; ++i) shared_.block_offset.push_back(i * shared_.slot_bytes);
}

Communicator::~Communicator() {
  drop();
  if (!spec_.area.begin) return;
  HostIndex here = spec_.hosts[static_cast<std::size_t>(spec_.me)];
  for (std::size_t m = 0; m < spec_.members.size(); ++m)
    if (spec_.hosts[m] == here) fabrics_.local->leave_area(spec_.members[m], spec_.areas[m]);
  fabrics_.local->return_area(spec_.area);
}

Operation* Communicator::start(const Call& call, PreparedPlan& plan) {
  if (size() == 1 && call.kind == Kind::all_reduce && call.in != call.out && call.count > 0)
    std::memcpy(call.out, call.in, call.bytes());
  ++next_batch_;
  Operation* operation = enqueue(call, plan, next_seq_++ & ~kBetweenTwo);
  if (queue_.size() == 1) take_early();
  return operation;
}

std::vector<Operation*> Communicator::start_together(std::span<const Call> calls) {
  std::vector<PreparedPlan*> plans;
  for (const Call& call : calls) plans.push_back(&plan_for(call));  // may throw: before anything is queued
  ++next_batch_;
  std::vector<Operation*> operations;
  for (std::size_t i = 0; i < calls.size(); ++i)
    operations.push_back(enqueue(calls[i], *plans[i], next_between(calls[i])));
  if (queue_.size() == calls.size()) take_early();
  return operations;
}

Operation* Communicator::enqueue(const Call& call, PreparedPlan& plan, Seq seq) {
  if (idle_.empty()) {
    operations_.push_back(std::make_unique<Operation>());
    idle_.push_back(operations_.back().get());
  }
  Operation* operation = idle_.back();
  idle_.pop_back();
  operation->bind(plan, call, spec_.id, seq, spec_.me);
  if (times_dimensions_) operation->time_dimensions(spec_.grid.dimensions());
  queue_.push_back({operation, next_batch_});
  return operation;
}

// Both ends count alike.
Seq Communicator::next_between(const Call& call) {
  auto& counts = call.kind == Kind::send ? sent_to_ : received_from_;
  return counts[call.root]++ | kBetweenTwo;
}

bool Communicator::can_run_at_once(const Call& call, const PreparedPlan& prepared) const {
  return prepared.is_one_shot && size() <= kMostAtOnce && call.count > 0 && queue_.empty() &&
         early_.empty() && !times_dimensions_;
}

Operation* Communicator::run(const Call& call, PreparedPlan& prepared, int pauses) {
  if (!can_run_at_once(call, prepared)) return start(call, prepared);
  const Step& send = prepared.plan.steps[0];
  Seq seq = next_seq_ & ~kBetweenTwo;
  Header header{
      spec_.id, send.tag, seq, 0, fingerprint_of(call), spec_.me, static_cast<std::uint32_t>(call.bytes()),
      0};
  Outgoing message = addressed(header, send, prepared);
  message.payload = {static_cast<const std::byte*>(call.in), call.bytes()};
  if (message.payload.size() > View::kInline) stage_in_turn(message);
  if (!fabrics_.local->send(message)) return start(call, prepared);
  ++next_seq_;
  if (reduce_arrived(call, prepared, header, pauses)) {
    ++one_shot_turn_;
    count(call, prepared);
    return nullptr;
  }
  ++next_batch_;
  Operation* operation = enqueue(call, prepared, seq);
  operation->skip_first_step();
  return operation;
}

// Reduces the messages of all peers where they lie, if these are the next to come from each and come within
// so many pauses; else all are left there.
bool Communicator::reduce_arrived(const Call& call, const PreparedPlan& prepared, const Header& sent,
                                  int pauses) {
  const Step& step = prepared.plan.steps[1];
  std::span<const Rank> from = std::span(prepared.to).subspan(step.peer, step.peers);
  std::array<const void*, kMostAtOnce> sources;
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    SharedMemoryTransport::Arrived message = fabrics_.local->first_from(from[i]);
    for (; !message.header && pauses > 0; --pauses) {
      pause_a_moment();
      message = fabrics_.local->first_from(from[i]);
    }
    if (!message.header || message.header->comm != sent.comm || message.header->seq != sent.seq ||
        message.header->fingerprint != sent.fingerprint)
      return false;
    sources[i < step.own_rank ? i : i + 1] = message.payload;
  }
  sources[step.own_rank] = call.in;
  reduce(call.type, call.op, call.out, std::span<const void* const>(sources.data(), step.peers + 1),
         call.count);
  for (Rank rank : from) fabrics_.local->drop_first(rank);
  return true;
}

void Communicator::retire(Operation* operation) {
  idle_.push_back(operation);
  count(operation->call(), operation->prepared());
  std::span<const Bytes> sent = operation->wire_bytes();
  if (wire_.size() < sent.size()) wire_.resize(sent.size());
  for (std::size_t rail = 0; rail < sent.size(); ++rail) wire_[rail] += sent[rail];
}

void Communicator::count(const Call& call, PreparedPlan& prepared) {
  const char* collective = call.collective;  // "": one of our own, which nobody wants to count
  auto& uses = prepared.uses;
  auto use = std::find_if(uses.begin(), uses.end(), [&](const auto& one) { return one.first == collective; });
  if (use == uses.end()) use = uses.insert(uses.end(), {collective, Tally{}});
  use->second.add(call.bytes(), now() - call.began);
}

void Communicator::collect(Counters& into, std::vector<Bytes>& wire) {
  for (auto& prepared : plans_) {
    for (const auto& [collective, tally] : prepared->uses)
      if (*collective) into.collect(collective, prepared->size_class, prepared->plan.name, tally);
    prepared->uses.clear();
  }
  wire.resize(std::max(wire.size(), wire_.size()));
  for (std::size_t rail = 0; rail < wire_.size(); ++rail) wire[rail] += std::exchange(wire_[rail], 0);
}

bool Communicator::advance() {
  if (warning_) warn_receiver();
  bool moved = false;
  while (!queue_.empty()) {
    bool step = advance_batch();
    if (step && !early_.empty()) take_early();
    moved |= step;
    if (!remove_done()) {
      if (!step) break;
      continue;
    }
    moved = true;
    if (!queue_.empty()) take_early();
  }
  return moved;
}

bool Communicator::advance_batch() {
  bool moved = false;
  each_under_way([&](Operation& operation) {
    current_ = &operation;
    moved |= operation.advance(*this);
  });
  return moved;
}

bool Communicator::remove_done() {
  bool removed = false;
  std::uint64_t batch = queue_.front().batch;
  for (std::size_t i = 0; i < queue_.size() && queue_[i].batch == batch;) {
    const Operation& operation = *queue_[i].operation;
    if (!operation.done()) {
      ++i;
      continue;
    }
    // A call without elements has heard from nobody: it does not count.
    one_shot_turn_ += operation.prepared().is_one_shot && operation.call().count > 0;
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    removed = true;
  }
  return removed;
}

// The operation under way that a message is for; null: it is early.
Operation* Communicator::addressee(const Header& header) const {
  if (!(header.seq & kBetweenTwo))
    return !queue_.empty() && queue_.front().operation->seq() == header.seq ? queue_.front().operation
                                                                            : nullptr;
  Operation* found = nullptr;
  each_under_way([&](Operation& operation) {
    if (operation.seq() == header.seq && operation.call().root == header.from && operation.expects(header))
      found = &operation;
  });
  return found;
}

std::string Communicator::take(const Header& header, const View& view) {
  if (Operation* operation = addressee(header)) {
    if (operation->fingerprint() != header.fingerprint) {
      std::string wrong = refuse(header, view, *operation);
      if (operation->call().kind != Kind::send) return wrong;
      if (!warning_) warning_ = warning_of(*operation, std::move(wrong));
      return {};
    }
    switch (operation->take(header, view)) {
      case Operation::Taken::yes:
        return {};
      case Operation::Taken::never:
        return refuse(header, view, *operation);
      case Operation::Taken::later:
        break;
    }
  }
  early_.push_back({header, view});
  return {};
}

std::byte* Communicator::place_for(const Header& header) const {
  const Operation* operation = addressee(header);
  return operation && operation->fingerprint() == header.fingerprint ? operation->place_for(header) : nullptr;
}

void Communicator::take_early() {
  scratch_.swap(early_);
  for (Early& early : scratch_)
    if (std::string wrong = take(early.header, early.view); !wrong.empty()) problem_ = wrong;
  scratch_.clear();
}

std::string Communicator::refuse(const Header& header, View view, const Operation& operation) const {
  view.release();
  return fmt::format(
      "rank {} and rank {} of a communicator of {} do not make the same call number {}: "
      "here it is {}, there another kind, root, count, type or operation",
      spec_.me, header.from, size(), header.seq & ~kBetweenTwo, describe(operation.call()));
}

std::vector<Rank> Communicator::waiting_for() const {
  std::vector<Rank> ranks;
  each_under_way([&](const Operation& operation) {
    for (Rank rank : operation.waiting_for()) ranks.push_back(spec_.members[static_cast<std::size_t>(rank)]);
  });
  return ranks;
}

void Communicator::drop() {
  for (const Queued& queued : queue_) queued.operation->drop();
  queue_.clear();
  for (Early& early : early_) early.view.release();
  early_.clear();
}

PreparedPlan& Communicator::plan_for(const Call& call) {
  Bytes bytes = size_class(call.bytes());
  Task task = call.task();
  PreparedPlan*& plan = task.kind == Kind::all_reduce
                            ? plan_of_class_[static_cast<std::size_t>(std::countr_zero(bytes))]
                            : plan_of_task_[{task.kind, task.root, bytes}];
  if (plan) return *plan;
  plan = task.kind == Kind::all_reduce ? &prepare(choose(spec_.grid, bytes, spec_.limits), bytes)
                                       : &make_task_plan(task, bytes);
  return *plan;
}

PreparedPlan& Communicator::make_task_plan(Task task, Bytes bytes) {
  if (task.root < 0 || task.root >= size())
    throw Error(fmt::format("rank {} is not in a communicator of {}", task.root, size()));
  if (is_between_two(task.kind) && task.root == spec_.me)
    throw Error(fmt::format("rank {} cannot {} to or from itself", task.root, name_of(task.kind)),
                "that is a copy and no message");
  HostMap map(spec_.hosts);
  TaskChoice choice = choose_task(map, task, bytes, spec_.limits);
  return add_plan(task, bytes, make_plan(spec_.grid, map, spec_.me, choice));
}

void Communicator::learn(const Machine& machine) {
  spec_.limits.machine = machine;
  plan_of_class_.fill(nullptr);
  plan_of_task_.clear();
}

PreparedPlan& Communicator::prepare(const PlanChoice& choice, Bytes bytes) {
  PreparedPlan& prepared = add_plan({}, bytes, make_plan(spec_.grid, spec_.me, choice));
  prepared.choice = choice;
  prepared.is_one_shot = is_one_shot(prepared.plan, size()) && prepared.size_class <= prepared.plan.segment &&
                         SharedMemoryTransport::block_bytes(prepared.size_class) <= one_shot_bytes_;
  return prepared;
}

PreparedPlan& Communicator::add_plan(Task task, Bytes bytes, Plan plan) {
  plans_.push_back(std::make_unique<PreparedPlan>());
  PreparedPlan* prepared = plans_.back().get();
  prepared->size_class = size_class(bytes);
  prepared->task = task;
  prepared->plan = std::move(plan);
  for (Rank peer : prepared->plan.peers)
    prepared->to.push_back(spec_.members[static_cast<std::size_t>(peer)]);
  // A block must hold its slice whatever the element size and count: those of a segment of single bytes, and
  // some slack for cuts that fall elsewhere when the segment is shorter.
  constexpr Bytes kSlack = 128;
  SliceTable table;
  table.compute(prepared->plan, prepared->plan.segment, 1);
  for (const Step& step : prepared->plan.steps) {
    if (step.verb != Verb::send || step.fabric != Fabric::local) continue;
    prepared->block_offset.push_back(prepared->slot_bytes);
    prepared->slot_bytes += SharedMemoryTransport::block_bytes(table[step.slice].count + kSlack);
  }
  for (const Step& step : prepared->plan.steps)
    if (step.fabric == Fabric::wire)
      prepared->rails = std::max(prepared->rails, static_cast<LaneId>(step.lane + 1));
  auto is_elsewhere = [&, here = spec_.hosts[static_cast<std::size_t>(spec_.me)]](const Expected& message) {
    return spec_.hosts[static_cast<std::size_t>(message.from)] != here;
  };
  const auto& expected = prepared->plan.expected;
  prepared->hears_wire = std::any_of(expected.begin(), expected.end(), is_elsewhere);
  return *prepared;
}

}  // namespace ddl
