#include "core/tune/rail_watch.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace ddl {
namespace {

// The first call opens connections. Looks become rarer by this factor.
constexpr std::uint64_t kFirstLook = 2, kRarer = 4;
// To share unevenly by mistake costs more than to share evenly what differs a little. Nor are rails that are
// known to differ shared ever more exactly: with a lower bound for them shares wander by a fifth (two hosts,
// 1 and 0.5 Gbit/s), since a short first window is mostly what all rails wait for.
constexpr double kUnequal = 1.3;

constexpr double kLeanUnit = 1e-6;
constexpr int kSuspicions = 3;  // looks in a row

bool are_alike(std::span<const std::int64_t> times) {
  auto [fastest, slowest] = std::minmax_element(times.begin(), times.end());
  return static_cast<double>(*slowest) < kUnequal * static_cast<double>(*fastest);
}

}  // namespace

RailWatch::RailWatch(std::size_t rails, RailRates known)
    : rails_(rails),
      times_(kRounds * rails),
      leans_(kRounds * (rails + 1)),
      next_look_(known.empty() ? kFirstLook : kFirstLook * kRarer),
      rates_(std::move(known)) {}

bool RailWatch::looks() { return ++calls_ >= next_look_; }

void RailWatch::record(std::span<const Nanoseconds> rails, double bytes) {
  const auto times = std::span(times_).subspan(rounds_ * rails_, rails_);
  const auto leans = std::span(leans_).subspan(rounds_ * (rails_ + 1), rails_ + 1);
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    const Nanoseconds took = rail < rails.size() ? rails[rail] : 0;
    times[rail] = static_cast<std::int64_t>(static_cast<double>(took) * kUnit / bytes);
  }
  ++rounds_;
  std::fill(leans.begin(), leans.end(), 0);
  if (std::count(times.begin(), times.end(), 0) > 0) return;
  double all = 0;
  for (const std::int64_t time : times) all += std::log(static_cast<double>(time));
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    const double lean = std::log(static_cast<double>(times[rail])) - all / static_cast<double>(rails_);
    leans[rail] = std::llround(lean / kLeanUnit);
  }
  leans.back() = 1;
}

// To all ranks on the whole. Where nobody hears over all rails that is not known.
bool RailWatch::are_alike_to_all(std::size_t round) const {
  const auto leans = std::span(leans_).subspan(round * (rails_ + 1), rails_ + 1);
  const auto [least, most] = std::minmax_element(leans.begin(), leans.end() - 1);
  const auto ranks = static_cast<double>(leans.back());
  return ranks > 0 && static_cast<double>(*most - *least) * kLeanUnit < std::log(kUnequal) * ranks;
}

// Rails finish together unless all rounds but one say that they do not, and their shortest times as well:
// whatever disturbs a rail makes it slower. What only the last ranks see must last.
bool RailWatch::differ(std::span<const std::int64_t> shortest) {
  int alike_to_last = 0, alike_to_all = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const bool finish_together = are_alike(times_in(round));
    alike_to_last += finish_together;
    alike_to_all += finish_together || are_alike_to_all(round);
  }
  const bool differ_to_last = alike_to_last <= 1 && !are_alike(shortest);
  const std::size_t slowest = std::max_element(shortest.begin(), shortest.end()) - shortest.begin();
  if (!differ_to_last || std::exchange(suspect_, slowest) != slowest) suspected_ = 0;
  if (!differ_to_last) return false;
  if (alike_to_all > 1 && ++suspected_ < kSuspicions) return false;
  suspected_ = 0;
  return true;
}

// A rail seems the faster the less it had to carry (what a shaped link lets pass at once), and the one that
// all wait for seems slow: where they carried unequal shares, between what was known and what is seen now
// lies the truth, unless that is quite another (2 + 1 + 3 ranks, 1 and 0.5 Gbit/s, all-gathers: 2.6, then 1.3
// times as fast).
std::optional<RailRates> RailWatch::agreed(std::span<const double> share) {
  constexpr std::int64_t kAnother = 3;
  std::vector<std::int64_t> shortest(rails_, std::numeric_limits<std::int64_t>::max());
  for (std::size_t round = 0; round < kRounds; ++round)
    for (std::size_t rail = 0; rail < rails_; ++rail)
      shortest[rail] = std::min(shortest[rail], times_in(round)[rail]);
  rounds_ = 0;
  next_look_ = calls_ * kRarer;
  const auto [fastest, slowest] = std::minmax_element(shortest.begin(), shortest.end());
  if (*fastest == 0) return {};
  const bool known = !rates_.empty(), differ = this->differ(shortest);
  if (known && !differ) return {};
  const bool carried_alike =
      std::adjacent_find(rates_.begin(), rates_.end(), std::not_equal_to<>()) == rates_.end();
  const bool corrects = !carried_alike && *slowest < kAnother * *fastest;
  rates_.resize(rails_);
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    const std::int64_t time = differ ? shortest[rail] : *slowest;
    const double rate = kUnit * share[rail] / (1e-9 * static_cast<double>(time));
    rates_[rail] = corrects ? std::sqrt(rate * rates_[rail]) : rate;
  }
  return rates_;
}

}  // namespace ddl
