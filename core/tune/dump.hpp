// Dump: what `-dump_iter N` prints about the last N blocking calls of a communicator, on this rank. Pure.
//
// The flows of a call overlap, so a dimension has no time of its own: each call's time is shared out in
// proportion to what its flows took for their steps of each dimension, and the parts add up to the whole.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/plan/choice.hpp"

namespace ddl {

class Dump {
 public:
  explicit Dump(const Grid& grid);

  /// A call by a plan of that choice.
  void add(Nanoseconds time, const PlanChoice& choice, std::span<const Nanoseconds> dimension_times);
  /// A call by the original library.
  void add_original(Nanoseconds time);
  std::uint64_t calls() const { return calls_; }
  /// By how much the longest call exceeds the shortest.
  Nanoseconds jitter() const { return calls_ ? longest_ - shortest_ : 0; }
  /// "100 calls took 812.5 us: 2 local direct 102.3 us, 4 hosts ring 710.2 us"
  std::string text() const;
  /// Forgets all calls.
  void clear();

 private:
  void count(Nanoseconds time);

  std::vector<std::string> dimension_;                  // "4 hosts"
  std::vector<std::array<double, kAlgorithms>> spent_;  // by dimension, nanoseconds
  Nanoseconds original_ = 0, time_ = 0, shortest_ = 0, longest_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace ddl
