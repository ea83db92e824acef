// How the operations of a communicator send: to whom, and where it is staged.
#include <algorithm>

#include "core/base/cache_hints.hpp"
#include "core/collective/communicator.hpp"

namespace ddl {

Outgoing Communicator::addressed(const Header& header, const Step& step, const PreparedPlan& prepared) const {
  Outgoing message{header, {}, std::span(prepared.to).subspan(step.peer, step.peers)};
  message.rail = step.rail;
  message.turns = prepared.staged;
  return message;
}

// Who waits for older blocks to be released must not be waited for by those who could release them: what the
// oldest segment of the oldest collective sends, and a send that has been asked for, is read by ranks that
// have nothing else to wait for.
bool Communicator::is_pressing(const Sending& sending) const {
  return is_between_two(sending.operation.call().kind) ||
         (sending.is_oldest && &sending.operation == oldest_collective());
}

void Communicator::note_told(const Step& step, const PreparedPlan& prepared, Number number) {
  for (std::uint32_t i = 0; i < step.peers; ++i) credit_.told(prepared.plan.peers[step.peer + i], number);
}

void Communicator::note_told(const Sending& sending) {
  const Operation& operation = sending.operation;
  if (credit_.owes() && !is_between_two(operation.call().kind))
    note_told(sending.step, operation.prepared(), number_of(operation.seq()));
}

// What is pressing is tried again, without regard for the cap of the staging.
template <class Try>
bool Communicator::try_pressing(const Sending& sending, Outgoing& message, Try attempt) {
  bool sent = attempt();
  if (!sent && !message.block && is_pressing(sending)) {
    message.need = Need::now;
    sent = attempt();
  }
  if (sent) note_told(sending);
  return sent;
}

// Where the payload of a one-shot operation goes: to a kept block, or to any, whose readers then count.
void Communicator::stage(Outgoing& message, Number number) {
  message.block = kept_block(number);
  if (message.block) message.reuse = Reuse::by_agreement;
}

// One of the two that all members have read: what it held was sent in a call before which nothing was under
// way any more when everybody sent what this rank has heard since.
std::byte* Communicator::kept_block(Number number) {
  for (Kept& kept : kept_) {
    if (kept.block && kept.used_by >= all_read_before_) continue;
    if (!kept.block) {
      std::uint32_t sharers = 0;
      for (Rank member = 0; member < size(); ++member) sharers += members().is_here(member);
      kept.block = shared_.fabrics.local->keep_block(PreparedPlan::kMostOneShot, sharers);
      if (!kept.block) return nullptr;
    }
    kept.used_by = number;
    return kept.block;
  }
  return nullptr;
}

// The next call writes to it, as many bytes in most programs: its lines come while this one waits for the
// others (2 ranks, all-reduces of 2, 4 and 8 KiB 0.73 -> 0.64, 1.06 -> 0.99, 1.81 -> 1.71 us; of 16 KiB
// none).
void Communicator::prefetch_other_kept(const Outgoing& sent) const {
  constexpr Bytes kMost = 8 << 10;
  if (sent.reuse != Reuse::by_agreement || sent.payload.size() > kMost) return;
  std::byte* other = kept_[sent.block == kept_[0].block ? 1 : 0].block;
  if (other) prefetch_to_write(SharedMemoryTransport::payload_of(other), sent.payload.size());
}

// Everybody has said in that call that nothing older was under way there.
void Communicator::heard_all_alone(Number number) { all_read_before_ = std::max(all_read_before_, number); }

void Communicator::note_kept(Rank member, Bytes offset) {
  if (kept_of_.empty()) kept_of_.resize(static_cast<std::size_t>(size()));
  auto& known = kept_of_[static_cast<std::size_t>(member)];
  if (known[0] == offset || known[1] == offset) return;
  (known[0] == 0 ? known[0] : known[1]) = offset;
  ++kept_known_;
}

void Communicator::leave_kept_blocks() {
  SharedMemoryTransport& local = *shared_.fabrics.local;
  for (std::size_t m = 0; m < kept_of_.size(); ++m)
    for (Bytes offset : kept_of_[m])
      if (offset) local.leave_block(members().ranks[m], offset);
  Rank me = members().ranks[static_cast<std::size_t>(members().me)];
  for (const Kept& kept : kept_)
    if (kept.block) local.leave_block(me, local.offset_of(kept.block));
}

bool Communicator::send(const Sending& sending, std::span<const std::byte> payload,
                        std::uint32_t& unfinished) {
  const PreparedPlan& prepared = sending.operation.prepared();
  Outgoing message = addressed(sending.header, sending.step, prepared);
  message.payload = payload;
  message.unfinished = &unfinished;
  if (sending.step.fabric == Fabric::wire) {
    const bool sent = shared_.fabrics.wire->send(message);
    if (sent) note_told(sending);
    return sent;
  }
  if (prepared.is_one_shot) {
    bool alone = &sending.operation == oldest_collective();
    if (alone) message.header.segment |= kSenderWasAlone;
    if (payload.size() > shared_.fabrics.local->most_inline()) stage(message, alone ? first_ : next_);
  }
  return try_pressing(sending, message, [&] { return shared_.fabrics.local->send(message); });
}

std::byte* Communicator::claim(const Sending& sending, Bytes bytes, Outgoing& message) {
  SharedMemoryTransport& local = *shared_.fabrics.local;
  message = addressed(sending.header, sending.step, sending.operation.prepared());
  message.payload = {static_cast<const std::byte*>(nullptr), bytes};  // its place is not known yet
  bool claimed = try_pressing(sending, message, [&] { return local.claim(message); });
  return claimed ? SharedMemoryTransport::payload_of(message.block) : nullptr;
}

std::byte* Communicator::claim_answer(const Sending& sending, const View& asked, Outgoing& message) {
  std::byte* block = SharedMemoryTransport::block_to_return(asked);
  if (!block) return nullptr;
  message = addressed(sending.header, sending.step, sending.operation.prepared());
  message.block = block;
  message.reuse = Reuse::by_receiver;
  message.payload = {SharedMemoryTransport::payload_of(block), asked.bytes()};
  if (!shared_.fabrics.local->claim(message)) return nullptr;
  note_told(sending);
  return SharedMemoryTransport::payload_of(block);
}

bool Communicator::send_single_copy(const Sending& sending, std::span<const std::byte> payload, bool is_joint,
                                    std::uint32_t& unfinished) {
  Outgoing message = addressed(sending.header, sending.step, sending.operation.prepared());
  message.payload = payload;
  message.is_joint = is_joint;
  message.unfinished = &unfinished;
  return try_pressing(sending, message, [&] { return shared_.fabrics.local->send_single_copy(message); });
}

SharedMemoryTransport::Fetched Communicator::fetch(const View& view, std::byte* into) {
  const auto fetched = SharedMemoryTransport::fetch(view, into);
  if (fetched == SharedMemoryTransport::Fetched::refused) SharedMemoryTransport::ask_for_copy(view);
  return fetched;
}

bool Communicator::help_readers() {
  if (is_working_) return false;
  const SharedMemoryTransport::ToWrite part = shared_.fabrics.local->take_to_write();
  if (!part.joint) return false;
  work(part.piece.bytes, [&part] { SharedMemoryTransport::write(part); });
  return true;
}

// ---- answers for the sake of credit ----

void Communicator::answer_those_owed(Number number) {
  credit_.answer([&](Rank member) { return send_answer(member, number); });
  if (shared_.fabrics.wire) shared_.fabrics.wire->push(0);
}

bool Communicator::send_answer(Rank member, Number number) {
  const Rank to[] = {members().ranks[static_cast<std::size_t>(member)]};
  Outgoing message{{id_, Credit::kAnswer, seq_of(number), 0, 0, members().me, 0, 0}, {}, to};
  message.unfinished = &shared_.answering;
  Transport* by = members().is_here(member) ? shared_.fabrics.local : shared_.fabrics.wire;
  return by->send(message);
}

// ---- a sender whose receiver makes another call ----

Communicator::Warning Communicator::warning_of(const Operation& operation, std::string problem) const {
  const PreparedPlan& prepared = operation.prepared();
  const Step& step = prepared.plan.steps.back();  // of a send: the data
  Header header{id_, step.tag, operation.seq(), 0, operation.fingerprint(), members().me, 0, 0};
  return {addressed(header, step, prepared), step.fabric, std::move(problem)};
}

// Nothing more is sent from here once this rank has its problem.
void Communicator::warn_receiver() {
  const Fabrics& fabrics = shared_.fabrics;
  bool wire = warning_->fabric == Fabric::wire;
  if (!warning_->sent) {
    warning_->message.unfinished = &warning_->unfinished;
    warning_->sent = wire ? fabrics.wire->send(warning_->message) : fabrics.local->send(warning_->message);
    if (warning_->sent && wire) fabrics.wire->flush(warning_->message.to, warning_->unfinished);
  }
  if (warning_->sent && warning_->unfinished == 0) problem_ = std::move(warning_->problem);
}

}  // namespace ddl
