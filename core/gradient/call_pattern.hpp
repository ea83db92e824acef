// CallPattern: which gradient of a training step a call carries, found out from the shapes of the calls: a
// step makes the same calls as the one before. All ranks make the same calls, so all find out the same.
//
// Calls have numbers, of which some may belong to calls that nobody speaks of here. The shortest period wins
// that has held for kPeriods periods and kLeastCalls calls: in a step of ten layers of one size and one of
// another, ten equal calls are no period yet. A call that does not fit ends the pattern, and the next one has
// to hold for twice as many calls.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

namespace ddl {

class CallPattern {
 public:
  static constexpr std::size_t kPeriods = 3, kLeastCalls = 32, kMostCalls = 2048;
  /// Steps of more calls than that have no pattern.
  static constexpr std::size_t kMostPlaces = 2048;

  /// Hears of a call, and answers which one of a step it is; nothing while no pattern is known. The numbers
  /// grow, but for calls that are under way together.
  std::optional<std::uint64_t> hear(std::uint64_t number, std::uint64_t shape);
  /// How often a pattern has ended. What is kept by place belongs to one of them.
  std::uint32_t broken() const { return broken_; }
  /// By how much the numbers grow in a step; 0: not known.
  std::uint64_t period() const { return period_; }

 private:
  struct Heard {
    std::uint64_t number, shape;
  };
  bool was_heard(std::uint64_t number, std::uint64_t shape) const;
  void look_for_period(const Heard& call);
  void remember(const Heard& call);

  std::deque<Heard> heard_;  // the last ones, by number
  // By period: calls in a row that were the one a period before.
  std::unordered_map<std::uint64_t, std::size_t> matched_;
  std::uint64_t period_ = 0;
  std::size_t least_calls_ = kLeastCalls;
  std::uint32_t broken_ = 0;
};

}  // namespace ddl
