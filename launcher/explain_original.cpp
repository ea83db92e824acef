#include "launcher/explain_original.hpp"

#include <algorithm>

#include "core/plan/planner.hpp"

namespace ddl {
namespace {

// Its default rules change from doubling to rings around here.
constexpr Bytes kLongestDoubled = 10'000;

// Within a host it sends messages through a shared-memory mailbox: two copies for each, and more for long
// ones than our staging (2 ranks, 64 KiB: 18 to 27 us, 1 MiB: 154 to 184 us, 16 MiB: 6.5 ms).
constexpr FabricCost kMailbox = {1e-6, 0.3e-6, 0.25e-9};

}  // namespace

OriginalEstimate estimate_original(const std::vector<HostIndex>& hosts, Bytes bytes,
                                   const PlanLimits& limits) {
  const int all[] = {static_cast<int>(hosts.size())};
  const Grid flat = Grid::from_dims(hosts, all);
  PlanChoice choice;
  const bool is_short = bytes <= kLongestDoubled;
  choice.algorithm = {is_short ? Algorithm::doubling : Algorithm::ring};
  choice.segment = std::max<Bytes>(bytes, kLeastSegment);
  Machine machine = limits.machine;
  machine.local = kMailbox;
  return {is_short ? "recursive doubling" : "a ring of all ranks",
          predict(flat, choice, size_class(bytes), machine).seconds};
}

}  // namespace ddl
