#include "core/tune/tuner.hpp"

#include <algorithm>
#include <utility>

namespace ddl {
namespace {

// Calls of the subject before the first try: one, whose time is that of a first call; or so many that it is a
// habit.
constexpr std::uint64_t kOnce = 2, kHabit = 21;
// What the original is taken to need, in calls of ours: it is rarely better and may be dear.
constexpr Nanoseconds kOriginal = 3;
// So many other calls without the subject, and the last of them becomes it. Twice as many each time: a
// network has dozens of gradients of one size class, which take turns.
constexpr std::uint64_t kForgotten = 16, kMostPatience = 4096;

}  // namespace

Tuner::Tuner(TunerPlan plan) : plan_(plan), patience_(kForgotten) { next_phase(); }

void Tuner::next_phase() {
  if (!started_ && plan_.candidates > 1) {
    phase_ = Phase::candidates;
    std::vector<Try> ways;
    for (int way = 0; way < plan_.candidates; ++way) ways.push_back({Try::What::candidate, way});
    begin(ways);
  } else if (phase_ != Phase::original && plan_.original) {
    phase_ = Phase::original;
    // The best once more: what was measured in the first calls of a program was measured cold.
    begin({{Try::What::candidate, best_}, {Try::What::original, 0}});
  } else {
    phase_ = Phase::settled;
  }
  started_ = true;
  may_try_ = !plan_.is_thrifty;
}

// Every way once without counting, then as often as it counts.
void Tuner::begin(const std::vector<Try>& ways) {
  auto rounds = static_cast<std::size_t>(plan_.rounds);
  tries_.clear();
  for (const Try& way : ways) tries_.insert(tries_.end(), 1 + rounds, way);
  times_.assign(ways.size() * rounds, 0);
  done_ = 0;
}

void Tuner::follow(Fingerprint call) {
  if (calls_ > 0) patience_ = std::min(2 * patience_, kMostPatience);
  subject_ = call;
  calls_ = 0;
  done_ = 0;
  usual_ = 0;
  due_ = plan_.is_thrifty ? kHabit : kOnce;
  may_try_ = !plan_.is_thrifty;
}

Try Tuner::next(Fingerprint call) {
  trying_ = is_subject_ = false;
  if (settled()) return {};
  if (call != subject_) {
    if (calls_ > 0 && ++strangers_ < patience_) return {};
    follow(call);
  }
  is_subject_ = true;
  strangers_ = 0;
  if (++calls_ < due_) return {};
  asks_ = !may_try_;
  if (asks_) return {};
  trying_ = true;
  return tries_[done_];
}

Nanoseconds Tuner::cost(Nanoseconds usual) const {
  Nanoseconds calls = 0;
  for (const Try& one : tries_) calls += one.what == Try::What::original ? kOriginal : 1;
  return calls * usual;
}

void Tuner::answer(bool may_try) {
  asks_ = false;
  may_try_ = may_try;
  if (!may_try) due_ = 2 * calls_;
}

void Tuner::record(Nanoseconds time) {
  if (!trying_ && is_subject_) usual_ = usual_ > 0 ? std::min(usual_, time) : time;
  if (!std::exchange(trying_, false)) return;
  std::size_t per_way = static_cast<std::size_t>(plan_.rounds) + 1, way = done_ / per_way,
              round = done_ % per_way;
  if (round > 0) times_[way * static_cast<std::size_t>(plan_.rounds) + round - 1] = time;
  ++done_;
}

std::int64_t Tuner::median_of(int way) const {
  auto first = times_.begin() + way * plan_.rounds;
  std::vector<std::int64_t> rounds(first, first + plan_.rounds);
  std::nth_element(rounds.begin(), rounds.begin() + plan_.rounds / 2, rounds.end());
  return rounds[static_cast<std::size_t>(plan_.rounds / 2)];
}

void Tuner::agreed() {
  auto clearly_better = [this](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) < (1 - plan_.noise) * static_cast<double>(b);
  };
  if (phase_ == Phase::candidates) {
    best_time_ = median_of(0);
    for (int way = 1; way < plan_.candidates; ++way)
      if (clearly_better(median_of(way), median_of(0)) && median_of(way) < best_time_)
        best_ = way, best_time_ = median_of(way);
  } else {
    original_wins_ = clearly_better(median_of(1), median_of(0));
    best_time_ = median_of(original_wins_);
  }
  next_phase();
}

}  // namespace ddl
