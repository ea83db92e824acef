#include "core/trace/activity.hpp"

#include <algorithm>

namespace ddl {

std::string CallName::text() const {
  std::string text;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const auto letter = static_cast<unsigned char>(words[i / 8] >> (i % 8 * 8));
    if (letter == 0) break;
    text += letter > ' ' && letter < 127 ? static_cast<char>(letter) : '?';
  }
  return text;
}

namespace {

std::uint64_t turn_of(std::uint64_t epoch, std::uint64_t number) {
  return number ^ epoch * 0x9e3779b97f4a7c15ull;
}

}  // namespace

void CallRecord::begin(const CallName& name, CommId comm, std::uint64_t number) {
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) | 1;
  epoch_.store(epoch, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  comm_.store(comm, std::memory_order_relaxed);
  if (name_at_.load(std::memory_order_relaxed) != &name) {
    name_at_.store(&name, std::memory_order_relaxed);
    for (std::size_t i = 0; i < CallName::kWords; ++i)
      name_[i].store(name.words[i], std::memory_order_relaxed);
  }
  number_.store(4 * number + 2, std::memory_order_relaxed);
  epoch_.store(epoch + 1, std::memory_order_release);
}

std::uint64_t CallRecord::turn() const {
  const std::uint64_t number = number_.load(std::memory_order_acquire);
  return turn_of(epoch_.load(std::memory_order_acquire), number);
}

CallStatus CallRecord::read(std::uint64_t& turn) const {
  constexpr int kTries = 1000;
  CallStatus status;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
    const std::uint64_t number = number_.load(std::memory_order_relaxed);
    status.comm = comm_.load(std::memory_order_relaxed);
    for (std::size_t word = 0; word < CallName::kWords; ++word)
      status.name.words[word] = name_[word].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (epoch % 2 == 1 || epoch_.load(std::memory_order_relaxed) != epoch) continue;
    turn = turn_of(epoch, number);
    status.number = number / 4;
    status.in_original = number % 4 == 3;
    if (epoch > 0) status.state = number % 4 == 0 ? CallStatus::State::ended : CallStatus::State::inside;
    return status;
  }
  return {};  // its thread has lost its core, or was stopped, in the middle of writing
}

void stamp(Activity& activity, Nanoseconds now) {
  for (std::size_t i = 0; i < Activity::kThreads; ++i) {
    Activity::Stamp& stamp = activity.stamps[i];
    const std::uint64_t turn = activity.records[i].turn();
    if (stamp.turn.load(std::memory_order_relaxed) == turn) continue;
    stamp.since.store(now, std::memory_order_relaxed);
    stamp.turn.store(turn, std::memory_order_release);
  }
}

std::vector<CallStatus> statuses_of(const Activity& activity, Nanoseconds now) {
  std::vector<CallStatus> statuses;
  for (std::size_t i = 0; i < Activity::kThreads; ++i) {
    std::uint64_t turn = 0;
    CallStatus status = activity.records[i].read(turn);
    if (status.state == CallStatus::State::none) continue;
    const Activity::Stamp& stamp = activity.stamps[i];
    if (stamp.turn.load(std::memory_order_acquire) == turn)
      status.age = std::max<Nanoseconds>(now - stamp.since.load(std::memory_order_relaxed), 0);
    statuses.push_back(status);
  }
  return statuses;
}

CallStatus status_for(const std::vector<CallStatus>& statuses, CommId comm, std::uint64_t number) {
  auto tells_more = [&](const CallStatus& one, const CallStatus& other) {
    auto rank = [&](const CallStatus& status) {
      const bool is_inside = status.state == CallStatus::State::inside, is_there = status.comm == comm;
      return 4 * is_inside + 2 * is_there + (is_there && status.number == number);
    };
    return rank(one) != rank(other) ? rank(one) > rank(other) : one.age < other.age;
  };
  return statuses.empty() ? CallStatus() : *std::min_element(statuses.begin(), statuses.end(), tells_more);
}

std::uint64_t SaidOfStall::word(CommId comm, std::uint64_t number, Nanoseconds waited) {
  const std::uint64_t call = (comm ^ number * 0x9e3779b97f4a7c15ull) | 0x10000;  // never 0
  const auto units = static_cast<std::uint64_t>(std::clamp<Nanoseconds>(waited / kUnit, 0, 0xffff));
  return (call & ~std::uint64_t{0xffff}) | units;
}

bool SaidOfStall::covers(std::uint64_t word, CommId comm, std::uint64_t number, Nanoseconds waited) {
  return word >> 16 == SaidOfStall::word(comm, number, waited) >> 16 &&
         (word & 0xffff) >= (SaidOfStall::word(comm, number, waited) & 0xffff);
}

}  // namespace ddl
