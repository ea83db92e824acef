#include "core/transport/sent_bytes.hpp"

#include <algorithm>
#include <bit>

namespace ddl {

void SentBytes::add(std::span<const std::byte> bytes) {
  constexpr Bytes kLeast = 64 << 10;
  if (this->bytes() + bytes.size() > ring_.size()) {
    std::vector<std::byte> larger(std::max(kLeast, std::bit_ceil(this->bytes() + bytes.size())));
    const Bytes at = begin_ & (larger.size() - 1);
    const Bytes first = std::min<Bytes>(this->bytes(), larger.size() - at);
    std::vector<std::byte> kept(this->bytes());
    if (!kept.empty()) {
      copy_out(kept.data(), kept.size());
      std::memcpy(larger.data() + at, kept.data(), first);
      if (kept.size() > first) std::memcpy(larger.data(), kept.data() + first, kept.size() - first);
    }
    ring_ = std::move(larger);
  }
  while (!bytes.empty()) {
    const Bytes at = end_ & (ring_.size() - 1), part = std::min<Bytes>(bytes.size(), ring_.size() - at);
    std::memcpy(ring_.data() + at, bytes.data(), part);
    end_ += part;
    bytes = bytes.subspan(part);
  }
}

void SentBytes::trim(Bytes unacknowledged) {
  const Bytes acknowledged = end_ - std::min(end_, unacknowledged);
  while (!ends_.empty() && ends_.front() <= acknowledged) {
    begin_ = ends_.front();
    ends_.pop_front();
    ++first_;
  }
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
