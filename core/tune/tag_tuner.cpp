#include "core/tune/tag_tuner.hpp"

#include <algorithm>

#include "core/tune/median.hpp"
#include "core/tune/trial_budget.hpp"

namespace ddl {
namespace {

// One in 16 at first and one in 64 later, whatever the stride of a program's tags; not 0, which is that of
// programs without tags.
constexpr TagTuner::Tag kAtFirst = 4096;
bool is_checkpoint(TagTuner::Tag tag) {
  const int bits = tag < kAtFirst ? 4 : 6;
  return (tag * 0x9e3779b1u) >> (32 - bits) == 1;
}

constexpr std::int64_t kWarm = 2;    // calls of ours that are measured before the original is tried,
constexpr std::int64_t kRounds = 5;  // and of each before they are compared
// A first try of the original is taken to need so many calls of ours, and a while: sockets that acknowledge
// late have taken 20 ms for any size.
constexpr Nanoseconds kTimesOurs = 10, kAtLeast = 25'000'000;
// What is that much slower need not be tried again: once, and at its best of some; nor what is that much
// faster.
constexpr Nanoseconds kHopeless = 5, kSlower = 2, kFaster = 2;
constexpr double kNoise = 0.05;
constexpr std::size_t kMostKept = 32;  // times, where trials have to wait for the job to grow

enum Place : std::uint8_t {
  engine_calls,
  original_calls,
  engine_time,
  original_time,
  original_best,
  spent_,
  elapsed_
};

}  // namespace

const TagTuner::Verdict* TagTuner::verdict_on(Tag tag) const {
  const Verdict* found = nullptr;
  for (const Verdict& one : verdicts_)
    if (one.behind < tag && (!found || one.checkpoint < found->checkpoint)) found = &one;
  return found;
}

TagTuner::Begin TagTuner::begin(Tag tag) {
  const bool waits =
      std::any_of(frozen_.begin(), frozen_.end(), [&](const Frozen& f) { return f.highest < tag; });
  if (waits) return {Begin::What::wait};
  highest_ = std::max(highest_, tag);
  if (const Verdict* verdict = verdict_on(tag)) return {Begin::What::plain, verdict->library, true};
  const bool meets = is_checkpoint(tag) && checkpoints_.insert(tag).second;
  return {meets ? Begin::What::checkpoint : Begin::What::plain};
}

TagTuner::Numbers TagTuner::numbers(Nanoseconds spent, Nanoseconds elapsed) const {
  const auto& [ours, theirs] = times_;
  // The least of all ranks counts.
  const auto calls = [](const auto& times) { return -static_cast<std::int64_t>(times.size()); };
  const Nanoseconds best = theirs.empty() ? 0 : *std::min_element(theirs.begin(), theirs.end());
  return {calls(ours), calls(theirs), median(ours), median(theirs), best, spent, elapsed};
}

TagTuner::Decision TagTuner::decide(const Numbers& of_all) {
  const std::int64_t ours = -of_all[engine_calls], theirs = -of_all[original_calls];
  const Nanoseconds our_time = of_all[engine_time], their_time = of_all[original_time];
  if (ours < kWarm) return {};
  const bool is_hopeless =
      theirs > 0 && of_all[original_best] > (theirs == 1 ? kHopeless : kSlower) * our_time;
  if (is_hopeless) return {Library::engine, true};
  if (theirs >= kWarm && kFaster * their_time < our_time) return {Library::original, true};
  if (ours >= kRounds && theirs >= kRounds) {
    const bool wins = static_cast<double>(their_time) < (1 - kNoise) * static_cast<double>(our_time);
    return {wins ? Library::original : Library::engine, true};
  }
  if (theirs >= kRounds || ours < std::min(theirs, kRounds)) return {};
  const Nanoseconds cost = theirs > 0 ? their_time : kTimesOurs * our_time + kAtLeast;
  if (!TrialBudget::allows(cost, of_all[spent_], of_all[elapsed_])) return {};
  return {Library::original, false, cost};
}

void TagTuner::record(Library library, Nanoseconds time) {
  auto& times = times_[static_cast<std::size_t>(library)];
  if (times.size() == kMostKept) times.erase(times.begin());
  times.push_back(time);
}

TagTuner::Tag TagTuner::freeze(Tag checkpoint) {
  frozen_.push_back({checkpoint, highest_});
  return highest_;
}

void TagTuner::settle(Tag checkpoint, Tag highest_of_all, Library library) {
  verdicts_.push_back({checkpoint, highest_of_all, library});
  unfreeze(checkpoint);
}

void TagTuner::unfreeze(Tag checkpoint) {
  std::erase_if(frozen_, [&](const Frozen& one) { return one.checkpoint == checkpoint; });
}

}  // namespace ddl
