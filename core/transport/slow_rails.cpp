#include "core/transport/slow_rails.hpp"

#include <algorithm>
#include <utility>

namespace ddl {
namespace {

// A stream that needs longer than that for what waits, while another one has nothing to do, is too slow; and
// how often in a row it is found so.
constexpr double kTooSlow_s = 2;
constexpr int kTooSlow = 3;
constexpr Bytes kWork = 64 << 10;  // less than that are messages that travel on one rail alone
constexpr unsigned kLeastSamples = 10;
constexpr double kBehind = 0.65;  // of the samples: the other is three times as fast

Bytes moved(const Carried& first, const Carried& last) {
  return last.acknowledged - std::min(first.acknowledged, last.acknowledged);
}

}  // namespace

// Acknowledgements are delayed (Socket::delay_acknowledgements) for two segments or 40 ms: at the end of what
// a rail had to carry for a call some of it stays unacknowledged while another still works.
Carried Carried::by_stream(Bytes acknowledged, Bytes backlog, Nanoseconds waited_for_reader) {
  return {acknowledged, backlog, waited_for_reader, backlog < kWork ? backlog : 0};
}

// Who waits for its reader is not slow.
std::optional<double> StreamPace::inspect(const Sample& sample, Nanoseconds passed) {
  const Sample before = std::exchange(before_, sample);
  const Bytes carried = moved(before, sample);
  const double rate = static_cast<double>(carried) * 1e9 / static_cast<double>(passed);
  const bool is_read = sample.waited_for_reader - before.waited_for_reader < passed / 4;
  const bool is_slow =
      sample.is_other_free && is_read && static_cast<double>(sample.backlog) > rate * kTooSlow_s;
  slow_ = is_slow ? slow_ + 1 : 0;
  if (slow_ < kTooSlow) return std::nullopt;
  return rate;
}

void SlowRails::sample(std::span<const Load> rails) {
  if (first_.size() != rails.size()) {
    first_.assign(rails.begin(), rails.end());
    behind_.assign(rails.size(), 0);
    working_.assign(rails.size(), 0);
    best_.resize(rails.size(), 0);
  }
  last_.assign(rails.begin(), rails.end());
  const auto works = [](const Load& rail) { return rail.is_usable && rail.backlog - rail.untold >= kWork; };
  const auto is_free = [](const Load& rail) { return rail.is_usable && rail.is_through(); };
  is_uneven_ |= std::any_of(rails.begin(), rails.end(), [](const Load& rail) { return !rail.is_whole; });
  ++samples_;
  if (std::none_of(rails.begin(), rails.end(), works)) return;
  ++loaded_;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) working_[rail] += works(rails[rail]);
  if (std::none_of(rails.begin(), rails.end(), is_free)) return;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) behind_[rail] += works(rails[rail]);
}

// The other rail must have carried about as much: what one rail carries alone makes it no slower. Who waits
// for its reader is not slow.
std::vector<SlowRails::Slow> SlowRails::conclude(Nanoseconds time) {
  std::vector<Slow> slow;
  const bool is_telling = !is_uneven_ && loaded_ >= kLeastSamples;
  for (std::size_t rail = 0; rail < last_.size() && is_telling; ++rail) {
    const Bytes carried = moved(first_[rail], last_[rail]);
    bool has_equal = false;
    for (std::size_t other = 0; other < last_.size(); ++other)
      has_equal |=
          other != rail && last_[other].is_usable && moved(first_[other], last_[other]) >= carried / 2;
    const bool is_behind = static_cast<double>(behind_[rail]) >= kBehind * loaded_;
    const Nanoseconds waited = last_[rail].waited_for_reader - first_[rail].waited_for_reader;
    if (working_[rail] < kLeastSamples / 2 || !last_[rail].is_usable) continue;
    const double worked_s = static_cast<double>(time) * 1e-9 * working_[rail] / samples_;
    const double rate = static_cast<double>(carried) / worked_s;
    if (is_behind && has_equal && waited < time / 4 && rate < best_[rail] / 2)
      slow.push_back({rail, carried});
    best_[rail] = std::max(best_[rail], rate);
  }
  first_.clear();
  last_.clear();
  samples_ = loaded_ = 0;
  is_uneven_ = false;
  return slow;
}

}  // namespace ddl
