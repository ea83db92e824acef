// ReceivePool: blocks for arriving payloads, lent to views and used again, the warmest first.
//
// Thread safety: none. Ownership: the pool outlives every view on its blocks.
#pragma once

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

#include "core/transport/transport.hpp"

namespace ddl {

class ReceivePool {
 public:
  ReceivePool() = default;
  ~ReceivePool() {
    for (auto& blocks : idle_)
      for (std::byte* block : blocks) std::free(block - kHead);
  }
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  /// At least that many bytes, aligned to a cache line. Release them through view().
  std::byte* take(Bytes bytes) {
    std::size_t kind = 0;
    while (size_of(kind) < bytes) ++kind;
    auto& blocks = idle_[kind];
    if (blocks.empty()) return make(kind);
    std::byte* block = blocks.back();
    blocks.pop_back();
    idle_bytes_ -= size_of(kind);
    return block;
  }
  View view(std::byte* block, Bytes bytes) { return {block, bytes, release, this, block}; }
  void give(std::byte* block) {
    std::size_t kind = *reinterpret_cast<std::size_t*>(block - kHead);
    if (idle_bytes_ + size_of(kind) > kMostIdle) return std::free(block - kHead);
    idle_[kind].push_back(block);
    idle_bytes_ += size_of(kind);
  }
  Bytes idle_bytes() const { return idle_bytes_; }

 private:
  static constexpr std::size_t kKinds = 21;     // 4 KiB … 4 GiB: no message is larger
  static constexpr std::size_t kHead = 64;      // in front of a block: its kind
  static constexpr Bytes kMostIdle = 16 << 20;  // more than that goes back to the system
  static Bytes size_of(std::size_t kind) { return Bytes{4096} << kind; }

  static std::byte* make(std::size_t kind) {
    auto* raw = static_cast<std::byte*>(std::aligned_alloc(64, kHead + size_of(kind)));
    if (!raw) throw std::bad_alloc();
    *reinterpret_cast<std::size_t*>(raw) = kind;
    return raw + kHead;
  }
  static void release(void* pool, void* block) {
    static_cast<ReceivePool*>(pool)->give(static_cast<std::byte*>(block));
  }

  std::array<std::vector<std::byte*>, kKinds> idle_;
  Bytes idle_bytes_ = 0;
};

}  // namespace ddl
