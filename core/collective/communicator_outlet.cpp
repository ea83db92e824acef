// How the operations of a communicator send: to whom, and in which block of its staging memory.
#include <algorithm>

#include "core/collective/communicator.hpp"

namespace ddl {

// The area is laid out for one plan at a time. Another plan's blocks may lie across the old ones, so these
// must have been read by everybody first; that never waits for anything this rank has still to do.
bool Communicator::use_layout_of(const PreparedPlan& prepared) {
  if (layout_ == &prepared) return true;
  if (!std::all_of(blocks_.begin(), blocks_.end(), SharedMemoryTransport::block_is_free)) return false;
  blocks_.clear();
  for (int slot = 0; slot < prepared.plan.window; ++slot)
    for (Bytes offset : prepared.block_offset) {
      blocks_.push_back(layout_begin() + static_cast<Bytes>(slot) * prepared.slot_bytes + offset);
      SharedMemoryTransport::clear_block(blocks_.back());
    }
  layout_ = &prepared;
  return true;
}

// Any that is free: it will be, because whoever it was sent to has asked for it.
bool Communicator::choose_shared_block(Outgoing& message) {
  if (!use_layout_of(shared_)) return false;
  auto free = std::find_if(blocks_.begin(), blocks_.end(), SharedMemoryTransport::block_is_free);
  if (free == blocks_.end()) return false;
  message.block = *free;
  return true;
}

Outgoing Communicator::addressed(const Header& header, const Step& step, const PreparedPlan& prepared) const {
  Outgoing message{header, {}, std::span(prepared.to).subspan(step.peer, step.peers)};
  message.rail = step.lane;
  return message;
}

// Two blocks in turn. Who has finished the one-shot operation before this one has heard from everybody in it,
// so everybody had finished the one before that, and has read what the block held.
void Communicator::stage_in_turn(Outgoing& message) const {
  message.block = spec_.area.begin + one_shot_turn_ % 2 * one_shot_bytes_;
  message.reuse = Reuse::by_agreement;
}

// Where the payload of a local send is staged; false when it cannot be told yet.
bool Communicator::choose_block(Outgoing& message, const Sending& sending) {
  const PreparedPlan& prepared = current_->prepared();
  if (is_between_two(prepared.task.kind)) return choose_shared_block(message);
  if (prepared.is_one_shot) {
    stage_in_turn(message);
    return true;
  }
  if (!use_layout_of(prepared)) return false;
  message.block = blocks_[sending.place * prepared.block_offset.size() + sending.step.expected];
  return true;
}

bool Communicator::send(const Sending& sending, std::span<const std::byte> payload,
                        std::uint32_t& unfinished) {
  Outgoing message = addressed(sending.header, sending.step, current_->prepared());
  message.payload = payload;
  message.unfinished = &unfinished;
  if (sending.step.fabric == Fabric::wire) return fabrics_.wire->send(message);
  if (payload.size() > View::kInline && !choose_block(message, sending)) return false;
  return fabrics_.local->send(message);
}

Communicator::Warning Communicator::warning_of(const Operation& operation, std::string problem) const {
  const PreparedPlan& prepared = operation.prepared();
  const Step& step = prepared.plan.steps.back();  // of a send: the data
  Header header{spec_.id, step.tag, operation.seq(), 0, operation.fingerprint(), spec_.me, 0, 0};
  return {addressed(header, step, prepared), step.fabric, std::move(problem)};
}

// Nothing more is sent from here once this rank has its problem.
void Communicator::warn_receiver() {
  bool wire = warning_->fabric == Fabric::wire;
  if (!warning_->sent) {
    warning_->message.unfinished = &warning_->unfinished;
    warning_->sent = wire ? fabrics_.wire->send(warning_->message) : fabrics_.local->send(warning_->message);
    if (warning_->sent && wire) fabrics_.wire->flush(warning_->unfinished);
  }
  if (warning_->sent && warning_->unfinished == 0) problem_ = std::move(warning_->problem);
}

std::byte* Communicator::claim(const Sending& sending, Bytes bytes) {
  claimed_ = addressed(sending.header, sending.step, current_->prepared());
  if (!choose_block(claimed_, sending)) return nullptr;
  std::byte* payload = SharedMemoryTransport::payload_of(claimed_.block);
  claimed_.payload = {payload, bytes};
  return fabrics_.local->claim(claimed_) ? payload : nullptr;
}

std::byte* Communicator::claim_answer(const Sending& sending, const View& asked) {
  std::byte* block = SharedMemoryTransport::block_to_return(asked);
  if (!block) return nullptr;
  claimed_ = addressed(sending.header, sending.step, current_->prepared());
  claimed_.block = block;
  claimed_.reuse = Reuse::by_receiver;
  std::byte* payload = SharedMemoryTransport::payload_of(block);
  claimed_.payload = {payload, asked.bytes()};
  return fabrics_.local->claim(claimed_) ? payload : nullptr;
}

}  // namespace ddl
