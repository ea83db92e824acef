#include "core/hierarchy/route_tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/signals.hpp"
#include "core/plan/choice.hpp"

namespace ddl {
namespace {

constexpr std::uint64_t kNowhere = std::numeric_limits<std::uint64_t>::max();
// So many calls may be made while the ranks agree from which on the decision holds.
constexpr std::uint64_t kAhead = 32;
constexpr auto kAskEvery = std::chrono::milliseconds(1);

// Equal for equal calls, in time if not in content.
Fingerprint fingerprint_of(const HierarchyCall& call) {
  const std::uint64_t x =
      (call.count * 1024 + static_cast<std::uint64_t>(call.type) * 32 + static_cast<std::uint64_t>(call.op)) *
      0x9e3779b97f4a7c15ull;
  return static_cast<Fingerprint>(x ^ (x >> 32));
}

}  // namespace

RouteTuner::RouteTuner() : held_at_(kNowhere) {
  SignalsBlocked blocked;
  worker_ = std::thread([this] { work_off(); });
}

RouteTuner::~RouteTuner() {
  end();
  worker_.join();
}

void RouteTuner::begin(std::unique_ptr<Exchange> rounds, std::size_t routes, bool verbose) {
  std::lock_guard lock(mutex_);
  rounds_ = std::move(rounds);
  verbose_ = verbose;
  tuner_ = StreamTuner(routes);
}

void RouteTuner::end() {
  std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

// ---- the program's side ----

RouteTuner::Choice RouteTuner::next(const HierarchyCall& call) {
  const Bytes of_class = size_class(call.count * call.element_bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || tuner_.calls() < held_at_; });
  const StreamTuner::Choice route = tuner_.next(of_class, fingerprint_of(call));
  if (!route.attempt) return {route.index, route.settled};
  Trials& trials = trials_[of_class];
  trials.resize(*route.attempt);
  trials.push_back(std::make_shared<Clocked>());
  std::shared_ptr<Clocked> clock = trials.back();
  if (tuner_.must_agree(of_class)) {
    jobs_.push_back({of_class, std::move(trials)});
    trials_.erase(of_class);
    changed_.notify_all();
  }
  return {route.index, false, std::move(clock)};
}

// ---- the worker's side ----

void RouteTuner::work_off() {
  for (bool goes_on = true; goes_on;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    goes_on = agree_on(job);
  }
  rounds_.reset();  // nothing is agreed on any more
}

// False when the ranks do not agree any more. The program is held between the two rounds at most.
bool RouteTuner::agree_on(const Job& job) {
  if (!await(job.trials)) return false;
  Times times(tuner_.times()), number(1);
  for (std::size_t i = 0; i < job.trials.size(); ++i)
    if (std::optional<std::size_t> at = StreamTuner::time_of(i))
      times[*at] = job.trials[i]->ended - job.trials[i]->began;
  if (!maximum_of_all(times)) return false;
  std::unique_lock lock(mutex_);
  held_at_ = tuner_.calls() + kAhead;
  number[0] = static_cast<std::int64_t>(held_at_ + 1);
  lock.unlock();
  const bool agreed = maximum_of_all(number);
  lock.lock();
  held_at_ = kNowhere;
  if (agreed) tuner_.decide(job.size_class, times, static_cast<std::uint64_t>(number[0]));
  changed_.notify_all();
  return agreed;
}

// Until all are over. The streams may be behind hours of other work.
bool RouteTuner::await(const Trials& trials) {
  return std::all_of(trials.begin(), trials.end(), [this](const auto& one) {
    while (one->ended == 0 && !closing_) std::this_thread::sleep_for(kAskEvery);
    return !closing_;
  });
}

bool RouteTuner::maximum_of_all(Times& mine) {
  try {
    rounds_->start(std::as_bytes(std::span(mine)));
    std::optional<Exchange::Answers> all;
    while (!(all = rounds_->test())) {
      if (closing_) return false;
      std::this_thread::sleep_for(kAskEvery);
    }
    for (const auto& of_rank : *all) {
      if (!of_rank || of_rank->size() != std::as_bytes(std::span(mine)).size())
        throw Error("a rank says something else than the others");
      Times theirs(mine.size());
      std::memcpy(theirs.data(), of_rank->data(), of_rank->size());
      std::transform(mine.begin(), mine.end(), theirs.begin(), mine.begin(),
                     [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
    return true;
  } catch (const std::exception& error) {
    if (!closing_ && verbose_) log_info(std::string("routes are measured no more: ") + error.what());
    return false;
  }
}

}  // namespace ddl
