#include "core/transport/staging_ring.hpp"

#include <algorithm>

#include "core/base/partition.hpp"
#include "core/transport/region.hpp"

namespace ddl {
namespace {

// So many that are being read are left out in a search.
constexpr int kMostLeftOut = 8;
// A round has room for that many calls at least.
constexpr Bytes kLeastOfRound = 4;
constexpr Bytes kGrowth = 8;

}  // namespace

// A block may begin where the bytes before ended.
void StagingRing::grow(Bytes by) {
  go_to(bytes_);
  bytes_ += by / alignof(BlockHead) * alignof(BlockHead);
}

std::byte* StagingRing::take(Bytes bytes, std::size_t at_once) {
  bytes = round_up(bytes, alignof(BlockHead));
  if (bytes > bytes_) return nullptr;
  const Bytes together = bytes * std::max<std::size_t>(1, at_once),
              whole = together <= bytes_ ? together : bytes;
  round_ = std::max(round_, kLeastOfRound * whole);
  const Bytes round = std::min(round_, bytes_);
  std::byte* block = take_before(round / whole * whole, bytes);
  if (block || round == bytes_) return block;
  round_ = bytes_;
  return take_before(bytes_ / whole * whole, bytes);
}

std::byte* StagingRing::take_before(Bytes end, Bytes bytes) {
  for (int left_out = 0; left_out < kMostLeftOut; ++left_out) {
    if (next_ + bytes > end) {
      go_to(0);
      if (round_ < bytes_) round_ += round_ / kGrowth;
    }
    while (!taken_.empty() && taken_.front().begin >= next_ && taken_.front().begin < next_ + bytes &&
           is_free(taken_.front()))
      taken_.pop_front();
    if (taken_.empty() || taken_.front().begin < next_ || taken_.front().begin >= next_ + bytes) {
      taken_.push_back({next_, next_ + bytes});
      next_ += bytes;
      return memory_ + taken_.back().begin;
    }
    next_ = taken_.front().end;
    pass_first();
  }
  return nullptr;
}

bool StagingRing::is_free(const Taken& taken) const {
  return reinterpret_cast<const BlockHead*>(memory_ + taken.begin)->readers.load(std::memory_order_acquire) ==
         0;
}

// The first becomes the last, unless it is free.
void StagingRing::pass_first() {
  const Taken first = taken_.front();
  taken_.pop_front();
  if (!is_free(first)) taken_.push_back(first);
}

// Which is the start, or behind all blocks.
void StagingRing::go_to(Bytes place) {
  for (std::size_t left = taken_.size(); left > 0 && taken_.front().begin >= next_; --left) pass_first();
  next_ = place;
}

}  // namespace ddl
