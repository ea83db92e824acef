#include "core/session/key_counts.hpp"

namespace ddl {

KeyCounts::Page& KeyCounts::page(std::uint64_t number) {
  if (!pages_.empty() && pages_.front().number == number) return pages_.front();
  if (const auto found = by_number_.find(number); found != by_number_.end()) {
    pages_.splice(pages_.begin(), pages_, found->second);
    return pages_.front();
  }
  if (pages_.size() == kMostPages) {
    by_number_.erase(pages_.back().number);
    pages_.pop_back();
  }
  pages_.push_front({number, {}, nullptr});
  by_number_[number] = pages_.begin();
  return pages_.front();
}

std::uint32_t KeyCounts::count(std::uint64_t key) {
  Page& its = page(key / kKeysPerPage);
  const std::size_t place = key % kKeysPerPage;
  if (!its.times) {
    if (!its.seen[place]) return its.seen[place] = true, 0;
    its.times = std::make_unique<std::array<std::uint32_t, kKeysPerPage>>();
    for (std::size_t i = 0; i < kKeysPerPage; ++i) (*its.times)[i] = its.seen[i];
  }
  return (*its.times)[place]++;
}

}  // namespace ddl
