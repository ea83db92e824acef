#include "interpose/nccl/companion_tuner.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/base/log.hpp"
#include "core/base/signals.hpp"
#include "core/plan/choice.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

constexpr std::uint64_t kNowhere = std::numeric_limits<std::uint64_t>::max();
// So many calls may be made while the ranks agree from which on the decision holds.
constexpr std::uint64_t kAhead = 32;
constexpr auto kLookEvery = std::chrono::milliseconds(1);

// Equal for equal calls, in time if not in content.
Fingerprint fingerprint_of(const Call& call) {
  const std::uint64_t x =
      (call.count * 1024 + static_cast<std::uint64_t>(call.type) * 32 + static_cast<std::uint64_t>(call.op)) *
      0x9e3779b97f4a7c15ull;
  return static_cast<Fingerprint>(x ^ (x >> 32));
}

}  // namespace

void LeaveMeeting::operator()(ddl_setup* meeting) const { engine()->leave(meeting); }

CompanionTuner::CompanionTuner() : held_at_(kNowhere) {
  SignalsBlocked blocked;
  worker_ = std::thread([this] { work_off(); });
}

CompanionTuner::~CompanionTuner() {
  end();
  worker_.join();
}

void CompanionTuner::sit(MeetingSeat seat, int ranks, std::size_t ways) {
  std::lock_guard lock(mutex_);
  seat_ = std::move(seat);
  ranks_ = static_cast<std::size_t>(ranks);
  tuner_ = StreamTuner(ways);
}

void CompanionTuner::end() {
  std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

// ---- the program's side ----

CompanionTuner::Way CompanionTuner::next(const Call& call, Bytes bytes) {
  const Bytes of_class = size_class(bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || tuner_.calls() < held_at_; });
  const StreamTuner::Way way = tuner_.next(of_class, fingerprint_of(call));
  if (!way.attempt) return {way.index, way.settled};
  Tries& tries = tries_[of_class];
  tries.resize(*way.attempt);
  tries.push_back(std::make_shared<Clocked>());
  std::shared_ptr<Clocked> clock = tries.back();
  if (tuner_.must_agree(of_class)) {
    jobs_.push_back({of_class, std::move(tries)});
    tries_.erase(of_class);
    changed_.notify_all();
  }
  return {way.index, false, std::move(clock)};
}

// ---- the worker's side ----

void CompanionTuner::work_off() {
  for (bool goes_on = true; goes_on;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    goes_on = agree_on(job);
  }
  seat_.reset();  // nothing is agreed on any more
}

// False when the ranks do not agree any more. The program is held between the two rounds at most.
bool CompanionTuner::agree_on(const Job& job) {
  if (!await(job.tries)) return false;
  Times times(tuner_.times()), number(1);
  for (std::size_t i = 0; i < job.tries.size(); ++i)
    if (std::optional<std::size_t> at = StreamTuner::time_of(i))
      times[*at] = job.tries[i]->ended - job.tries[i]->began;
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
bool CompanionTuner::await(const Tries& tries) {
  return std::all_of(tries.begin(), tries.end(), [this](const auto& one) {
    while (one->ended == 0 && !closing_) std::this_thread::sleep_for(kLookEvery);
    return !closing_;
  });
}

bool CompanionTuner::maximum_of_all(Times& mine) {
  ddl_problem problem;
  const std::size_t size = mine.size() * sizeof(mine[0]);
  Times all(mine.size() * ranks_);
  int32_t heard = 0;
  ddl_stream_result result = engine()->start_all_gather(seat_.get(), mine.data(), size, &problem);
  while (result == DDL_STREAM_OK) {
    result = engine()->test_all_gather(seat_.get(), 0, all.data(), size, &heard, &problem);
    if (heard) break;
    if (closing_) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  if (result != DDL_STREAM_OK) {
    if (!closing_ && environment().verbose > 0)
      log_info(std::string("ways are measured no more: ") + problem.text);
    return false;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    mine[i % mine.size()] = std::max(mine[i % mine.size()], all[i]);
  return true;
}

}  // namespace ddl::nccl
