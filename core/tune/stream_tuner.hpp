// StreamTuner: a Tuner for calls that are only put on a stream: what a try has taken is known later, and the
// program goes on meanwhile. Of two ways it finds the faster one for each size class of one communicator: as
// a whole, or by a plan. Pure: every rank makes the same calls in the same order, so every rank tries alike.
//
// Life of a class: tries → waits until the ranks have agreed on their times, all calls as a whole → settled
// from the agreed call on.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "core/tune/tuner.hpp"

namespace ddl {

class StreamTuner {
 public:
  static constexpr int kWays = 2, kRounds = 5;
  /// Of the tries that count: those as a whole, then those by a plan.
  using Times = std::array<std::int64_t, kWays * kRounds>;

  struct Way {
    bool by_plan = false;
    bool settled = false;
    // A try: its place among those of the class; what was behind that is void.
    std::optional<std::size_t> attempt = {};
  };
  /// How to make the next call, of a class of that many bytes (any name for it).
  Way next(Bytes size_class, Fingerprint call);
  /// All tries of that class are made: the ranks now find their times and agree.
  bool must_agree(Bytes size_class) const { return classes_.at(size_class).waits; }
  /// How many tries a class makes, and which time of Times the one at a place is; nothing for one that does
  /// not count.
  static constexpr std::size_t kTries = kWays * (1 + kRounds);
  static std::optional<std::size_t> time_of(std::size_t attempt);
  /// The agreed times, in force from call number `at` on (see calls()).
  void decide(Bytes size_class, const Times& times, std::uint64_t at);
  /// How many there were.
  std::uint64_t calls() const { return calls_; }

 private:
  struct Class {
    Tuner tuner{{kWays, kRounds, false}};
    bool waits = false;
    std::optional<Times> agreed = {};
    std::uint64_t at = 0;
  };
  std::map<Bytes, Class> classes_;
  std::uint64_t calls_ = 0;
};

}  // namespace ddl
