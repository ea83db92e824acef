#include "interpose/gloo/early_calls.hpp"

#include <algorithm>
#include <iterator>

namespace ddl::gloo {

bool EarlyCalls::add(std::uint64_t key) {
  const auto free = std::find(mine_.begin(), mine_.end(), 0u);
  if (has_told_ || free == mine_.end()) return false;
  *free = key + 1;
  return true;
}

const EarlyCalls::List& EarlyCalls::tell() {
  has_told_ = true;
  return mine_;
}

// A key may be there several times: as often as the rank has made it that has most.
void EarlyCalls::hear(std::span<const List> of_all) {
  auto sorted = [](const List& list) {
    std::vector<std::uint64_t> keys(list.begin(), std::find(list.begin(), list.end(), 0u));
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  std::vector<std::uint64_t> all;
  for (const List& one : of_all) {
    const std::vector<std::uint64_t> keys = sorted(one);
    std::vector<std::uint64_t> both;
    std::set_union(all.begin(), all.end(), keys.begin(), keys.end(), std::back_inserter(both));
    all = std::move(both);
  }
  const std::vector<std::uint64_t> mine = sorted(mine_);
  std::set_difference(all.begin(), all.end(), mine.begin(), mine.end(), std::back_inserter(to_take_));
}

bool EarlyCalls::take(std::uint64_t key) {
  const auto found = std::find(to_take_.begin(), to_take_.end(), key + 1);
  if (found == to_take_.end()) return false;
  to_take_.erase(found);
  return true;
}

}  // namespace ddl::gloo
