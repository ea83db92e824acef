#include "core/plan/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "core/plan/choice.hpp"

namespace ddl {
namespace {

enum class Half { down, up };

// What a verb on one dimension means for one member, in units of its piece.
struct Work {
  const char* verb;
  double steps;     // one after the other
  double messages;  // sent by the busiest member
  double all;       // messages of all members
  double sent;  // bytes that pass the busiest member's link; through memory a message to many is written once
  double added;  // bytes folded
  double kept;   // of the piece, after the way down
};

// Adding step by step reads and writes the sum so far each time; adding all at once does so once.
constexpr double kStepwise = 1.5;

// Seconds for a byte of memory that ranks of a host hand each other narrower, by type: on the way it stays in
// the caches. From 2 ranks, 16 MiB: exact 1.75 ms, bfloat16 1.71, float16 1.77, int8 2.78.
constexpr double kConversion[kWireTypes] = {0, 0.03e-9, 0.04e-9, 0.13e-9};

enum class Copies { one, each };  // of a message to many: written once for all of them, or sent to each

Work way_down(Algorithm algorithm, Rank fanout, Copies copies) {
  double p = fanout, most = (p - 1) / p;
  double active = std::bit_floor(static_cast<std::uint32_t>(fanout));
  double rounds = std::countr_zero(static_cast<std::uint32_t>(active)), fold = active < p ? 1 : 0;
  double stepwise = fanout > 2 ? kStepwise : 1;
  double to_all = copies == Copies::each ? p - 1 : 1;
  switch (algorithm) {
    case Algorithm::direct:
      return {"reduce-scatter", 1, p - 1, p * (p - 1), most, most, 1 / p};
    case Algorithm::ring:
      return {"reduce-scatter", p - 1, p - 1, p * (p - 1), most, most * stepwise, 1 / p};
    case Algorithm::halving:
      most = (active - 1) / active + fold;
      return {"reduce-scatter", rounds + fold, rounds + fold, active * rounds + p - active, most,
              most * stepwise,  1 / active};
    case Algorithm::exchange:
      return {"all-reduce", 1, p - 1, p * (p - 1), to_all, p - 1, 0};
    case Algorithm::doubling:
      return {"all-reduce",
              rounds + 2 * fold,
              rounds + 2 * fold,
              active * rounds + 2 * (p - active),
              rounds + 2 * fold,
              (rounds + fold) * stepwise,
              0};
    case Algorithm::funnel:
      return {"reduce", 1, 1, p - 1, to_all, p - 1, 1};  // the owner's link carries what all send
  }
  return {};
}

// Nothing is added on the way up; but for the funnel it is the way down backwards.
Work way_up(Algorithm algorithm, Rank fanout, Copies copies) {
  Work work = way_down(algorithm, fanout, copies);
  work.added = 0;
  work.verb = algorithm == Algorithm::funnel ? "broadcast" : "all-gather";
  if (algorithm == Algorithm::funnel) work.messages = fanout - 1;
  return work;
}

// Time by what it keeps busy, for one segment. Turns are taken while rails carry.
struct Busy {
  double latency = 0, core = 0, turns = 0;
  std::map<RailId, double> rail;
  double slowest_rail() const {
    double most = 0;
    for (const auto& [id, seconds] : rail) most = std::max(most, seconds);
    return most;
  }
};

class Model {
 public:
  Model(const Grid& grid, const PlanChoice& choice, Bytes bytes, const Machine& machine)
      : grid_(grid), choice_(choice), machine_(machine) {
    for (int d = 0; d < grid.dimensions(); ++d)
      (grid.dimension(d).fabric == Fabric::local ? ranks_per_host_ : hosts_) *= grid.fanout(d);
    segment_ = static_cast<double>(std::min(bytes, choice.segment ? choice.segment : bytes));
    segments_ = segment_ > 0 ? static_cast<double>(bytes) / segment_ : 1;
    crowd_ = machine.cores > 0 ? std::max(1.0, ranks_per_host_ / machine.cores) : 1;
    memory_ = machine.memory_ranks > 0 ? std::max(1.0, ranks_per_host_ / machine.memory_ranks) : 1;
  }

  Prediction run() {
    double weights = std::accumulate(choice_.share.begin(), choice_.share.end(), 0.0);
    for (std::size_t lane = 0; lane < choice_.share.size(); ++lane)
      if (choice_.share[lane] > 0) add_lane(lane, choice_.share[lane] / weights);
    return total();
  }

 private:
  void add_lane(std::size_t lane, double share) {
    rail_ = choice_.rail.empty() ? static_cast<RailId>(lane) : choice_.rail[lane];
    std::vector<int> order(static_cast<std::size_t>(grid_.dimensions()));
    std::iota(order.begin(), order.end(), 0);
    if (!choice_.order.empty()) order = choice_.order[lane];
    std::erase_if(order, [&](int d) { return grid_.fanout(d) == 1; });
    State state{segment_ * share, ranks_per_host_};
    std::vector<State> before;
    std::size_t stage = 0;
    for (int d : order) {
      before.push_back(state);
      Work work = way_down(algorithm(d), grid_.fanout(d), copies(d));
      add(stage++, d, work, state);
      if (algorithm(d) == Algorithm::funnel && grid_.dimension(d).fabric == Fabric::local)
        state.active /= grid_.fanout(d);
      state.piece *= work.kept;
    }
    for (std::size_t i = order.size(); i-- > 0;)
      if (!is_final(algorithm(order[i])))
        add(stage++, order[i], way_up(algorithm(order[i]), grid_.fanout(order[i]), copies(order[i])),
            before[i]);
  }

  struct State {
    double piece;   // bytes that a member brings to the dimension
    double active;  // ranks of a host that do
  };

  Copies copies(int d) const {
    bool written_once = grid_.dimension(d).fabric == Fabric::local && machine_.inside == Inside::memory;
    return written_once ? Copies::one : Copies::each;
  }
  Algorithm algorithm(int d) const { return choice_.algorithm[static_cast<std::size_t>(d)]; }

  void add(std::size_t stage, int d, const Work& work, const State& state) {
    if (stage >= stages_.size()) {
      stages_.push_back({work.verb, d, algorithm(d), 0, 0, 0});
      busy_.emplace_back();
    }
    double sent = state.piece * work.sent, added = state.piece * work.added * machine_.gamma;
    if (narrows(choice_.wire, grid_.dimension(d).fabric)) {  // at one end, and widened at the other
      const bool here = grid_.dimension(d).fabric == Fabric::local;
      added += sent * (here ? kConversion[static_cast<int>(choice_.wire.as)] : machine_.gamma);
      sent *= choice_.wire.ratio();
    }
    stages_[stage].messages += work.messages * segments_;
    stages_[stage].bytes += static_cast<Bytes>(sent * segments_);
    Busy& busy = busy_[stage];
    if (grid_.dimension(d).fabric == Fabric::local) {
      busy.latency = std::max(busy.latency, work.steps * machine_.local.alpha);
      busy.turns += turns(hosts_ * work.messages / 2);
      busy.core += crowd_ * work.messages * machine_.local.overhead +
                   std::max(crowd_, memory_) * (sent * machine_.local.beta + added);
      return;
    }
    // A turn is also what a message's way through the kernel takes.
    if (!takes_turns()) busy.latency = std::max(busy.latency, work.steps * machine_.wire.alpha);
    busy.turns += turns(hosts_ / grid_.fanout(d) * work.all * (1 + (state.active - 1) * machine_.beside));
    // The ranks of a host work side by side, but their messages leave one after the other.
    const double overhead = takes_turns() ? 0 : machine_.wire.overhead;
    busy.core += crowd_ * (work.messages * overhead + sent * machine_.wire_copy + added);
    // Between processes of one kernel calls follow each other so closely that both directions of a link are
    // busy at once: of a funnel's owner the one that it sends in counts.
    if (takes_turns() && algorithm(d) == Algorithm::funnel && work.added > 0) return;
    busy.rail[rail_] +=
        (state.active - 1) * work.messages * machine_.rail_overhead + state.active * sent * loss(d) / rate();
  }

  bool takes_turns() const { return machine_.shared_cores > 0; }
  double turns(double number) const {
    return takes_turns() ? number * machine_.turn / machine_.shared_cores : 0;
  }

  double loss(int d) const {
    if (grid_.fanout(d) == 2) return 1;
    switch (algorithm(d)) {
      case Algorithm::ring:
        return 1;
      case Algorithm::halving:
      case Algorithm::doubling:
        return machine_.turnover;
      default:
        return machine_.incast;
    }
  }

  double rate() const {
    return rail_ < machine_.rail_rate.size() && machine_.rail_rate[rail_] > 0 ? machine_.rail_rate[rail_]
                                                                              : 1 / machine_.wire.beta;
  }

  Prediction total() {
    Prediction prediction;
    Busy all;
    double carrying = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Busy& busy = busy_[i];
      stages_[i].seconds = busy.latency + segments_ * (busy.core + std::max(busy.turns, busy.slowest_rail()));
      all.latency += busy.latency;
      all.core += busy.core;
      all.turns += busy.turns;
      carrying += busy.slowest_rail();
      for (const auto& [rail, seconds] : busy.rail) all.rail[rail] += seconds;
    }
    const double one = all.latency + all.core + std::max(all.turns, carrying);
    double period = std::max({all.slowest_rail(), all.core, one / choice_.window});
    prediction.seconds = one + (segments_ - 1) * period;
    prediction.segments = std::ceil(segments_);
    prediction.stages = std::move(stages_);
    return prediction;
  }

  const Grid& grid_;
  const PlanChoice& choice_;
  const Machine& machine_;
  double ranks_per_host_ = 1, hosts_ = 1, segment_ = 0, segments_ = 1, crowd_ = 1, memory_ = 1;
  RailId rail_ = 0;
  std::vector<StageCost> stages_;
  std::vector<Busy> busy_;
};

}  // namespace

Prediction predict(const Grid& grid, const PlanChoice& choice, Bytes bytes, const Machine& machine) {
  return Model(grid, choice, bytes, machine).run();
}

Machine machine_over(const std::vector<double>& gbit) {
  constexpr double kPayload = 0.956, kBytesPerGbit = 1e9 / 8;  // the rest is headers of Ethernet, IP and TCP
  Machine machine;
  if (gbit.empty() || *std::min_element(gbit.begin(), gbit.end()) <= 0) return machine;
  for (double rate : gbit) machine.rail_rate.push_back(rate * kBytesPerGbit * kPayload);
  machine.wire.beta = 1 / *std::min_element(machine.rail_rate.begin(), machine.rail_rate.end());
  return machine;
}

std::vector<std::uint32_t> shares_of(const std::vector<double>& rates) {
  constexpr int kLeast = 16, kMost = 32;
  double sum = 0, best_error = 2;
  for (double rate : rates) sum += std::max(0.0, rate);
  std::vector<std::uint32_t> best(rates.size(), 1);
  if (sum <= 0) return best;
  for (int parts = kLeast; parts <= kMost; ++parts) {
    std::vector<std::uint32_t> shares;
    double error = 0;  // how much longer than together the slowest lane takes
    for (double rate : rates) {
      double wanted = std::max(0.0, rate) / sum * parts;
      shares.push_back(static_cast<std::uint32_t>(std::lround(wanted)));
      if (wanted > 0) error = std::max(error, shares.back() / wanted - 1);
    }
    if (std::accumulate(shares.begin(), shares.end(), 0u) == static_cast<std::uint32_t>(parts) &&
        error + 1e-9 < best_error)
      best_error = error, best = shares;
  }
  std::uint32_t common = 0;
  for (std::uint32_t share : best) common = std::gcd(common, share);
  for (std::uint32_t& share : best) share /= common;
  return best;
}

}  // namespace ddl
