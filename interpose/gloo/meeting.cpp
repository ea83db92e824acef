#include "interpose/gloo/meeting.hpp"

#include <algorithm>

namespace ddl::gloo {

void Meeting::start(bool yes, std::span<const std::byte> id) {
  bytes_.assign(kIdBytes + static_cast<std::size_t>(size_), std::byte{0});
  std::copy_n(id.begin(), std::min(id.size(), kIdBytes), bytes_.begin());
  bytes_[kIdBytes + static_cast<std::size_t>(rank_)] = yes ? kYes : kNo;
}

Rank Meeting::who_says_no() const {
  const auto votes = std::span(bytes_).subspan(kIdBytes);
  const auto found = std::find(votes.begin(), votes.end(), kNo);
  return found == votes.end() ? -1 : static_cast<Rank>(found - votes.begin());
}

Rank Meeting::who_is_strange() const {
  const auto votes = std::span(bytes_).subspan(kIdBytes);
  const auto found =
      std::find_if(votes.begin(), votes.end(), [](std::byte vote) { return vote != kYes && vote != kNo; });
  return found == votes.end() ? -1 : static_cast<Rank>(found - votes.begin());
}

void Meeting::reduce(void* out, const void* a, const void* b, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    static_cast<std::byte*>(out)[i] =
        static_cast<const std::byte*>(a)[i] | static_cast<const std::byte*>(b)[i];
}

}  // namespace ddl::gloo
