#include "core/plan/host_map.hpp"

#include <algorithm>
#include <unordered_map>

namespace ddl {

HostMap::HostMap(std::span<const HostIndex> host_of_rank) {
  std::unordered_map<HostIndex, int> number;
  for (HostIndex host : host_of_rank) {
    int h = number.try_emplace(host, hosts()).first->second;
    if (h == hosts()) members_.emplace_back();
    members_[static_cast<std::size_t>(h)].push_back(ranks());
    host_of_.push_back(h);
  }
  for (const std::vector<Rank>& members : members_) {
    auto size = static_cast<Rank>(members.size());
    largest_ = std::max(largest_, size);
    if (size > 1 && (smallest_shared_ == 0 || size < smallest_shared_)) smallest_shared_ = size;
  }
}

std::vector<Rank> HostMap::mates(Rank rank) const {
  std::vector<Rank> others = members(host_of(rank));
  std::erase(others, rank);
  return others;
}

}  // namespace ddl
