// Tuner: finds out which of a few routes is the fastest for one size class of one communicator, by trying
// them on the program's own calls. Pure: every rank makes the same calls in the same order and agrees on the
// times, so every rank tries and decides alike; nothing else may enter.
//
// Calls that are compared must be alike. So one call, the subject, is followed; others of the class in
// between are left alone, until there were so many that the subject seems forgotten. The routes take turns,
// so that what makes all calls slow for a while, as it does when a program begins, does not decide between
// them. The first call after a change of routes does not count.
//
// What a trial takes: from the last arrival to the last departure. So the ranks meet before each trial, and
// the longest of their times counts. The shortest, which needs no meeting because the last to arrive waits
// for nobody, is no measure: it prefers routes that let one rank go early while the others still work, and
// who goes early waits in the next call.
//
// Meeting lets the network rest, and what buffers on the way take at once they do not take from calls that
// follow each other. So a thrifty tuner makes the program's own calls, unmet, by the winner, and by others
// where these calls take longer than trials of the same route; then by what they were made by before, and
// stays with that if none makes them shorter.
//
// A later look, when the program has long settled, compares in use alone: what calls take then depends on
// what is made between them, and on who runs ahead of whom, which tries do not show.
//
// Life: calls until one has proved a habit → our own routes → the original library → in use → settled. After
// each of the latter three the ranks agree on the times; before the tries a thrifty tuner asks whether it
// may. A later look: a rest → calls until one has proved a habit → if it may, in use → settled.
#pragma once

#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

struct TunerPlan {
  int candidates = 1;       // our own routes, the likely best first
  int rounds = 1;           // calls of each that count
  bool original = false;    // the original library is a candidate as well
  double noise = 0.05;      // what is not better by that share of the time is not better
  bool is_thrifty = false;  // the first calls are left alone, and trying needs a leave
  int fill = 16;            // in use: calls that fill what is on the way, and do not count
  std::uint64_t rest = 0;   // more than 0: a later look, after so many calls, in use alone
};

/// How one call is to be made. All but `best` are measured.
struct Trial {
  enum class What : std::uint8_t { best, candidate, original } what = What::best;
  int index = 0;
  bool meets = true;  // the ranks do before the call, if it is measured
};

class Tuner {
 public:
  explicit Tuner(TunerPlan plan);

  /// How to make the next blocking call of this class.
  Trial next(Fingerprint call);
  /// Whether next() would leave such a call alone, and only count it.
  bool leaves_alone(Fingerprint call) const;
  /// Before that call the ranks now agree whether to spend cost(), given what a call usually takes on the
  /// slowest rank and what it takes them to meet, and each says answer().
  bool asks() const { return asks_; }
  Nanoseconds cost(Nanoseconds usual, Nanoseconds meeting) const;
  /// What a call of the subject has taken here, at least.
  Nanoseconds usual() const { return usual_; }
  void answer(bool may_try);
  /// How many of the current tries are made.
  std::size_t done() const { return done_; }
  /// Whether the time of the last call counts, if it was left alone: that of those before the first trial.
  bool wants_time() const;
  /// How long the last call took here.
  void record(Nanoseconds time);
  /// All of a phase are measured: the ranks now reduce times() by maximum, then each calls agreed().
  bool must_agree() const { return !trials_.empty() && !settled() && done_ == trials_.size(); }
  std::span<std::int64_t> times() { return times_; }
  void agreed();

  bool settled() const { return phase_ == Phase::settled; }
  /// Among our own routes.
  int best() const { return best_; }
  bool original_wins() const { return original_wins_; }
  /// Of the winner, once agreed; 0 before.
  std::int64_t best_time() const { return best_time_; }

 private:
  enum class Phase : std::uint8_t { none, candidates, original, use, settled };
  void next_phase();
  void begin(const std::vector<Trial>& routes, std::size_t uncounted, std::size_t counted, std::size_t turns);
  std::vector<Trial> worth_using() const;
  std::vector<Trial> all_ways() const;
  void compare_ways();
  void compare_uses();
  void follow(Fingerprint call);
  bool is_clearly_better(std::int64_t a, std::int64_t b) const;
  std::int64_t median_of(std::size_t route) const;

  TunerPlan plan_;
  Phase phase_ = Phase::none;
  static constexpr std::size_t kUncounted = ~std::size_t{0};
  struct Planned {
    Trial trial;
    std::size_t time;  // where in times_ it is noted, or kUncounted
  };
  std::vector<Trial> routes_;        // of this phase
  std::vector<Planned> trials_;      // in order; none before the first is due
  std::size_t counted_ = 0;          // of each route
  std::vector<std::int64_t> times_;  // of those that count: [route][round]
  std::size_t done_ = 0;
  bool trying_ = false;  // the last call was trials_[done_]
  bool asks_ = false, may_try_ = false;
  Fingerprint subject_ = 0;
  bool is_subject_ = false;  // the last call was
  Nanoseconds usual_ = 0;
  // The last times before the first trial; agreed with those of the first phase.
  std::vector<std::int64_t> habit_;
  bool is_habit_agreed_ = false;
  std::vector<std::int64_t> tried_;  // medians of our own routes
  std::uint64_t rest_, calls_ = 0, due_ = 0, strangers_ = 0, patience_;
  int best_ = 0;
  std::int64_t best_time_ = 0;
  bool original_wins_ = false;
};

}  // namespace ddl
