#include "core/tune/rail_watch.hpp"

#include <algorithm>
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

}  // namespace

RailWatch::RailWatch(std::size_t rails, RailsAre known)
    : rails_(rails),
      times_(kRounds * rails),
      next_look_(known == RailsAre::unknown ? kFirstLook : kFirstLook * kRarer),
      known_(known) {}

bool RailWatch::looks() { return ++calls_ >= next_look_; }

void RailWatch::record(std::span<const Nanoseconds> rails, double bytes) {
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    const Nanoseconds took = rail < rails.size() ? rails[rail] : 0;
    times_[rounds_ * rails_ + rail] = static_cast<std::int64_t>(static_cast<double>(took) * kUnit / bytes);
  }
  ++rounds_;
}

// Rails finish together unless all rounds but one say that they do not, and their shortest times as well:
// whatever disturbs a rail makes it slower.
std::vector<std::int64_t> RailWatch::agreed() {
  std::vector<std::int64_t> shortest(rails_, std::numeric_limits<std::int64_t>::max());
  int alike = 0;
  auto are_alike = [&](auto first) {
    auto [fastest, slowest] = std::minmax_element(first, first + static_cast<std::ptrdiff_t>(rails_));
    return static_cast<double>(*slowest) < kUnequal * static_cast<double>(*fastest);
  };
  for (auto round = times_.begin(); round != times_.end(); round += static_cast<std::ptrdiff_t>(rails_)) {
    alike += are_alike(round);
    for (std::size_t rail = 0; rail < rails_; ++rail)
      shortest[rail] = std::min(shortest[rail], round[static_cast<std::ptrdiff_t>(rail)]);
  }
  rounds_ = 0;
  next_look_ = calls_ * kRarer;
  if (std::count(shortest.begin(), shortest.end(), 0) > 0) return {};
  bool was_known = std::exchange(known_, RailsAre::known) == RailsAre::known;
  if (alike <= 1 && !are_alike(shortest.begin())) return shortest;
  if (was_known) return {};
  return std::vector<std::int64_t>(rails_, *std::max_element(shortest.begin(), shortest.end()));
}

}  // namespace ddl
