#include "core/transport/sent_bytes.hpp"

#include <algorithm>
#include <bit>

namespace ddl {
namespace {

constexpr Bytes kLeast = 64 << 10;
constexpr int kTrims = 64;  // before room is given back

}  // namespace

void SentBytes::resize(Bytes bytes) {
  std::vector<std::byte> other(bytes);
  const Bytes at = begin_ & (other.size() - 1);
  const Bytes first = std::min<Bytes>(this->bytes(), other.size() - at);
  std::vector<std::byte> kept(this->bytes());
  if (!kept.empty()) {
    copy_out(kept.data(), kept.size());
    std::memcpy(other.data() + at, kept.data(), first);
    if (kept.size() > first) std::memcpy(other.data(), kept.data() + first, kept.size() - first);
  }
  ring_ = std::move(other);
}

void SentBytes::add(std::span<const std::byte> bytes) {
  const Bytes all = this->bytes() + bytes.size();
  if (all > ring_.size()) resize(std::max(kLeast, std::bit_ceil(all)));
  while (!bytes.empty()) {
    const Bytes at = end_ & (ring_.size() - 1), part = std::min<Bytes>(bytes.size(), ring_.size() - at);
    std::memcpy(ring_.data() + at, bytes.data(), part);
    end_ += part;
    bytes = bytes.subspan(part);
  }
}

void SentBytes::trim(Bytes unacknowledged) {
  largest_ = std::max(largest_, bytes());
  const Bytes acknowledged = end_ - std::min(end_, unacknowledged);
  while (!ends_.empty() && ends_.front() <= acknowledged) {
    begin_ = ends_.front();
    ends_.pop_front();
    ++first_;
  }
  if (++trims_ < kTrims) return;
  if (ring_.size() > kLeast && largest_ <= ring_.size() / 4) resize(ring_.size() / 2);
  largest_ = 0;
  trims_ = 0;
}

std::vector<std::byte> SentBytes::pop() {
  if (ends_.empty()) return {};
  std::vector<std::byte> frame(ends_.front() - begin_);
  copy_out(frame.data(), frame.size());
  begin_ = ends_.front();
  ends_.pop_front();
  ++first_;
  return frame;
}

void SentBytes::copy_out(std::byte* to, Bytes bytes) const {
  const Bytes at = begin_ & (ring_.size() - 1), first = std::min<Bytes>(bytes, ring_.size() - at);
  std::memcpy(to, ring_.data() + at, first);
  if (bytes > first) std::memcpy(to + first, ring_.data(), bytes - first);
}

}  // namespace ddl
