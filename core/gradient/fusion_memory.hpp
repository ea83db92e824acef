// FusionMemory: where the calls of a batch lie side by side; one for all communicators of a process.
//
// Thread safety: none; the engine's lock is held.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class FusionMemory {
 public:
  explicit FusionMemory(Bytes most = Bytes{32} << 20) : most_(most) {}

  struct Free {
    void operator()(std::byte* block) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;  // at the start of a cache line
    Bytes bytes = 0;
  };
  enum class Need : std::uint8_t { can_wait, pressing };

  /// A block of at least that many bytes; of one that can wait none when too much is taken.
  Block take(Bytes bytes, Need need);
  void give_back(Block block);
  /// The most that was taken at once. By any thread.
  Bytes most_taken() const { return most_taken_.load(std::memory_order_relaxed); }

 private:
  const Bytes most_;
  Bytes taken_ = 0, kept_ = 0;
  std::atomic<Bytes> most_taken_ = 0;
  std::vector<Block> idle_;
};

}  // namespace ddl
