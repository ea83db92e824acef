// SingleCopySends: payloads that stay in the buffers of the program until the peers of this host that they
// are for have read them there (process_vm_readv): one copy instead of one into a block and one out of it.
//
// Of messages that are joint and have one reader this rank copies a part itself, when it has nothing else to
// do, see JointCopy.
//
// Each has a small block of the pool, from which readers count themselves out as from others, and set a bit
// each: so the sender knows whom it waits for. A reader whom the kernel does not let read writes its number
// there (BlockHead::refused says how many have) and is sent a staged copy instead, so that memory that cannot
// be read that way (of a driver, for instance), or a process that has become unreadable, costs time and
// nothing else.
//
// Thread safety: none, the engine's lock is held; but has_work() may be asked by any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/transport/staging_pool.hpp"

namespace ddl {

class SingleCopySends {
 public:
  explicit SingleCopySends(StagingPool& pool) : pool_(pool) {}

  /// Sets message.block, which its readers count themselves out of, and counts in message.unfinished; false:
  /// no block is free now. The message must not be sent where that is so. The host has so many ranks.
  bool add(Outgoing& message, int ranks);
  /// Ends those that all have read, or have been sent a copy of: `send_copy(message, place)` sends it to the
  /// rank of that number among those of the host; false: there is no room now. True when any was ended.
  template <class SendCopy>
  bool end_those_read(const SendCopy& send_copy) {
    const std::size_t before = sent_.size();
    std::erase_if(sent_, [&](const Outgoing& sent) { return is_read(sent) && end(sent, send_copy); });
    if (sent_.size() < before) note_oldest();
    return sent_.size() < before;
  }
  bool empty() const { return sent_.empty(); }
  /// What counts in `from` counts in `to` from now on.
  void move_count(std::uint32_t& from, std::uint32_t& to);
  /// A message of which a piece may be taken to be written; null: there is none. Its block remains that
  /// message's until JointCopy::wrote() that piece.
  const Outgoing* that_wants_writer() const {
    auto found = std::find_if(sent_.begin(), sent_.end(),
                              [](const Outgoing& sent) { return joint_of(sent.block).wants_writer(); });
    return found == sent_.end() ? nullptr : &*found;
  }
  /// Whether end_those_read() or that_wants_writer() would find the oldest message.
  bool has_work() const {
    const BlockHead* head = oldest_.load(std::memory_order_relaxed);
    return head && (head->readers.load(std::memory_order_relaxed) == 1 || head->joint.wants_writer());
  }

  /// Calls body(to) for each rank of the host that has not read yet what counts there; `place_of(to)` is
  /// its number there. Of those from kPlaces on nobody knows.
  template <class PlaceOf, class Body>
  void each_awaited(const std::uint32_t* unfinished, const PlaceOf& place_of, const Body& body) const {
    for (const Outgoing& sent : sent_)
      for (Rank to : sent.to)
        if (sent.unfinished == unfinished && !is_through(sent.block, place_of(to))) body(to);
  }

  static JointCopy& joint_of(const std::byte* block) { return head_of(block).joint; }
  /// The reader at that place lets go of it, and counts itself out.
  static void note_through(std::byte* block, int place) {
    if (place < kPlaces) through_of(block, place).fetch_or(bit_of(place), std::memory_order_relaxed);
  }
  /// It cannot read it; it counts itself out afterwards as if it had.
  static void refuse(std::byte* block, int place);

 private:
  static BlockHead& head_of(const std::byte* block) {
    return *reinterpret_cast<BlockHead*>(const_cast<std::byte*>(block));
  }
  // This rank counts as a reader, too, so that a block is its until it has looked; and until another thread
  // of it that writes a piece is through, even if the reader has given that up.
  static bool is_read(const Outgoing& sent) {
    const JointCopy& joint = joint_of(sent.block);
    return StagingPool::readers_of(sent.block).load(std::memory_order_acquire) == 1 &&
           (!joint.is_joint() || joint.is_written());
  }
  static bool is_through(const std::byte* block, int place) {
    return place >= kPlaces ||
           (through_of(block, place).load(std::memory_order_relaxed) & bit_of(place)) != 0;
  }
  // The bits of the first 64 places are in the head, those of others begin the payload; behind these are the
  // numbers of those who could not read.
  static constexpr int kWord = 64, kPlaces = 16 * kWord;
  static constexpr Bytes kBitsBytes = (kPlaces - kWord) / 8;
  static constexpr std::uint64_t bit_of(int place) { return std::uint64_t{1} << place % kWord; }
  static std::atomic<std::uint64_t>& through_of(const std::byte* block, int place) {
    BlockHead& head = head_of(block);
    if (place < kWord) return head.through;
    auto* bits = StagingPool::payload_of(const_cast<std::byte*>(block));
    return reinterpret_cast<std::atomic<std::uint64_t>*>(bits)[place / kWord - 1];
  }
  static std::atomic<std::uint32_t>& refused_of(std::byte* block) { return head_of(block).refused; }
  static std::uint16_t* places_of(std::byte* block) {
    return reinterpret_cast<std::uint16_t*>(StagingPool::payload_of(block) + kBitsBytes);
  }
  void note_oldest();

  // From the last one back, so that what could not be sent is tried again.
  template <class SendCopy>
  static bool end(const Outgoing& sent, const SendCopy& send_copy) {
    std::byte* block = sent.block;
    auto& refused = refused_of(block);
    for (std::uint32_t left = refused.load(std::memory_order_relaxed); left > 0; --left) {
      if (!send_copy(sent, places_of(block)[left - 1])) return false;
      refused.store(left - 1, std::memory_order_relaxed);
    }
    StagingPool::readers_of(block).store(0, std::memory_order_relaxed);
    --*sent.unfinished;
    return true;
  }

  StagingPool& pool_;
  std::vector<Outgoing> sent_;
  std::atomic<const BlockHead*> oldest_ = nullptr;
};

}  // namespace ddl
