#include "core/transport/staging_pool.hpp"

#include <algorithm>
#include <bit>

namespace ddl {
namespace {

constexpr Bytes kLeastPayload = 256;
// Pages are taken in steps of that much: each step is a system call.
constexpr Bytes kStep = 256 << 10;
// So many of the oldest small blocks are looked at before a new one is made: each look may miss the cache. Of
// large ones all are, the youngest first: what a cold one brings into the caches costs more.
constexpr std::size_t kGlance = 4;
constexpr Bytes kLarge = 64 << 10;

std::size_t class_of(Bytes payload) {
  return static_cast<std::size_t>(std::countr_zero(std::bit_ceil(std::max(payload, kLeastPayload))));
}

}  // namespace

Bytes StagingPool::block_bytes(Bytes payload) { return sizeof(BlockHead) + (Bytes{1} << class_of(payload)); }

StagingPool::StagingPool(Region& region, Bytes begin, Bytes cap)
    : region_(region),
      begin_(begin),
      used_(begin),
      reserved_(begin),
      cap_end_(begin + cap),
      end_(begin + cap * kBeyond) {}

void StagingPool::prepare() {
  Bytes first = std::min(kFirst, cap_end_ - begin_);
  if (reserved_ > begin_ || !region_.reserve(begin_, first)) return;
  reserved_ += first;
  region_.populate(begin_, first);
}

std::byte* StagingPool::take(Bytes payload, std::uint32_t readers, Need need) {
  SizeClass& of = classes_[class_of(payload)];
  bool is_large = payload >= kLarge;
  std::byte* block = is_large ? look_for_warmest(of) : look(of, kGlance);
  if (!block) block = carve(block_bytes(payload), Need::can_wait);
  if (!block && !is_large) block = look(of, of.lent.size());
  if (!block && need == Need::now) block = carve(block_bytes(payload), need);
  if (!block) return nullptr;
  readers_of(block).store(readers, std::memory_order_relaxed);
  of.lent.push_back(block);
  return block;
}

// One that is free; looks at so many of those that were lent longest ago.
std::byte* StagingPool::look(SizeClass& of, std::size_t most) {
  for (std::size_t i = 0; of.free.empty() && i < most && !of.lent.empty(); ++i) {
    std::byte* oldest = of.lent.front();
    of.lent.pop_front();
    if (is_free(oldest))
      of.free.push_back(oldest);
    else
      of.lent.push_back(oldest);
  }
  if (of.free.empty()) return nullptr;
  std::byte* block = of.free.back();
  of.free.pop_back();
  return block;
}

// Whatever a burst of calls has left behind, one call after the other uses the same few.
std::byte* StagingPool::look_for_warmest(SizeClass& of) {
  auto warmest = std::find_if(of.lent.rbegin(), of.lent.rend(), is_free);
  if (warmest == of.lent.rend()) return nullptr;
  std::byte* block = *warmest;
  of.lent.erase(std::next(warmest).base());
  return block;
}

std::byte* StagingPool::carve(Bytes bytes, Need need) {
  Bytes last = need == Need::now ? end_ : cap_end_;
  if (used_ + bytes > last) return nullptr;
  if (used_ + bytes > reserved_) {
    Bytes step = std::min(round_up(std::max(kStep, used_ + bytes - reserved_), 4096), end_ - reserved_);
    if (!region_.reserve(reserved_, step)) return nullptr;
    reserved_ += step;
  }
  std::byte* block = region_.at(used_);
  used_ += bytes;
  return block;
}

}  // namespace ddl
