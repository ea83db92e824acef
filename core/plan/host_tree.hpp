// HostTree: a k-nomial tree over the hosts of a communicator, for what is small and passes many hosts.
//
// Hosts are counted from the root's on. In base k a host's parent has one digit less: the lowest that is not
// 0. So the root has k-1 children in each of log_k(hosts) rounds, those of the first round with the largest
// subtrees; with k of all hosts it is flat. A subtree is a range of such numbers.
//
// A value of three numbers; thread safe.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class HostTree {
 public:
  /// k >= 2.
  HostTree(int hosts, int root, int k) : hosts_(hosts), root_(root), k_(k) {}

  /// -1: the root has none.
  int parent(int host) const {
    int v = number_of(host);
    return v == 0 ? -1 : host_of(v - v / step_of(v) % k_ * step_of(v));
  }
  /// Those with the largest subtrees first: in this order they are sent to.
  std::vector<int> children(int host) const {
    std::vector<int> found;
    const int v = number_of(host);
    std::int64_t step = 1;
    const std::int64_t end = v == 0 ? hosts_ : step_of(v);
    while (step * k_ < end) step *= k_;
    for (; step >= 1 && step < end; step /= k_)
      for (std::int64_t child = v + step; child < hosts_ && child < v + step * k_; child += step)
        found.push_back(host_of(static_cast<int>(child)));
    return found;
  }
  /// Hosts are numbered from the root's on.
  int number_of(int host) const { return (host - root_ + hosts_) % hosts_; }
  /// How many hosts, from this one's number on, are below it, itself among them.
  int subtree(int host) const {
    const int v = number_of(host);
    return v == 0 ? hosts_ : std::min(step_of(v), hosts_ - v);
  }
  /// Until the last host has heard.
  int rounds() const {
    int n = 0;
    for (std::int64_t reached = 1; reached < hosts_; reached *= k_) ++n;
    return n;
  }

 private:
  int host_of(int number) const { return (number + root_) % hosts_; }
  // The power of k that the lowest digit of v that is not 0 stands for.
  int step_of(int v) const {
    int step = 1;
    while (v / step % k_ == 0) step *= k_;
    return step;
  }

  int hosts_, root_, k_;
};

}  // namespace ddl
