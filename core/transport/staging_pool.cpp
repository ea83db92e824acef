#include "core/transport/staging_pool.hpp"

#include <algorithm>
#include <bit>

namespace ddl {
namespace {

constexpr Bytes kLeastPayload = 256;
// Pages are taken in steps of that much: each step is a system call.
constexpr Bytes kStep = 256 << 10;
// Of the blocks that a burst has left behind so many small ones are looked at before a new one is made: each
// look may miss the cache. Of large ones all are: what a cold one brings into the caches costs more.
constexpr std::size_t kGlance = 4;
constexpr Bytes kLarge = 64 << 10;
// What the blocks of a size that take turns come to, and at most where a call needs more; of those that
// hardly fill a few lines, their number.
constexpr Bytes kTurnsBytes = 256 << 10, kMostTurnsBytes = 4 << 20, kTiny = 1 << 10, kSmall = 4 << 10;
constexpr std::size_t kTurnsOfTiny = 8;
// So that blocks whose size divides the ring fill it.
constexpr Bytes kHeadsOfRing = 64 * sizeof(BlockHead);

// None where it would hold but a few blocks.
Bytes most_of_ring(Bytes cap) {
  if (cap / 4 < kStep) return 0;
  return std::min(kMostTurnsBytes + kHeadsOfRing, cap / 4) / alignof(BlockHead) * alignof(BlockHead);
}

std::size_t class_of(Bytes payload) {
  return static_cast<std::size_t>(std::countr_zero(std::bit_ceil(std::max(payload, kLeastPayload))));
}

std::size_t turns_of(std::size_t size_class, std::size_t at_once) {
  const Bytes payload = Bytes{1} << size_class;
  if (payload <= kTiny) return kTurnsOfTiny;
  const std::size_t turns =
      round_up(std::max<std::size_t>(1, kTurnsBytes / payload), std::max<std::size_t>(1, at_once));
  return std::min(turns, std::max<std::size_t>(1, kMostTurnsBytes / payload));
}

}  // namespace

Bytes StagingPool::block_bytes(Bytes payload) { return sizeof(BlockHead) + (Bytes{1} << class_of(payload)); }

StagingPool::StagingPool(Region& region, Bytes begin, Bytes cap, Bytes ring, Bytes first_round)
    : region_(region),
      ring_begin_(begin),
      ring_most_(ring > 0 ? most_of_ring(cap) : 0),
      begin_(begin + ring_most_),
      used_(begin_),
      reserved_(begin_),
      cap_end_(begin + cap),
      end_(begin + (region.bytes() - begin) / 4096 * 4096),  // not what the region was rounded up by
      prepared_ring_(std::min(ring + kHeadsOfRing, ring_most_)),
      first_round_(std::min(first_round, prepared_ring_)),
      prepared_(std::min(kStep, cap_end_ - begin_)),
      ring_(region.at(begin), first_round_) {}

void StagingPool::prepare() {
  grow_ring(prepared_ring_);
  if (reserved_ == begin_ && region_.reserve(begin_, prepared_)) reserved_ += prepared_;
  prepare_to_read(region_);
}

void StagingPool::prepare_to_read(Region& other) const {
  other.populate(ring_begin_, prepared_ring_);
  other.populate(begin_, prepared_);
  other.prefetch(ring_begin_, first_round_);
  other.prefetch(begin_, prepared_);
}

// False: it is at its largest, or there is no memory.
bool StagingPool::grow_ring(Bytes by) {
  by = std::min(round_up(by, alignof(BlockHead)), ring_most_ - ring_.bytes());
  if (by == 0 || !region_.reserve(ring_begin_ + ring_.bytes(), by)) return false;
  ring_.grow(by);
  return true;
}

std::byte* StagingPool::take(Bytes payload, std::uint32_t readers, Need need, std::size_t at_once) {
  std::byte* block = nullptr;
  if (payload > kSmall && payload <= ring_.bytes() / 4) {
    const Bytes bytes = sizeof(BlockHead) + payload;
    block = ring_.take(bytes, at_once);
    if (!block && grow_ring(std::max(kStep, bytes))) block = ring_.take(bytes, at_once);
  }
  if (!block) block = take_of_size(payload, need, at_once);
  if (block) readers_of(block).store(readers, std::memory_order_relaxed);
  return block;
}

std::byte* StagingPool::keep(Bytes payload, std::uint32_t readers) {
  std::byte* block = take_of_size(payload, Need::can_wait, 1);
  if (block) readers_of(block).store(readers, std::memory_order_relaxed);
  return block;
}

std::byte* StagingPool::take_of_size(Bytes payload, Need need, std::size_t at_once) {
  const std::size_t size_class = class_of(payload), turns = turns_of(size_class, at_once);
  SizeClass& of = classes_[size_class];
  std::byte* block = next_recent(of, turns);
  if (!block) block = latest_other(of, payload >= kLarge ? of.others.size() : kGlance);
  if (!block) block = carve(block_bytes(payload), Need::can_wait);
  if (!block) block = latest_other(of, of.others.size());
  if (!block) block = any_recent(of);
  if (!block && need == Need::now) block = carve(block_bytes(payload), need);
  if (!block) return nullptr;
  of.recent.push_back(block);
  while (of.recent.size() > turns) {
    of.others.push_back(of.recent.front());
    of.recent.pop_front();
  }
  return block;
}

// The one whose turn it is, if it is free.
std::byte* StagingPool::next_recent(SizeClass& of, std::size_t turns) {
  if (of.recent.size() < turns || !is_free(of.recent.front())) return nullptr;
  std::byte* block = of.recent.front();
  of.recent.pop_front();
  return block;
}

std::byte* StagingPool::latest_other(SizeClass& of, std::size_t most) {
  const auto end = of.others.rbegin() + static_cast<std::ptrdiff_t>(std::min(most, of.others.size()));
  const auto latest = std::find_if(of.others.rbegin(), end, is_free);
  if (latest == end) return nullptr;
  std::byte* block = *latest;
  of.others.erase(std::next(latest).base());
  return block;
}

std::byte* StagingPool::any_recent(SizeClass& of) {
  const auto found = std::find_if(of.recent.begin(), of.recent.end(), is_free);
  if (found == of.recent.end()) return nullptr;
  std::byte* block = *found;
  of.recent.erase(found);
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
