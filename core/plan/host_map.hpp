// HostMap: which ranks of a communicator share a host, listed both ways.
//
// A value; reading it is safe from any thread.
#pragma once

#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class HostMap {
 public:
  /// Any host numbers; they are counted anew in order of first appearance.
  explicit HostMap(std::span<const HostIndex> host_of_rank);

  Rank ranks() const { return static_cast<Rank>(host_of_.size()); }
  int hosts() const { return static_cast<int>(members_.size()); }
  int host_of(Rank rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  /// In the order of their ranks.
  const std::vector<Rank>& members(int host) const { return members_[static_cast<std::size_t>(host)]; }
  /// The others on this rank's host.
  std::vector<Rank> mates(Rank rank) const;
  /// Who works for its host where the work is dealt out by numbers.
  Rank agent(int host, Rank number) const {
    const std::vector<Rank>& all = members(host);
    return all[static_cast<std::size_t>(number) % all.size()];
  }
  Rank largest() const { return largest_; }
  /// The smallest host that has more than one rank; 0 where there is none.
  Rank smallest_shared() const { return smallest_shared_; }

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<Rank>> members_;
  Rank largest_ = 0, smallest_shared_ = 0;
};

}  // namespace ddl
