#include "core/collective/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/pause.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

constexpr Rank kMostAtOnce = 32;  // ranks of a communicator that Communicator::run() cares for

}  // namespace

Communicator::Communicator(CommId id, std::shared_ptr<PlanStore> plans, Shared& shared)
    : id_(id), plans_(std::move(plans)), shared_(shared), credit_(size()) {}

Communicator::~Communicator() {
  drop();
  leave_kept_blocks();
}

// ---- calls ----

void Communicator::start(const Call& call, PreparedPlan& plan, Completion& completion) {
  Operation& operation = queue(call, plan, completion);
  if (operation.is_open()) operation.advance(*this);
  if (operation.done()) remove_done();
}

// Opens it too, if there is room.
Operation& Communicator::queue(const Call& call, PreparedPlan& plan, Completion& completion) {
  if (is_between_two(call.kind)) {
    Operation& operation = make_operation(call, plan, next_between(call), completion);
    pairs_.push_back(&operation);
    operation.open(streams(call.bytes()), false);
    take_early_of(operation.seq());
    return operation;
  }
  if (size() == 1 && call.kind == Kind::all_reduce && call.in != call.out && call.count > 0)
    std::memcpy(call.out, call.in, call.bytes());
  const Number number = next_++;
  Operation& operation = make_operation(call, plans_->turn(plan, number), seq_of(number), completion);
  queue_.push_back(&operation);
  queued_bytes_ += call.bytes();
  open_those_with_room();
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

void Communicator::open_those_with_room() {
  waits_for_credit_ = false;
  while (opened_ < queue_.size() && has_room(*queue_[opened_])) {
    Operation& next = *queue_[opened_];
    const Number number = first_ + opened_;
    const Plan& plan = next.prepared().plan;
    waits_for_credit_ = Credit::covers(next.call(), plan, number) && (first_ == 0 || !credit_.is_left(plan));
    if (waits_for_credit_) return;
    ++opened_;
    open(next, number);
  }
}

bool Communicator::has_room(const Operation& next) const {
  bool fits = open_count_ < kMostOpen && open_bytes_ + next.bytes_under_way() <= most_under_way();
  return open_count_ == 0 || fits;
}

Bytes Communicator::most_under_way() const {
  return members().grid.spans_hosts() ? kMostUnderWay : kMostUnderWayHere;
}

void Communicator::open(Operation& operation, Number number) {
  ++open_count_;
  open_bytes_ += operation.bytes_under_way();
  const Plan& plan = operation.prepared().plan;
  const bool has_credit = Credit::covers(operation.call(), plan, number);
  operation.open(streams(queued_bytes_), has_credit);
  if (has_credit) credit_.note(number, operation.call(), plan);
  if (credit_.must_answer(number)) answer_those_owed(number);
  if (times_dimensions_) operation.time_dimensions(members().grid.dimensions());
  take_early_of(operation.seq());
}

// Both ends count alike.
Seq Communicator::next_between(const Call& call) {
  auto& counts = call.kind == Kind::send ? sent_to_ : received_from_;
  return counts[call.root]++ | kBetweenTwo;
}

// ---- without an operation ----

bool Communicator::can_run_at_once(const Call& call, const PreparedPlan& prepared) const {
  const bool has_tokens = prepared.plan.token_flow >= 0;
  const bool is_small =
      has_tokens ? Credit::covers(call, prepared.plan, next_) : call.bytes() <= Credit::kMostBytes;
  return (prepared.is_one_shot || (prepared.is_brief && is_small)) && !call.own && size() <= kMostAtOnce &&
         call.count > 0 && call.bytes() <= prepared.plan.segment && idle() && early_.empty() &&
         !times_dimensions_;
}

void Communicator::run(const Call& call, PreparedPlan& plan, Completion& completion, int pauses) {
  PreparedPlan& prepared = plans_->turn(plan, next_);
  if (!can_run_at_once(call, prepared)) return start(call, prepared, completion);
  prepared.is_one_shot ? run_one_shot(call, prepared, completion, pauses)
                       : run_brief(call, prepared, completion, pauses);
}

Header Communicator::header_of(const Call& call, const PreparedPlan& prepared, const Step& step) const {
  return {id_,
          step.tag,
          seq_of(next_),
          0,
          fingerprint_of(call, prepared.choice.wire.as),
          members().me,
          static_cast<std::uint32_t>(count_of(call, step) * size_of(call.type)),
          0};
}

void Communicator::run_one_shot(const Call& call, PreparedPlan& prepared, Completion& completion,
                                int pauses) {
  const Step& send = prepared.plan.steps[0];
  Outgoing message = addressed(header_of(call, prepared, send), send, prepared);
  message.header.segment = kSenderWasAlone;
  message.payload = {static_cast<const std::byte*>(call.in), call.bytes()};
  if (message.payload.size() > View::kInline) stage(message, next_);
  if (!shared_.fabrics.local->send(message)) return start(call, prepared, completion);
  Heard heard = reduce_arrived(call, prepared, prepared.plan.steps[1], pauses);
  if (heard == Heard::not_all) return queue(call, prepared, completion).skip_steps(0, 1);
  if (heard == Heard::all_alone) heard_all_alone(next_);
  end_at_once(call, prepared);
}

// Sends what is to be sent, then takes what comes; if one of these is not possible an operation goes on
// there.
void Communicator::run_brief(const Call& call, PreparedPlan& prepared, Completion& completion, int pauses) {
  const Plan& plan = prepared.plan;
  if (plan.token_flow >= 0 && !has_credit(prepared)) return start(call, prepared, completion);
  for (std::size_t f = 0; f < plan.flows.size(); ++f) {
    if (static_cast<int>(f) == plan.token_flow) continue;
    for (std::uint32_t i = 0; i < plan.flows[f].count; ++i)
      if (!run_brief_step(call, prepared, plan.steps[plan.flows[f].first + i], pauses))
        return queue(call, prepared, completion).skip_steps(f, i);
  }
  if (plan.token_flow >= 0) credit_.note(next_, call, plan);
  end_at_once(call, prepared);
}

bool Communicator::run_brief_step(const Call& call, const PreparedPlan& prepared, const Step& step,
                                  int& pauses) {
  if (reach_of(call, step) == 0) return true;
  if (step.verb != Verb::send) {
    if (step.peers > 0) return reduce_arrived(call, prepared, step, pauses) != Heard::not_all;
    const std::byte* own = block_at(call, step.own, step.own_block);
    const Bytes bytes = count_of(call, step) * size_of(call.type);
    if (std::byte* into = block_at(call, step.into, step.into_block); into != own && bytes > 0)
      std::memcpy(into, own, bytes);
    return true;
  }
  Outgoing message = addressed(header_of(call, prepared, step), step, prepared);
  message.payload = {block_at(call, step.own, step.own_block), message.header.bytes};
  return shared_.fabrics.local->send(message);
}

void Communicator::end_at_once(const Call& call, PreparedPlan& prepared) {
  if (credit_.must_answer(next_)) answer_those_owed(next_);
  first_ = ++next_;
  count_brief(call, prepared);
}

// Reduces the messages of all peers of that step where they lie, if these are the next to come from each, and
// come within so many pauses; else all are left there. A copy is of one.
Communicator::Heard Communicator::reduce_arrived(const Call& call, const PreparedPlan& prepared,
                                                 const Step& step, int& pauses) {
  using Arrived = SharedMemoryTransport::Arrived;
  SharedMemoryTransport& local = *shared_.fabrics.local;
  const Header awaited = header_of(call, prepared, step);
  const bool reduces = step.verb == Verb::reduce;
  std::array<const void*, kMostAtOnce> sources;
  std::array<Bytes, kMostAtOnce> blocks;  // to be released
  Heard heard = Heard::all_alone;
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    const Rank from = prepared.to[step.peer + i];
    Arrived message = local.first_from(from);
    for (; !message.header || take_answer(message, from); message = local.first_from(from)) {
      if (!message.header && pauses-- <= 0) return Heard::not_all;
      if (!message.header) pause_a_moment();
    }
    if (message.header->comm != id_ || message.header->seq != awaited.seq ||
        message.header->tag != step.tag || (message.header->segment & ~kSenderWasAlone) != 0 ||
        message.header->bytes != awaited.bytes || message.header->fingerprint != awaited.fingerprint)
      return Heard::not_all;
    if (!(message.header->segment & kSenderWasAlone)) heard = Heard::all;
    sources[reduces && i >= step.own_rank ? i + 1 : i] = message.payload;
    if (message.is_kept && !knows_all_kept()) note_kept(prepared.plan.peers[step.peer + i], message.block);
    blocks[i] = message.is_kept ? 0 : message.block;
  }
  std::byte* into = block_at(call, step.into, step.into_block);
  if (reduces && awaited.bytes > 0) {
    sources[step.own_rank] = block_at(call, step.own, step.own_block);
    reduce(call.type, call.op, into, std::span<const void* const>(sources.data(), step.peers + 1),
           count_of(call, step));
  } else if (awaited.bytes > 0) {
    std::memcpy(into, sources[0], awaited.bytes);
  }
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    local.drop_first(prepared.to[step.peer + i], blocks[i]);
    credit_.heard(prepared.plan.peers[step.peer + i], next_);
  }
  return heard;
}

// Takes what is first in the mailbox of that rank of the job if it is an answer to this communicator.
bool Communicator::take_answer(const SharedMemoryTransport::Arrived& message, Rank rank) {
  const Header& header = *message.header;
  if (header.tag != Credit::kAnswer || header.comm != id_ || header.bytes != 0 || header.from < 0 ||
      header.from >= size() || members().ranks[static_cast<std::size_t>(header.from)] != rank)
    return false;
  credit_.heard(header.from, number_of(header.seq));
  shared_.fabrics.local->drop_first(rank, 0);
  return true;
}

// Looks for answers where it has none.
bool Communicator::has_credit(const PreparedPlan& prepared) {
  if (credit_.is_left(prepared.plan)) return true;
  for (Rank rank : prepared.to)
    for (auto message = shared_.fabrics.local->first_from(rank);
         message.header && take_answer(message, rank);)
      message = shared_.fabrics.local->first_from(rank);
  return credit_.is_left(prepared.plan);
}

PreparedPlan::Use& Communicator::use_of(const Call& call, PreparedPlan& prepared) {
  const char* collective = call.collective;  // "": one of our own, which nobody wants to count
  auto& uses = prepared.uses;
  auto use =
      std::find_if(uses.begin(), uses.end(), [&](const auto& one) { return one.collective == collective; });
  return use == uses.end() ? uses.emplace_back(PreparedPlan::Use{collective}) : *use;
}

// What goes on while the program computes overlaps with others of its kind.
void Communicator::count(const Operation& operation) {
  const Call& call = operation.call();
  const char*& timed_as = operation.completion()->timed_as_;
  const Nanoseconds end = now();
  PreparedPlan::Use& use = use_of(call, operation.prepared());
  use.tally.add(call.bytes(), timed_as ? 0 : end - call.began);
  if (!operation.prepared().choice.wire.is_exact())
    for (const WireBytes& rail : operation.wire_bytes()) use.narrowed.add({0, 0, rail.sent, rail.in_memory});
  if (timed_as) shared_.time.end(std::exchange(timed_as, nullptr), end);
}

// A look at the clock is a tenth of a call that was done at once: after some, every so many are timed, for
// all.
void Communicator::count_brief(const Call& call, PreparedPlan& prepared) {
  constexpr std::uint64_t kAllTimed = 32, kTimedEvery = 16;
  Tally& tally = use_of(call, prepared).tally;
  const bool is_timed = tally.calls < kAllTimed || tally.calls % kTimedEvery == 0;
  const Nanoseconds stands_for = tally.calls < kAllTimed ? 1 : kTimedEvery;
  tally.add(call.bytes(), is_timed ? stands_for * (now() - call.began) : 0);
}

// ---- operations under way ----

bool Communicator::advance() {
  if (is_working_) return false;
  if (warning_) warn_receiver();
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
  is_working_ = true;
  ++shared_.working;
  shared_.mutex.unlock();
  body();
  shared_.mutex.lock();
  --shared_.working;
  is_working_ = false;
}

bool Communicator::remove_done() {
  bool removed = false;
  for (std::size_t i = 0; i < opened_; ++i) {
    if (!queue_[i] || !queue_[i]->done()) continue;
    Operation& operation = *queue_[i];
    --open_count_;
    open_bytes_ -= operation.bytes_under_way();
    queued_bytes_ -= operation.call().bytes();
    // A call without elements has heard from nobody: it does not count.
    if (operation.prepared().is_one_shot && operation.call().count > 0 && operation.all_senders_were_alone())
      heard_all_alone(first_ + i);
    retire(operation);
    queue_[i] = nullptr;
    removed = true;
  }
  for (; !queue_.empty() && !queue_.front(); ++first_, --opened_) queue_.pop_front();
  removed |= std::erase_if(pairs_, [this](Operation* operation) {
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
  if (completion.gets_notice_) shared_.notices.push_back(&completion);
  completion.done_.store(true, std::memory_order_release);  // its owner may end it now
}

const Operation* Communicator::oldest() const {
  if (!queue_.empty()) return queue_.front();
  return pairs_.empty() ? nullptr : pairs_.front();
}

std::vector<Rank> Communicator::waiting_for() const {
  const Operation* operation = oldest();
  if (!operation) return {};
  std::vector<Rank> ranks = operation->is_open() ? operation->waiting_for() : credit_.waiting_for();
  for (Rank& rank : ranks) rank = members().ranks[static_cast<std::size_t>(rank)];
  return ranks;
}

void Communicator::drop() {
  each_open([](Operation& operation) { operation.drop(); });
  queue_.clear();
  pairs_.clear();
  opened_ = 0;
  for (Early& early : early_) early.view.release();
  early_.clear();
}

// ---- messages ----

// The operation under way that a message is for; null: it is early, or over.
Operation* Communicator::addressee(const Header& header) const {
  if (!(header.seq & kBetweenTwo)) {
    std::size_t place = (header.seq - seq_of(first_)) & ~kBetweenTwo;
    return place < opened_ ? queue_[place] : nullptr;
  }
  for (Operation* operation : pairs_)
    if (operation->seq() == header.seq && operation->call().root == header.from && operation->expects(header))
      return operation;
  return nullptr;
}

// Of a collective, relative to those under way: numbers in messages wrap around.
Communicator::Number Communicator::number_of(Seq seq) const {
  const Seq ahead = (seq - seq_of(first_)) & ~kBetweenTwo;
  const Seq behind = (seq_of(first_) - seq) & ~kBetweenTwo;
  return ahead <= behind ? first_ + ahead : first_ - std::min<Number>(behind, first_);
}

// Whether a message without addressee is for a call that is done; between two, where the direction is not
// known, for one that is done in both. Numbers wrap around.
bool Communicator::is_over(const Header& header) const {
  if (header.seq & kBetweenTwo) {
    auto has_passed = [&header](const std::unordered_map<Rank, Seq>& counts) {
      auto count = counts.find(header.from);
      Seq left = (header.seq - (count == counts.end() ? 0 : count->second)) & ~kBetweenTwo;
      return left > (kBetweenTwo >> 1);
    };
    return has_passed(sent_to_) && has_passed(received_from_);
  }
  Seq place = (header.seq - seq_of(first_)) & ~kBetweenTwo;
  return place < opened_ || place > (kBetweenTwo >> 1);
}

std::string Communicator::take(const Header& header, const View& view) {
  if (header.from < 0 || header.from >= size() || header.from == members().me)
    return refuse_foreign(header, view, nullptr);
  if (!(header.seq & kBetweenTwo)) credit_.heard(header.from, number_of(header.seq));
  if (header.tag == Credit::kAnswer) {
    View(view).release();
    return {};
  }
  Operation* operation = addressee(header);
  if (!operation && is_over(header)) return refuse_without_addressee(header, view);
  if (operation) {
    if (operation->fingerprint() != header.fingerprint) {
      std::string wrong = refuse(header, view, operation->text());
      if (operation->call().kind != Kind::send) return wrong;
      if (!warning_) warning_ = warning_of(*operation, std::move(wrong));
      return {};
    }
    Header plain = header;
    plain.segment &= ~kSenderWasAlone;
    switch (operation->take(plain, view)) {
      case Operation::Taken::yes:
        if (header.segment & kSenderWasAlone) operation->note_sender_was_alone();
        if (Bytes kept = shared_.fabrics.local->kept_block_of(view)) note_kept(header.from, kept);
        return {};
      case Operation::Taken::never:
        return refuse_foreign(header, view, operation);
      case Operation::Taken::later:
        break;
    }
  }
  early_.push_back({header, view});
  return {};
}

std::byte* Communicator::place_for(const Header& header) const {
  Operation* operation = addressee(header);
  return operation && operation->fingerprint() == header.fingerprint ? operation->place_for(header) : nullptr;
}

void Communicator::leave_place(const Header& header) const {
  if (Operation* operation = addressee(header)) operation->leave_place(header);
}

void Communicator::take_early() {
  scratch_.swap(early_);
  take_again(scratch_);
  scratch_.clear();
}

// Those for one operation that has just opened.
void Communicator::take_early_of(Seq seq) {
  if (early_.empty()) return;
  auto left = early_.begin();
  for (Early& early : early_)
    if (early.header.seq == seq)
      scratch_.push_back(early);
    else
      *left++ = early;
  early_.erase(left, early_.end());
  take_again(scratch_);
  scratch_.clear();
}

void Communicator::take_again(const std::vector<Early>& messages) {
  for (const Early& early : messages)
    if (std::string wrong = take(early.header, early.view); !wrong.empty()) problem_ = wrong;
}

// A call that this rank has done without hearing from anybody may have been another one there.
std::string Communicator::refuse_without_addressee(const Header& header, const View& view) const {
  std::optional<Call> done;
  if (!(header.seq & kBetweenTwo)) done = credit_.call(number_of(header.seq));
  if (done && fingerprint_of(*done) != header.fingerprint) return refuse(header, view, describe(*done));
  return refuse_foreign(header, view, nullptr);
}

std::string Communicator::refuse(const Header& header, View view, const std::string& text) const {
  view.release();
  return fmt::format(
      "rank {} and rank {} of a communicator of {} do not make the same call number {}: "
      "here it is {}, there another kind, root, count, type, operation or type between hosts",
      members().me, header.from, size(), header.seq & ~kBetweenTwo, text);
}

// What no right engine sends.
std::string Communicator::refuse_foreign(const Header& header, View view, const Operation* operation) const {
  view.release();
  return fmt::format(
      "rank {} of a communicator of {} got a message from rank {} that does not belong to call number {}{}: "
      "tag {:x}, segment {}, {} bytes",
      members().me, size(), header.from, header.seq & ~kBetweenTwo, operation ? ", " + operation->text() : "",
      header.tag, header.segment & ~kSenderWasAlone, header.bytes);
}

}  // namespace ddl
