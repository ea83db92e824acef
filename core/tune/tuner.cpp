#include "core/tune/tuner.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "core/tune/median.hpp"

namespace ddl {
namespace {

// Calls of the subject before the first try: one, whose time is that of a first call; or so many that it is a
// habit.
constexpr std::uint64_t kOnce = 2, kHabit = 21;
// Calls in use that count.
constexpr std::size_t kUses = 9;
// So often the routes take turns, at most: each call more that does not count is a call of the program's.
constexpr std::size_t kTurns = 3;
// What the original is taken to need, in calls of ours: it is rarely better and may be dear.
constexpr Nanoseconds kOriginal = 3;
// So many other calls without the subject, and the last of them becomes it. Twice as many each time: a
// network has dozens of gradients of one size class, which take turns.
constexpr std::uint64_t kForgotten = 16, kMostPatience = 4096;

}  // namespace

Tuner::Tuner(TunerPlan plan) : plan_(plan), rest_(plan.rest), patience_(kForgotten) {
  if (plan.candidates == 1 && !plan.original) phase_ = Phase::settled;
}

void Tuner::next_phase() {
  const auto rounds = static_cast<std::size_t>(plan_.rounds);
  may_try_ = !plan_.is_thrifty;
  if (plan_.rest > 0) {
    phase_ = phase_ == Phase::none ? Phase::use : Phase::settled;
    if (phase_ == Phase::use) begin(all_ways(), static_cast<std::size_t>(plan_.fill), kUses, 1);
  } else if (phase_ < Phase::candidates && plan_.candidates > 1) {
    phase_ = Phase::candidates;
    std::vector<Trial> routes;
    for (int route = 0; route < plan_.candidates; ++route) routes.push_back({Trial::What::candidate, route});
    begin(routes, 1, rounds, kTurns);
  } else if (phase_ < Phase::original && plan_.original) {
    phase_ = Phase::original;
    // The best once more: what was measured in the first calls of a program was measured cold.
    begin({{Trial::What::candidate, best_}, {Trial::What::original, 0}}, 1, rounds, kTurns);
  } else if (std::vector<Trial> uses = worth_using(); phase_ < Phase::use && !uses.empty()) {
    phase_ = Phase::use;
    begin(uses, static_cast<std::size_t>(plan_.fill), kUses, 1);
    may_try_ = true;
  } else {
    phase_ = Phase::settled;
  }
}

// In each turn every route some times without counting, then as often as it counts: a few times at least.
void Tuner::begin(const std::vector<Trial>& routes, std::size_t uncounted, std::size_t counted,
                  std::size_t turns) {
  constexpr std::size_t kLeastOfTurn = 3;
  turns = std::clamp<std::size_t>(counted / kLeastOfTurn, 1, turns);
  trials_.clear();
  for (std::size_t turn = 0; turn < turns; ++turn)
    for (std::size_t route = 0; route < routes.size(); ++route) {
      trials_.insert(trials_.end(), uncounted, {routes[route], kUncounted});
      for (std::size_t round = counted * turn / turns; round < counted * (turn + 1) / turns; ++round)
        trials_.push_back({routes[route], route * counted + round});
    }
  routes_ = routes;
  counted_ = counted;
  times_.assign(routes.size() * counted, 0);
  done_ = 0;
}

// What has won; and, where the program's calls take longer than tries, what did not do much worse in these.
std::vector<Trial> Tuner::worth_using() const {
  if (habit_.empty()) return {};
  std::vector<Trial> uses;
  if (original_wins_) uses.push_back({Trial::What::original, 0, false});
  for (std::size_t route = 1; route < tried_.size(); ++route) {
    bool may_win = is_clearly_better(tried_[route], median(habit_)) &&
                   !is_clearly_better((1 + plan_.noise) * tried_[0], tried_[route]);
    if (static_cast<int>(route) == best_ || may_win)
      uses.push_back({Trial::What::candidate, static_cast<int>(route), false});
  }
  // And what the calls were made by before, once more: the first of a program are slow, whatever makes them.
  if (!uses.empty()) uses.push_back({Trial::What::candidate, 0, false});
  return uses;
}

// The first one at last, as what the others have to be better than.
std::vector<Trial> Tuner::all_ways() const {
  std::vector<Trial> ways;
  for (int way = 1; way <= plan_.candidates; ++way)
    ways.push_back({Trial::What::candidate, way % plan_.candidates, false});
  return ways;
}

void Tuner::follow(Fingerprint call) {
  if (phase_ == Phase::use && (plan_.rest == 0 || done_ > 0)) {  // the program makes other calls now
    phase_ = Phase::settled;
    return;
  }
  if (calls_ > 0) patience_ = std::min(2 * patience_, kMostPatience);
  subject_ = call;
  calls_ = 0;
  done_ = 0;
  usual_ = 0;
  habit_.clear();
  due_ = plan_.is_thrifty ? kHabit : kOnce;
  may_try_ = !plan_.is_thrifty;
}

Trial Tuner::next(Fingerprint call) {
  trying_ = is_subject_ = false;
  if (settled()) return {};
  if (rest_ > 0) return --rest_, Trial{};
  if (call != subject_) {
    if (calls_ > 0 && ++strangers_ < patience_) return {};
    follow(call);
    if (settled()) return {};
  }
  is_subject_ = true;
  strangers_ = 0;
  if (++calls_ < due_) return {};
  if (phase_ == Phase::none) next_phase();
  asks_ = !may_try_;
  if (asks_) return {};
  trying_ = true;
  return trials_[done_].trial;
}

bool Tuner::leaves_alone(Fingerprint call) const {
  if (settled() || rest_ > 0) return true;
  return call == subject_ ? calls_ + 1 < due_ : calls_ > 0 && strangers_ + 1 < patience_;
}

// With the meeting that agrees on the times.
Nanoseconds Tuner::cost(Nanoseconds usual, Nanoseconds meeting) const {
  Nanoseconds calls = 0, meetings = 1;
  for (const Planned& one : trials_) {
    calls += one.trial.what == Trial::What::original ? kOriginal : 1;
    meetings += one.trial.meets;
  }
  return calls * usual + meetings * meeting;
}

void Tuner::answer(bool may_try) {
  asks_ = false;
  may_try_ = may_try;
  if (!may_try) due_ = 2 * calls_;
}

bool Tuner::wants_time() const { return is_subject_ && calls_ + kUses >= due_; }

void Tuner::record(Nanoseconds time) {
  if (!trying_ && is_subject_) {
    usual_ = usual_ > 0 ? std::min(usual_, time) : time;
    if (plan_.is_thrifty && !is_habit_agreed_) habit_.push_back(time);
    if (habit_.size() > kUses) habit_.erase(habit_.begin());
  }
  if (!std::exchange(trying_, false)) return;
  if (trials_[done_].time != kUncounted) times_[trials_[done_].time] = time;
  if (++done_ == trials_.size() && !is_habit_agreed_)
    times_.insert(times_.end(), habit_.begin(), habit_.end());
}

bool Tuner::is_clearly_better(std::int64_t a, std::int64_t b) const {
  return static_cast<double>(a) < (1 - plan_.noise) * static_cast<double>(b);
}

std::int64_t Tuner::median_of(std::size_t route) const {
  return median(std::span(times_).subspan(route * counted_, counted_));
}

void Tuner::agreed() {
  if (!std::exchange(is_habit_agreed_, true))
    habit_.assign(times_.end() - static_cast<std::ptrdiff_t>(habit_.size()), times_.end());
  switch (phase_) {
    case Phase::candidates:
      compare_ways();
      break;
    case Phase::original:
      original_wins_ = is_clearly_better(median_of(1), median_of(0));
      best_time_ = median_of(original_wins_ ? 1 : 0);
      break;
    default:
      compare_uses();
      break;
  }
  next_phase();
}

void Tuner::compare_ways() {
  for (std::size_t route = 0; route < static_cast<std::size_t>(plan_.candidates); ++route) {
    tried_.push_back(median_of(route));
    if (route == 0 || (is_clearly_better(tried_[route], tried_[0]) && tried_[route] < best_time_))
      best_ = static_cast<int>(route), best_time_ = tried_[route];
  }
}

// Who has won in tries has to make no call longer, the others have to do clearly better.
void Tuner::compare_uses() {
  const int won = best_;
  const bool original_won = original_wins_;
  best_ = 0;
  original_wins_ = false;
  const std::size_t last = routes_.size() - 1;
  best_time_ = std::min(median(habit_), median_of(last));
  for (std::size_t use = 0; use < last; ++use) {
    const Trial& route = routes_[use];
    const bool is_original = route.what == Trial::What::original;
    const bool has_won = is_original || (!original_won && route.index == won);
    if (has_won ? median_of(use) > best_time_ : !is_clearly_better(median_of(use), best_time_)) continue;
    original_wins_ = is_original;
    best_ = is_original ? 0 : route.index;
    best_time_ = median_of(use);
  }
}

}  // namespace ddl
