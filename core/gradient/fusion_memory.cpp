#include "core/gradient/fusion_memory.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace ddl {
namespace {

constexpr Bytes kLeastBlock = 64 << 10;  // blocks are powers of two from there on, so that they fit again
constexpr std::align_val_t kLine{64};

}  // namespace

void FusionMemory::Free::operator()(std::byte* block) const { ::operator delete(block, kLine); }

FusionMemory::Block FusionMemory::take(Bytes bytes, Need need) {
  bytes = std::bit_ceil(std::max(bytes, kLeastBlock));
  if (taken_ + bytes > most_ && need == Need::can_wait) return {};
  auto fits =
      std::find_if(idle_.begin(), idle_.end(), [&](const Block& block) { return block.bytes == bytes; });
  Block block;
  if (fits != idle_.end()) {
    block = std::move(*fits);
    idle_.erase(fits);
    kept_ -= bytes;
  } else {
    for (; !idle_.empty() && taken_ + kept_ + bytes > most_; idle_.pop_back()) kept_ -= idle_.back().bytes;
    block = {std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(::operator new(bytes, kLine))), bytes};
  }
  taken_ += bytes;
  most_taken_.store(std::max(most_taken(), taken_), std::memory_order_relaxed);
  return block;
}

void FusionMemory::give_back(Block block) {
  if (!block.memory) return;
  taken_ -= block.bytes;
  if (taken_ + kept_ + block.bytes > most_) return;
  kept_ += block.bytes;
  idle_.push_back(std::move(block));
}

}  // namespace ddl
