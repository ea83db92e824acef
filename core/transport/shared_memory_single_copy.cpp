// The part of SharedMemoryTransport about payloads that stay where they are until they have been read there.
#include "core/base/clock.hpp"
#include "core/base/pause.hpp"
#include "core/transport/shared_memory.hpp"

namespace ddl {
namespace {

// The sender may be gone.
void await_written(const JointCopy& joint, Nanoseconds until) {
  while (!joint.is_written() && now() < until) ::sched_yield();
}

}  // namespace

bool SharedMemoryTransport::send_single_copy(const Outgoing& message) {
  Outgoing named = message;
  if (!has_room(message.to) || !single_copies_.add(named, ranks())) return false;
  named.reuse = Reuse::elsewhere;
  put_all(named);
  return true;
}

// Those that could not read get the staged copy alone.
bool SharedMemoryTransport::end_single_copies() {
  return single_copies_.end_those_read([this](const Outgoing& sent, int place) {
    const Rank to[] = {peers_[static_cast<std::size_t>(place)].rank};
    Outgoing copy = sent;
    copy.block = nullptr;
    copy.to = to;
    copy.need = Need::now;
    return send(copy);
  });
}

void SharedMemoryTransport::withdraw_payloads() {
  own_.head().withdrawn.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before all that the program writes there
}

void SharedMemoryTransport::offer_place(const View& view, std::byte* into) {
  constexpr Bytes kWorthWaking = 1 << 20;
  JointCopy& joint = SingleCopySends::joint_of(static_cast<std::byte*>(view.token()));
  const Peer& sender = *static_cast<Peer*>(view.owner());
  if (!joint.is_joint() || !sender.transport->offers_places_) return;
  joint.offer(into);
  if (view.bytes() >= kWorthWaking) ring(*sender.region);
}

SharedMemoryTransport::Fetched SharedMemoryTransport::fetch(const View& view, std::byte* into) {
  constexpr int kPauses = 200;  // its last piece is a short one, but it may have lost its core
  const Region& sender = *static_cast<Peer*>(view.owner())->region;
  const auto* from = static_cast<const std::byte*>(view.data());
  JointCopy& joint = SingleCopySends::joint_of(static_cast<std::byte*>(view.token()));
  // Its program may have written there since, or freed it, but not before it was withdrawn.
  auto read = [&](Bytes first, Bytes bytes) {
    const bool is_read = sender.read_owner(into + first, from + first, bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    return is_read && sender.head().withdrawn.load(std::memory_order_relaxed) == 0;
  };
  if (!joint.is_joint()) return read(0, view.bytes()) ? Fetched::all : Fetched::refused;
  while (const JointCopy::Piece piece = joint.take_first())
    if (!read(piece.first, piece.bytes)) joint.fail();  // its sender may be writing
  for (int i = 0; !joint.is_written(); ++i) {
    if (i == kPauses) return Fetched::not_yet;
    pause_a_moment();
  }
  return !joint.has_failed() || read(0, view.bytes()) ? Fetched::all : Fetched::refused;
}

SharedMemoryTransport::ToWrite SharedMemoryTransport::take_to_write() {
  const Outgoing* sent = single_copies_.that_wants_writer();
  if (!sent) return {};
  JointCopy& joint = SingleCopySends::joint_of(sent->block);
  const JointCopy::Piece piece = joint.take_last();
  if (!piece) return {};
  return {&joint, piece, sent->payload.data() + piece.first, peer_of(sent->to[0]).region.get()};
}

void SharedMemoryTransport::write(const ToWrite& part) {
  JointCopy& joint = *part.joint;
  const bool written = !joint.has_failed() &&
                       part.reader->write_owner(joint.into() + part.piece.first, part.from, part.piece.bytes);
  joint.wrote(part.piece, written);
  ring(*part.reader);
}

void SharedMemoryTransport::ask_for_copy(const View& view) {
  SingleCopySends::refuse(static_cast<std::byte*>(view.token()),
                          static_cast<Peer*>(view.owner())->transport->me_);
}

// Of a block that its owner counts as a reader of, too: it looks when the others are through. One that has
// failed has been waited for, or will not be.
void SharedMemoryTransport::count_out(void* peer, void* block) {
  auto* counted = static_cast<std::byte*>(block);
  JointCopy& joint = SingleCopySends::joint_of(counted);
  if (joint.is_joint()) {
    joint.end();
    if (!joint.has_failed()) await_written(joint, now() + kLongestPiece);
  }
  Peer& sender = *static_cast<Peer*>(peer);
  SingleCopySends::note_through(counted, sender.transport->me_);
  if (StagingPool::readers_of(counted).fetch_sub(1, std::memory_order_acq_rel) == 2) ring(*sender.region);
}

void SharedMemoryTransport::withdraw_place(const View& view, Nanoseconds until) {
  JointCopy& joint = SingleCopySends::joint_of(static_cast<std::byte*>(view.token()));
  if (!joint.is_joint()) return;
  joint.fail();
  await_written(joint, until);
}

}  // namespace ddl
