// The part of Selection that measures rails.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/log.hpp"
#include "core/base/partition.hpp"
#include "core/tune/selection.hpp"

namespace ddl {
namespace {

// Rails are measured while each carries at least this much, so that neither the time of a message nor what a
// shaped link lets pass at once counts (1 and 0.5 Gbit/s, 270 KiB on the latter: it seemed as fast as the
// other one).
constexpr double kMeasuresRail = 512 << 10, kMeasuresRailWell = 2 << 20;

double sum(const std::vector<std::uint32_t>& share) {
  return std::accumulate(share.begin(), share.end(), 0.0);
}

}  // namespace

// What the rail times of an operation of that size are about: bytes on all rails of the busiest host. 0: they
// do not tell how fast these are.
double Selection::timed_on_rails(const PreparedPlan& prepared, Bytes bytes) const {
  const Bytes window = prepared.plan.segment * static_cast<Bytes>(prepared.plan.window);
  const auto timed = static_cast<double>(std::min(bytes, window));
  if (!prepared.is_all_reduce())
    return prepared.task_choice.has_parts()
               ? 0
               : timed * crossings(HostMap(plans_.members().hosts), prepared.task_choice);
  const Grid& grid = plans_.members().grid;
  double hosts = 1;
  for (int d = 0; d < grid.dimensions(); ++d)
    if (grid.dimension(d).fabric == Fabric::wire) hosts *= grid.fanout(d);
  return 2 * (hosts - 1) / hosts * prepared.choice.wire.ratio() * timed;
}

// The plan by which such a call tells how fast each rail is: that one, or the same with longer segments.
// Null: there is none.
PreparedPlan* Selection::that_shows_rails(PreparedPlan& prepared) {
  const std::vector<std::uint32_t>& share = prepared.share();
  const std::uint32_t least = *std::min_element(share.begin(), share.end());
  if (share.size() != limits_.rails || least == 0) return nullptr;
  const double rails = sum(share) / least, timed = timed_on_rails(prepared, prepared.size_class);
  if (limits_.segment > 0 || timed == 0) return timed >= kMeasuresRail * rails ? &prepared : nullptr;
  auto lengthened = [&](auto choice, const auto& where) -> PreparedPlan* {
    const Bytes segment = choice.segment, most = prepared.size_class / static_cast<Bytes>(choice.window);
    const double times = std::max(1.0, kMeasuresRailWell * rails / timed);
    choice.segment = std::min(most, static_cast<Bytes>(static_cast<double>(segment) * times));
    while (choice.segment > segment && staging_need(where, choice) > limits_.staging) choice.segment /= 2;
    choice.segment = std::max(segment, choice.segment / kCacheLine * kCacheLine);
    const double longer = static_cast<double>(choice.segment) / static_cast<double>(segment);
    if (timed * longer < kMeasuresRail * rails) return nullptr;
    return longer > 1 ? &plans_.prepare(choice, prepared.size_class) : &prepared;
  };
  if (prepared.is_all_reduce()) return lengthened(prepared.choice, plans_.members().grid);
  return lengthened(prepared.task_choice, HostMap(plans_.members().hosts));
}

// Whether a call belongs to a look; then it is made by a plan that shows the rails. All of a look have the
// same shares, whatever their kinds.
bool Selection::looks_at_rails(Class& of_class, Route& route) {
  if (!watch_ || !route.plan) return false;
  if (!of_class.shows_rails) of_class.shows_rails = that_shows_rails(*route.plan) != nullptr;
  if (!*of_class.shows_rails || !watch_->looks()) return false;
  PreparedPlan* const plan = that_shows_rails(*route.plan);
  if (plan) route.plan = plan;
  return plan != nullptr;
}

// A rail is through when all ranks have heard what they hear over it: some hear only a part.
void Selection::look_at_rails(const CallShape& call, const PreparedPlan& prepared, const Observed& observed) {
  watch_->record(observed.rails, timed_on_rails(prepared, call.bytes));
  if (!watch_->must_agree()) return;
  agree_(watch_->times(), Op::max);
  agree_(watch_->leans(), Op::sum);
  const std::vector<std::uint32_t>& share = prepared.share();
  std::vector<double> part(share.size());
  for (std::size_t lane = 0; lane < share.size(); ++lane)
    part[prepared.rail().empty() ? lane : prepared.rail()[lane]] = share[lane] / sum(share);
  if (std::optional<RailRates> rates = watch_->agreed(part)) learn_rails(std::move(*rates));
}

// When rails finish their shares tells how to share better; that holds for all sizes, so that every class is
// prepared anew. The cache hears of it in every mode, also where no class is measured.
void Selection::learn_rails(RailRates rates) {
  limits_.machine.rail_rate = measured_rates_ = std::move(rates);
  memory_.learn({plans_.name(), kOfRailsAlone, false, {}, measured_rates_});
  if (settings_.options.dbg_level > 0 && plans_.members().me == 0)
    for (double rate : measured_rates_) log_info(fmt::format("a rail carries {:.1f} MB/s", rate * 1e-6));
  classes_.clear();
  last_ = nullptr;
  ++settlings_;
}

}  // namespace ddl
