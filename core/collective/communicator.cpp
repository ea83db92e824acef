#include "core/collective/communicator.hpp"

#include <algorithm>
#include <utility>

namespace ddl {

Communicator::Communicator(CommId id, std::shared_ptr<PlanStore> plans, Shared& shared, CommId known_as)
    : id_(id),
      known_as_(known_as ? known_as : id),
      plans_(std::move(plans)),
      shared_(shared),
      credit_(size()) {}

Communicator::~Communicator() {
  drop();
  leave_kept_blocks();
}

// ---- calls ----

void Communicator::start(const Call& call, PreparedPlan& plan, Completion& completion) {
  Operation& operation = queue(call, plan, completion);
  if (operation.is_open() && !is_working_ && !contradiction_) operation.advance(*this);
  if (operation.done()) remove_done();
}

// Opens it too, if there is room, or it has been begun without an operation.
Operation& Communicator::queue(const Call& call, PreparedPlan& plan, Completion& completion, bool has_begun) {
  if (is_between_two(call.kind)) {
    Operation& operation = make_operation(call, plan, next_between(call), completion);
    between_two_->under_way.push_back(&operation);
    operation.open(streams(call.bytes()), false);
    take_early_of(operation.seq());
    return operation;
  }
  const Number number = next_++;
  Operation& operation = make_operation(call, plans_->turn(plan, number), seq_of(number), completion);
  queue_.push_back(&operation);
  queued_bytes_ += call.bytes();
  open_those_with_room(has_begun);
  return operation;
}

Operation& Communicator::make_operation(const Call& call, PreparedPlan& plan, Seq seq,
                                        Completion& completion) {
  if (shared_.idle.empty()) {
    shared_.operations.push_back(std::make_unique<Operation>());
    shared_.idle.push_back(shared_.operations.back().get());
  }
  Operation& operation = *shared_.idle.back();
  shared_.idle.pop_back();
  completion.done_.store(false, std::memory_order_relaxed);
  completion.hears_wire_ = plan.hears_wire;
  completion.bytes_ = call.bytes();
  if (completion.goes_on_) ++shared_.going_on;
  operation.bind(plan, call, id_, seq, members().me, &completion);
  return operation;
}

void Communicator::open_those_with_room(bool room_for_all) {
  waits_for_credit_ = false;
  while (opened_ < queue_.size() && (room_for_all || has_room(*queue_[opened_]))) {
    Operation& next = *queue_[opened_];
    const Number number = first_ + opened_;
    const Plan& plan = next.prepared().plan;
    const bool takes_credit = Credit::covers(next.call(), plan, number);
    waits_for_credit_ = takes_credit && (first_ == 0 || !credit_.is_left(next.call(), plan));
    if (waits_for_credit_) return;
    ++opened_;
    open(next, number, takes_credit);
  }
}

// What is sent to another host takes memory there until its program comes to that call. Whether it has made
// the communicator at all shows when the first call is done.
bool Communicator::has_room(const Operation& next) const {
  if (open_count_ == 0) return true;
  if (first_ == 0 && members().grid.spans_hosts()) return false;
  return open_count_ < kMostOpen && open_bytes_ + under_way_of(next) <= most_under_way();
}

// Between hosts, all that may wait there for its time; within one the window is kept small for the caches.
Bytes Communicator::under_way_of(const Operation& operation) const {
  const Bytes window = operation.bytes_under_way();
  if (!members().grid.spans_hosts()) return window;
  const Task task = operation.call().task();
  const Rank blocks = std::max(blocks_in(task, members().me, size()), blocks_out(task, members().me, size()));
  return window * static_cast<Bytes>(std::max(blocks, 1));
}

Bytes Communicator::most_under_way() const {
  return members().grid.spans_hosts() ? kMostUnderWay : kMostUnderWayHere;
}

void Communicator::open(Operation& operation, Number number, bool takes_credit) {
  ++open_count_;
  open_bytes_ += under_way_of(operation);
  operation.open(streams(queued_bytes_), takes_credit);
  if (takes_credit) credit_.note(number, operation.call(), operation.prepared().plan);
  own_calls_.note(
      number, OwnCalls::note_of(operation.call(), operation.fingerprint(), operation.prepared().choice.wire));
  if (credit_.must_answer(number)) answer_those_owed(number);
  if (times_dimensions_) operation.time_dimensions(members().grid.dimensions());
  take_early_of(operation.seq());
}

// Both ends count alike.
Seq Communicator::next_between(const Call& call) {
  if (!between_two_) between_two_ = std::make_unique<BetweenTwo>();
  auto& counts = call.kind == Kind::send ? between_two_->sent_to : between_two_->received_from;
  return counts[call.root]++ | kBetweenTwo;
}

// ---- operations under way ----

bool Communicator::advance() {
  if (is_working_) return false;
  if (warning_) warn_receiver();
  if (contradiction_) {
    tell_contradiction();
    return false;
  }
  bool moved = false;
  if (const Number latest = first_ + opened_ - 1; credit_.must_answer(latest)) answer_those_owed(latest);
  while (!idle()) {
    bool step = false;
    if (waits_for_credit_) open_those_with_room();
    each_open([&](Operation& operation) {
      if (operation.is_stirred()) step |= operation.advance(*this);
    });
    if (step && !early_.empty()) take_early();
    bool removed = remove_done();
    if (removed) open_those_with_room();
    if (!step && !removed) break;
    moved = true;
  }
  return moved;
}

// While the lock is left messages may arrive and calls may start; nothing else of this communicator moves.
void Communicator::work(Bytes bytes, const std::function<void()>& body) {
  if (bytes < kLongWork || is_working_) return body();
  is_working_ = true;  // for good where the body throws: nothing of this communicator is right then
  {
    const WithoutLock away(shared_);
    body();
  }
  is_working_ = false;
}

bool Communicator::remove_done() {
  bool removed = false;
  for (std::size_t i = 0; i < opened_; ++i) {
    if (!queue_[i] || !queue_[i]->done()) continue;
    Operation& operation = *queue_[i];
    --open_count_;
    open_bytes_ -= under_way_of(operation);
    queued_bytes_ -= operation.call().bytes();
    // A call without elements has heard from nobody: it does not count.
    if (operation.prepared().is_one_shot && operation.call().count > 0 && operation.all_senders_were_alone())
      heard_all_alone(first_ + i);
    retire(operation);
    queue_[i] = nullptr;
    removed = true;
  }
  for (; !queue_.empty() && !queue_.front(); ++first_, --opened_) queue_.pop_front();
  if (!between_two_) return removed;
  removed |= std::erase_if(between_two_->under_way, [this](Operation* operation) {
               if (!operation->done()) return false;
               retire(*operation);
               return true;
             }) > 0;
  return removed;
}

void Communicator::retire(Operation& operation) {
  count(operation);
  add(shared_.wire_bytes, operation.wire_bytes());
  shared_.idle.push_back(&operation);
  Completion& completion = *operation.completion();
  if (completion.observed_) *completion.observed_ = {operation.rail_times(), operation.dimension_times()};
  if (completion.goes_on_) --shared_.going_on;
  if (completion.gets_notice_) shared_.notices.add(completion);
  completion.done_.store(true, std::memory_order_release);  // its owner may end it now
}

const Operation* Communicator::oldest() const {
  if (!queue_.empty()) return queue_.front();
  return pairs().empty() ? nullptr : pairs().front();
}

std::vector<Rank> Communicator::waiting_for() const {
  const Operation* operation = oldest();
  if (!operation) return {};
  std::vector<Rank> ranks = operation->is_open() ? operation->waiting_for() : credit_.waiting_for();
  for (Rank& rank : ranks) rank = members().ranks[static_cast<std::size_t>(rank)];
  if (!operation->is_open()) return ranks;
  shared_.fabrics.local->each_awaited_reader(operation->unfinished(), [&ranks](Rank reader) {
    if (std::find(ranks.begin(), ranks.end(), reader) == ranks.end()) ranks.push_back(reader);
  });
  return ranks;
}

void Communicator::drop() {
  each_open([](Operation& operation) { operation.drop(); });
  queue_.clear();
  if (between_two_) between_two_->under_way.clear();
  opened_ = 0;
  for (Early& early : early_) early.view.release();
  early_.clear();
}

}  // namespace ddl
