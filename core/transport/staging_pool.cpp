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
// The blocks of a size that take turns come to at most so much where a call needs more than its turns; those
// of less than 16 KiB to so much, and are no faster for more; of those that hardly fill a few lines, their
// number.
constexpr Bytes kMostTurnsBytes = 4 << 20, kSmall = 16 << 10, kTurnsOfSmall = 256 << 10, kTiny = 1 << 10;
constexpr std::size_t kTurnsOfTiny = 8;

std::size_t class_of(Bytes payload) {
  return static_cast<std::size_t>(std::countr_zero(std::bit_ceil(std::max(payload, kLeastPayload))));
}

}  // namespace

Bytes StagingPool::block_bytes(Bytes payload) { return sizeof(BlockHead) + (Bytes{1} << class_of(payload)); }

StagingPool::StagingPool(Region& region, Bytes begin, Bytes cap, Bytes turns)
    : region_(region),
      begin_(begin),
      used_(begin),
      reserved_(begin),
      cap_end_(begin + cap),
      end_(begin + cap * kBeyond),
      turns_(turns) {}

void StagingPool::prepare() {
  Bytes first = std::min(kFirst, cap_end_ - begin_);
  if (reserved_ > begin_ || !region_.reserve(begin_, first)) return;
  reserved_ += first;
  region_.populate(begin_, first);
}

std::byte* StagingPool::take(Bytes payload, std::uint32_t readers, Need need, std::size_t at_once) {
  const std::size_t size_class = class_of(payload), turns = turns_of(size_class, at_once);
  SizeClass& of = classes_[size_class];
  std::byte* block = next_recent(of, turns);
  if (!block) block = latest_other(of, payload >= kLarge ? of.others.size() : kGlance);
  if (!block) block = carve(block_bytes(payload), Need::can_wait);
  if (!block) block = latest_other(of, of.others.size());
  if (!block) block = any_recent(of);
  if (!block && need == Need::now) block = carve(block_bytes(payload), need);
  if (!block) return nullptr;
  readers_of(block).store(readers, std::memory_order_relaxed);
  of.recent.push_back(block);
  while (of.recent.size() > turns) {
    of.others.push_back(of.recent.front());
    of.recent.pop_front();
  }
  return block;
}

std::size_t StagingPool::turns_of(std::size_t size_class, std::size_t at_once) const {
  const Bytes payload = Bytes{1} << size_class;
  if (payload <= kTiny) return kTurnsOfTiny;
  const Bytes bytes = payload < kSmall ? kTurnsOfSmall : turns_;
  const std::size_t turns =
      round_up(std::max<std::size_t>(1, bytes / payload), std::max<std::size_t>(1, at_once));
  return std::min(turns, std::max<std::size_t>(1, kMostTurnsBytes / payload));
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
