#include "interpose/gloo/meeting.hpp"

#include <algorithm>
#include <cstring>

namespace ddl::gloo {

std::size_t Meeting::early_at(Rank rank) const {
  return kIdBytes + static_cast<std::size_t>(size_) +
         static_cast<std::size_t>(rank) * sizeof(EarlyCalls::List);
}
std::span<const std::byte> Meeting::votes() const {
  return std::span(bytes_).subspan(kIdBytes, static_cast<std::size_t>(size_));
}

void Meeting::start(bool yes, std::span<const std::byte> id, const EarlyCalls::List& early) {
  bytes_.assign(early_at(size_), std::byte{0});
  std::copy_n(id.begin(), std::min(id.size(), kIdBytes), bytes_.begin());
  bytes_[kIdBytes + static_cast<std::size_t>(rank_)] = yes ? kYes : kNo;
  std::memcpy(&bytes_[early_at(rank_)], early.data(), sizeof early);
}

std::vector<EarlyCalls::List> Meeting::early() const {
  std::vector<EarlyCalls::List> lists(static_cast<std::size_t>(size_));
  std::memcpy(lists.data(), &bytes_[early_at(0)], lists.size() * sizeof(EarlyCalls::List));
  return lists;
}

Rank Meeting::who_says_no() const {
  const auto all = votes();
  const auto found = std::find(all.begin(), all.end(), kNo);
  return found == all.end() ? -1 : static_cast<Rank>(found - all.begin());
}

Rank Meeting::who_is_strange() const {
  const auto all = votes();
  const auto found =
      std::find_if(all.begin(), all.end(), [](std::byte vote) { return vote != kYes && vote != kNo; });
  return found == all.end() ? -1 : static_cast<Rank>(found - all.begin());
}

void Meeting::reduce(void* out, const void* a, const void* b, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    static_cast<std::byte*>(out)[i] =
        static_cast<const std::byte*>(a)[i] | static_cast<const std::byte*>(b)[i];
}

}  // namespace ddl::gloo
