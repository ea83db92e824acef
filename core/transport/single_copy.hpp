// SingleCopySends: payloads that stay in the buffers of the program until the peers of this host that they
// are for have read them there (process_vm_readv): one copy instead of one into a block and one out of it.
//
// Where there is one reader, this rank takes part in the copy when it has nothing else to do, see JointCopy.
//
// Each has a small block of the pool, from which readers count themselves out as from others. A reader whom
// the kernel does not let read writes its number there (BlockHead::refused says how many have) and is sent a
// staged copy instead, so that memory that cannot be read that way (of a driver, for instance), or a process
// that has become unreadable, costs time and nothing else.
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
  /// no block is free now. The message must not be sent where that is so.
  bool add(Outgoing& message);
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
  /// A message whose reader would be helped; null: there is none. Its block is that message's at least until
  /// a piece that was taken of it has been written.
  const Outgoing* that_wants_writer() const {
    auto found = std::find_if(sent_.begin(), sent_.end(),
                              [](const Outgoing& sent) { return joint_of(sent.block).wants_writer(); });
    return found == sent_.end() ? nullptr : &*found;
  }
  /// Whether one of these two has something to do.
  bool has_work() const {
    const BlockHead* head = oldest_.load(std::memory_order_relaxed);
    return head && (head->readers.load(std::memory_order_relaxed) == 1 || head->joint.wants_writer());
  }

  /// Those that messages which count there wait for; of one with several readers all.
  std::vector<Rank> readers_of(const std::uint32_t* unfinished) const;

  static JointCopy& joint_of(std::byte* block) { return reinterpret_cast<BlockHead*>(block)->joint; }
  /// The reader of that number cannot; it counts itself out afterwards as if it had.
  static void refuse(std::byte* block, int place);

 private:
  // This rank counts as a reader, too, so that a block is its until it has looked.
  static bool is_read(const Outgoing& sent) {
    return StagingPool::readers_of(sent.block).load(std::memory_order_acquire) == 1;
  }
  static std::atomic<std::uint32_t>& refused_of(std::byte* block) {
    return reinterpret_cast<BlockHead*>(block)->refused;
  }
  static std::uint16_t* places_of(std::byte* block) {
    return reinterpret_cast<std::uint16_t*>(StagingPool::payload_of(block));
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
