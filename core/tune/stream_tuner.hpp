// StreamTuner: a Tuner for calls that are only put on a stream: what a try has taken is known later, and the
// program goes on meanwhile. Of a few routes it finds the fastest one for each size class of one
// communicator. Pure: every rank makes the same calls in the same order, so every rank tries alike.
//
// Life of a class: tries → waits until the ranks have agreed on their times, all calls going the first route
// → settled from the agreed call on.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/tune/tuner.hpp"

namespace ddl {

class StreamTuner {
 public:
  static constexpr std::size_t kRounds = 5;
  /// Of the tries that count, route after route.
  using Times = std::vector<std::int64_t>;

  explicit StreamTuner(std::size_t routes) : ways_(routes) {}

  struct Choice {
    std::size_t index = 0;
    bool settled = false;
    // A try: its place among those of the class; what was behind that is void.
    std::optional<std::size_t> attempt = {};
  };
  /// How to make the next call, of a class of that many bytes (any name for it).
  Choice next(Bytes size_class, Fingerprint call);
  /// All tries of that class are made: the ranks now find their times and agree.
  bool must_agree(Bytes size_class) const { return classes_.at(size_class).waits; }
  /// How many tries a class makes, and how many of them count.
  std::size_t trials() const { return ways_ * (1 + kRounds); }
  std::size_t times() const { return ways_ * kRounds; }
  /// Which time of Times the try at a place is; nothing for one that does not count.
  static std::optional<std::size_t> time_of(std::size_t attempt);
  /// The agreed times, in force from call number `at` on (see calls()).
  void decide(Bytes size_class, const Times& times, std::uint64_t at);
  /// How many there were.
  std::uint64_t calls() const { return calls_; }

 private:
  struct Class {
    Tuner tuner;
    bool waits = false;
    std::optional<Times> agreed = {};
    std::uint64_t at = 0;
  };
  std::size_t ways_;
  std::map<Bytes, Class> classes_;
  std::uint64_t calls_ = 0;
};

}  // namespace ddl
