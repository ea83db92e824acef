#include "core/plan/choice.hpp"

#include <algorithm>
#include <bit>

namespace ddl {
namespace {

// A ring block on the wire: large enough to hide the cost of a message, small enough to keep several in
// flight. Twice as much where enough segments remain (16 MiB, 4 hosts x 2, five alternating runs:
// unshaped 60.0 instead of 66.0 ms, with four times as much 70.0; at 1 Gbit/s 215.2 instead of 212.6 ms).
constexpr Bytes kWireBlock = 64 << 10;
constexpr Bytes kEnoughSegments = 16;
// A segment within a host. The blocks of a window should just not fit the second-level caches: what lies in
// the shared cache is read twice as fast as what a neighbour's core still holds (16 MiB of two ranks: 128 KiB
// 2.9 ms, 512 KiB 2.4 ms, 1 MiB 2.05 ms, 4 MiB 1.95 ms).
constexpr Bytes kLocalSegment = 1 << 20;
// Beyond this a funnel's one owner has more to do than it saves in messages.
constexpr Bytes kMostFunnel = 16 << 10;
// Smaller calls gain more when those under way together leave in one piece, to one owner, than they lose on
// its link (4 hosts x 2, 1 Gbit/s, the owners of all calls on one host or shifted, us each, 400 under way and
// one after the other: 256 B 10 / 16 and 67 / 71, 2 KiB 63 / 39 and 59 / 72, 4 KiB 105 / 54 and 105 / 69).
constexpr Bytes kLeastShifted = 4 << 10;
// Algorithms that overwrite what they send wait for the wire to have read it; beyond this that costs more
// than the steps they save.
constexpr Bytes kMostFinal = 128 << 10;
// Where nobody knows how fast the wire is, a smaller segment must be predicted to take less than this of the
// time of a larger one. It gains some per cent by overlap where the wire is as slow as assumed, and its
// messages cost more where it is not: 1 MiB, 4 hosts x 2, in segments of 512 KiB instead of 128 KiB takes 3.4
// % longer at 1 Gbit/s and 25 % less where the processors are the limit.
constexpr double kWorthCutting = 0.97;
// Segments under way; and where staging cuts them to less than half: grids of dozens of hosts, whose many
// steps wait for each other. More segments fill these gaps in the same memory (simulated, 102.4 MB on 64
// hosts x 4: 9.62 ms with 4, 8.49 ms with 8, the limit 8.06). With 4 hosts x 2 on real links neither gains,
// and where the processors are the limit the smaller messages lose (16 MiB, unshaped: 33.5 ms, 39.5 ms).
constexpr int kWindow = PlanChoice{}.window, kTightWindow = 2 * kWindow;
constexpr std::size_t kHandful = 8;

// Between two all ways are one.
Algorithm plainest(Algorithm algorithm, Rank fanout) {
  if (fanout != 2) return algorithm;
  if (algorithm == Algorithm::doubling) return Algorithm::exchange;
  return algorithm == Algorithm::ring || algorithm == Algorithm::halving ? Algorithm::direct : algorithm;
}

// All combinations that can be worth a thought. Local dimensions are done alike, and so are those on the wire
// but for the last one: they differ in how many take part, which the same algorithms suit.
class Proposals {
 public:
  Proposals(const Grid& grid, Bytes bytes, const PlanLimits& limits, const WireFormat& wire)
      : grid_(grid), bytes_(bytes), limits_(limits), format_(wire) {
    for (int d = 0; d < grid.dimensions(); ++d) {
      if (grid.fanout(d) == 1) continue;
      last_ = d;
      (grid.dimension(d).fabric == Fabric::wire ? wire_ : local_) = true;
    }
  }

  std::vector<Candidate> ranked() {
    for (Algorithm local : {Algorithm::direct, Algorithm::funnel, Algorithm::halving}) {
      if (!local_ && local != Algorithm::direct) continue;
      if (local == Algorithm::funnel && bytes_ > kMostFunnel) continue;
      for (Algorithm inner : {Algorithm::ring, Algorithm::halving, Algorithm::direct})
        for (int last = 0; last < kAlgorithms; ++last) propose(local, inner, static_cast<Algorithm>(last));
    }
    std::stable_sort(all_.begin(), all_.end(), [](const Candidate& a, const Candidate& b) {
      return a.predicted.seconds < b.predicted.seconds;
    });
    return distinct();
  }

 private:
  void propose(Algorithm local, Algorithm inner, Algorithm last) {
    PlanChoice choice = plain_choice(grid_, 1);
    choice.wire = format_;
    for (int d = 0; d < grid_.dimensions(); ++d) {
      Algorithm& algorithm = choice.algorithm[static_cast<std::size_t>(d)];
      bool wire = grid_.dimension(d).fabric == Fabric::wire;
      if (grid_.fanout(d) > 1)
        algorithm = plainest(d == last_ ? last : wire ? inner : local, grid_.fanout(d));
    }
    if ((last == Algorithm::funnel && !may_end_in_funnel()) || !is_new(choice)) return;
    if (wire_ && is_final(last) && bytes_ > kMostFinal) return;
    for (RailId rails : {RailId{1}, limits_.rails}) {
      choice.share = lanes_over(rails);
      choice.rail.clear();
      if (rails == 1) choice.rail = {fastest_rail(limits_)};
      propose_segments(choice);
      if (!wire_ || limits_.rails == 1 || bytes_ < kLeastLane * limits_.rails) break;
    }
  }

  // Within a host, and between two ranks, it is an exchange with a detour. Between hosts it takes the fewest
  // messages of all, which counts where these keep the processors busy (4 to 1024 bytes, 4 hosts x 2 on two
  // cores: 117 to 178 us, doubling 182 to 258, exchange 250 to 317).
  bool may_end_in_funnel() const {
    return last_ >= 0 && grid_.dimension(last_).fabric == Fabric::wire && grid_.fanout(last_) > 2 &&
           bytes_ <= kMostFunnel;
  }

  // With the largest segment, unless a smaller one is worth it.
  void propose_segments(PlanChoice choice) {
    std::size_t first = all_.size();
    double worth = limits_.machine.rail_rate.empty() ? kWorthCutting : 1;
    for (Bytes segment : segments(choice.share.size())) {
      propose(choice, segment);
      if (choice.window == kTightWindow) break;  // that is cut small already
      if (all_.size() < first + 2) continue;
      Candidate smaller = std::move(all_.back());
      all_.pop_back();
      if (smaller.predicted.seconds < worth * all_.back().predicted.seconds) all_.back() = std::move(smaller);
    }
  }

  // Grids of few dimensions make the same choice in several ways.
  bool is_new(const PlanChoice& choice) {
    if (std::find(done_.begin(), done_.end(), choice.algorithm) != done_.end()) return false;
    done_.push_back(choice.algorithm);
    return true;
  }

  void propose(PlanChoice& choice, Bytes segment) {
    choice.segment = segment;
    choice.window = kWindow;
    Bytes need = staging_need(grid_, choice);
    bool tight = wire_ && need > 2 * limits_.staging;
    if (need > limits_.staging && !(tight && cut_to_staging(choice, segment, kTightWindow)) &&
        !cut_to_staging(choice, segment, kWindow))
      return;
    all_.push_back({choice, predict(grid_, choice, bytes_, limits_.machine)});
  }

  // The largest part of that segment of which so many fit; false when it is not worth its messages.
  bool cut_to_staging(PlanChoice& choice, Bytes segment, int window) const {
    choice.window = window;
    choice.segment = 0;
    Bytes blocks = staging_need(grid_, choice);
    if (blocks >= limits_.staging) return false;
    choice.segment = segment;
    Bytes need = staging_need(grid_, choice);
    double fits = static_cast<double>(limits_.staging - blocks) / static_cast<double>(need - blocks);
    choice.segment = static_cast<Bytes>(std::min(1.0, fits) * static_cast<double>(segment)) / 64 * 64;
    return choice.segment >= std::min(kLeastSegment, segment);
  }

  std::vector<std::uint32_t> lanes_over(RailId rails) const {
    return rails == 1 ? std::vector<std::uint32_t>{1} : shares_of(rail_rates(limits_));
  }

  // The size that suits caches and messages; on the wire also smaller ones, so that the dimensions of a
  // middling buffer overlap. Never more than the buffer.
  std::vector<Bytes> segments(std::size_t lanes) const {
    Bytes whole = std::max(kLeastSegment, (bytes_ + 63) / 64 * 64);
    if (limits_.segment) return {std::clamp(limits_.segment / 64 * 64, kLeastSegment, whole)};
    if (grid_.ranks() == 1) return {whole};  // who is alone copies
    if (!wire_) return {std::min(kLocalSegment, whole)};
    Bytes base = static_cast<Bytes>(static_cast<double>(kWireBlock) / format_.ratio()) * lanes;
    for (int d = 0; d < grid_.dimensions(); ++d) base *= static_cast<Bytes>(grid_.fanout(d));
    if (bytes_ >= 2 * base * kEnoughSegments) base *= 2;
    std::vector<Bytes> sizes;
    for (Bytes cut : {1, 2, 4, 8}) {
      Bytes size = std::max(kLeastSegment, std::min(base, whole) / cut / 64 * 64);
      if (sizes.empty() || (sizes.back() != size && size >= kLeastCut)) sizes.push_back(size);
    }
    return sizes;
  }

  // The best of each combination, a handful.
  std::vector<Candidate> distinct() {
    std::vector<Candidate> few;
    for (Candidate& candidate : all_) {
      auto same = [&](const Candidate& other) {
        return other.choice.algorithm == candidate.choice.algorithm &&
               other.choice.share == candidate.choice.share;
      };
      if (few.size() < kHandful && std::none_of(few.begin(), few.end(), same))
        few.push_back(std::move(candidate));
    }
    if (few.empty()) few.push_back(fallback());
    return few;
  }

  // What always works, however little staging there is.
  Candidate fallback() const {
    PlanChoice choice = plain_choice(grid_, 1);
    choice.wire = format_;
    choice.segment = kLeastSegment;
    return {choice, predict(grid_, choice, bytes_, limits_.machine)};
  }

  const Grid& grid_;
  Bytes bytes_;
  const PlanLimits& limits_;
  const WireFormat format_;
  int last_ = -1;  // the last dimension that joins anything
  bool wire_ = false, local_ = false;
  std::vector<std::vector<Algorithm>> done_;
  std::vector<Candidate> all_;
};

}  // namespace

const char* algorithm_name(Algorithm algorithm) {
  static constexpr const char* kNames[kAlgorithms] = {"direct",   "ring",    "exchange",
                                                      "doubling", "halving", "funnel"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

int shifts(const Grid& grid, const PlanChoice& choice, Bytes bytes) {
  if (bytes < kLeastShifted) return 1;
  bool any_between_hosts = false;
  int all = 1;
  for (int d = 0; d < grid.dimensions(); ++d) {
    if (choice.algorithm[static_cast<std::size_t>(d)] != Algorithm::funnel) continue;
    any_between_hosts |= grid.dimension(d).fabric == Fabric::wire;
    all = std::min(all * grid.fanout(d), kMostShifts);
  }
  return any_between_hosts ? all : 1;
}

std::vector<double> rail_rates(const PlanLimits& limits) {
  std::vector<double> rates = limits.machine.rail_rate;
  rates.resize(limits.rails, 1 / limits.machine.wire.beta);
  return rates;
}

RailId fastest_rail(const PlanLimits& limits) {
  std::vector<double> rates = rail_rates(limits);
  return static_cast<RailId>(std::max_element(rates.begin(), rates.end()) - rates.begin());
}

Bytes size_class(Bytes bytes) { return std::max<Bytes>(64, std::bit_ceil(bytes)); }

PlanChoice plain_choice(const Grid& grid, LaneId lanes) {
  PlanChoice choice;
  for (int d = 0; d < grid.dimensions(); ++d)
    choice.algorithm.push_back(grid.dimension(d).fabric == Fabric::local ? Algorithm::direct
                                                                         : Algorithm::ring);
  choice.share.assign(lanes, 1);
  return choice;
}

std::vector<Candidate> candidates(const Grid& grid, Bytes bytes, const PlanLimits& limits,
                                  const WireFormat& wire) {
  return Proposals(grid, bytes, limits, wire).ranked();
}

PlanChoice choose(const Grid& grid, Bytes bytes, const PlanLimits& limits) {
  return candidates(grid, size_class(bytes), limits)[0].choice;
}

PlanChoice funnel_choice(const Grid& grid) {
  PlanChoice choice = plain_choice(grid, 1);
  std::fill(choice.algorithm.begin(), choice.algorithm.end(), Algorithm::funnel);
  choice.segment = kLeastSegment;
  return choice;
}

PlanChoice ring_choice(const Grid& grid, Bytes bytes, const PlanLimits& limits, const WireFormat& wire) {
  PlanChoice choice = candidates(grid, size_class(bytes), limits, wire)[0].choice;
  std::fill(choice.algorithm.begin(), choice.algorithm.end(), Algorithm::ring);
  choice.order.clear();
  if (Bytes need = staging_need(grid, choice); need > limits.staging)
    choice.segment = std::max(kLeastSegment, choice.segment * limits.staging / need / 2 / 64 * 64);
  return choice;
}

}  // namespace ddl
