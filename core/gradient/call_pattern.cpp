#include "core/gradient/call_pattern.hpp"

#include <algorithm>

namespace ddl {

std::optional<std::uint64_t> CallPattern::hear(std::uint64_t number, std::uint64_t shape) {
  const bool was_known = period_ > 0;
  if (was_known && !was_heard(number - period_, shape)) {
    period_ = 0;
    heard_.clear();
    matched_.clear();
    least_calls_ = std::min(2 * least_calls_, kMostCalls);
    ++broken_;
  }
  const Heard call{number, shape};
  if (period_ == 0) look_for_period(call);
  remember(call);
  if (!was_known || period_ == 0) return std::nullopt;
  return number % period_;
}

bool CallPattern::was_heard(std::uint64_t number, std::uint64_t shape) const {
  auto is_before = [](const Heard& one, std::uint64_t other) { return one.number < other; };
  const auto found = std::lower_bound(heard_.begin(), heard_.end(), number, is_before);
  return found != heard_.end() && found->number == number && found->shape == shape;
}

void CallPattern::look_for_period(const Heard& call) {
  std::size_t calls = 0;    // of a step of that period
  std::size_t shorter = 0;  // the most that matched of a shorter one
  for (auto before = heard_.rbegin(); before != heard_.rend() && period_ == 0; ++before) {
    if (before->number >= call.number) continue;
    ++calls;
    const std::uint64_t period = call.number - before->number;
    std::size_t& matched = matched_[period];
    matched = before->shape == call.shape ? matched + 1 : 0;
    // Several steps of a shorter period, which began later because there was a gap before, are none.
    if (matched + calls >= std::max(kPeriods * calls, least_calls_) && shorter < calls) period_ = period;
    shorter = std::max(shorter, matched);
  }
}

void CallPattern::remember(const Heard& call) {
  auto at = heard_.end();
  while (at != heard_.begin() && std::prev(at)->number > call.number) --at;
  heard_.insert(at, call);
  if (heard_.size() > kMostPlaces) heard_.pop_front();
}

}  // namespace ddl
