// Plans whose elements travel narrower, run on symbols: an element is known by the additions and roundings
// that made it, so that ranks which hold the same symbol hold the same bits, whatever the type that travels.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.hpp"
#include "tests/core/plan/plans.hpp"

namespace ddl {
namespace {

using test::hosts_of;
using test::plans_of;
using test::round_robin;

constexpr Algorithm kAllAlgorithms[] = {Algorithm::direct,   Algorithm::ring,    Algorithm::exchange,
                                        Algorithm::doubling, Algorithm::halving, Algorithm::funnel};
constexpr Elements kLines = 97;  // the symbols are of whole cache lines, where slices begin and end

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct Symbol {
  std::uint64_t made = 0;
  bool is_rounded = false;  // rounding it again changes nothing
  int roundings = 0;        // of the share in it that was rounded most often
};
using Symbols = std::vector<Symbol>;

Symbol rounded(Symbol one) {
  return one.is_rounded ? one : Symbol{mixed(one.made + 1), true, one.roundings + 1};
}
Symbol sum(Symbol a, Symbol b) {  // commutes, as that of floats does; is not associative, as that is not
  return {mixed(a.made + b.made), false, std::max(a.roundings, b.roundings)};
}

class Symbolic {
 public:
  Symbolic(const std::vector<Plan>& plans, const WireFormat& wire) : plans_(plans), wire_(wire) {
    tables_.resize(plans.size());
    for (std::size_t r = 0; r < plans.size(); ++r) {
      tables_[r].compute(plans[r], kLines, 64);
      memory_[0].emplace_back(kLines, Symbol{mixed(r + 100)});
      memory_[1].emplace_back(kLines);
      done_.emplace_back(plans[r].flows.size());
    }
  }

  /// By rank, what it ends with.
  std::vector<Symbols> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < plans_.size(); ++r)
        for (std::size_t f = 0; f < plans_[r].flows.size(); ++f)
          for (const Flow& flow = plans_[r].flows[f];
               done_[r][f] < flow.count && step(r, plans_[r].steps[flow.first + done_[r][f]]); moved = true)
            ++done_[r][f];
    }
    return memory_[1];
  }

 private:
  Symbol* at(std::size_t rank, Source source, const Step& step) {
    return memory_[source == Source::input ? 0 : 1][rank].data() + tables_[rank][step.slice].first;
  }

  bool step(std::size_t me, const Step& step) {
    const Elements count = tables_[me][step.slice].count;
    std::span<const Rank> peers(plans_[me].peers.data() + step.peer, step.peers);
    if (step.verb == Verb::send) {
      Symbols payload(at(me, step.own, step), at(me, step.own, step) + count);
      if (narrows(wire_, step.fabric))
        std::transform(payload.begin(), payload.end(), payload.begin(), rounded);
      for (Rank peer : peers) messages_[{step.tag, static_cast<Rank>(me), peer}] = payload;
      return true;
    }
    auto key = [&](Rank peer) { return std::tuple{step.tag, peer, static_cast<Rank>(me)}; };
    for (Rank peer : peers)
      if (!messages_.count(key(peer))) return false;
    std::vector<Symbols> sources;
    for (Rank peer : peers) sources.push_back(messages_.extract(key(peer)).mapped());
    if (step.verb == Verb::reduce || peers.empty())
      sources.insert(sources.begin() + step.own_rank,
                     Symbols(at(me, step.own, step), at(me, step.own, step) + count));
    for (Elements i = 0; i < count; ++i) {
      Symbol result = sources[0][i];
      for (std::size_t s = 1; s < sources.size(); ++s) result = sum(result, sources[s][i]);
      at(me, step.into, step)[i] = step.rounds ? rounded(result) : result;
    }
    return true;
  }

  const std::vector<Plan>& plans_;
  const WireFormat wire_;
  std::vector<SliceTable> tables_;
  std::vector<Symbols> memory_[2];  // inputs and outputs, by rank
  std::vector<std::vector<std::uint32_t>> done_;
  std::map<std::tuple<Tag, Rank, Rank>, Symbols> messages_;
};

// "" where all ranks end with the same bits, which can travel; then also how often a share was rounded at
// most.
std::string problem_of(const std::vector<Plan>& plans, const WireFormat& wire, int* roundings = nullptr) {
  const std::vector<Symbols> results = Symbolic(plans, wire).run();
  for (std::size_t r = 0; r < results.size(); ++r)
    for (Elements i = 0; i < kLines; ++i) {
      const Symbol &mine = results[r][i], &first = results[0][i];
      if (mine.made != first.made) return fmt::format("rank {} has other bits in line {}", r, i);
      if (!mine.is_rounded) return fmt::format("rank {} has in line {} what cannot travel", r, i);
      if (roundings) *roundings = std::max(*roundings, mine.roundings);
    }
  return {};
}

bool suits(const Grid& grid, const PlanChoice& choice) {
  try {
    return check_choice(grid, choice), true;
  } catch (const Error&) {
    return false;
  }
}

PlanChoice narrow_choice(const Grid& grid, Algorithm first, Algorithm rest, WireWhere where) {
  PlanChoice choice = test::choice_for(grid, first, rest, {1, 1});
  choice.wire = {DType::float32, WireType::bfloat16, where};
  return choice;
}

// What docs/gradients.md promises.
int most_roundings(const std::vector<HostIndex>& hosts, WireWhere where) {
  std::map<HostIndex, int> ranks_of;
  for (HostIndex host : hosts) ++ranks_of[host];
  int most = 0;
  for (const auto& [host, ranks] : ranks_of) most = std::max(most, ranks);
  return static_cast<int>(ranks_of.size()) + (where == WireWhere::everywhere ? most - 1 : 0);
}

void check_all(const Grid& grid, const std::vector<HostIndex>& hosts, WireWhere where) {
  for (Algorithm first : kAllAlgorithms)
    for (Algorithm rest : kAllAlgorithms) {
      const PlanChoice choice = narrow_choice(grid, first, rest, where);
      if (!suits(grid, choice)) continue;
      int roundings = 0;
      ASSERT_EQ(problem_of(plans_of(grid, choice), choice.wire, &roundings), "") << describe(grid, choice);
      ASSERT_LE(roundings, most_roundings(hosts, where)) << describe(grid, choice);
    }
}

const std::vector<std::vector<HostIndex>> kHosts = {
    hosts_of({1, 1}),  hosts_of({2, 2}),    hosts_of({2, 2, 2}),    hosts_of({2, 1, 3}),
    hosts_of({1, 4}),  hosts_of({3, 3, 1}), hosts_of({1, 1, 1, 1}), hosts_of({4, 4, 4, 4, 4}),
    round_robin(4, 8), round_robin(3, 7),   {2, 0, 1, 0, 2, 2}};

}  // namespace

TEST(Rounding, BetweenHostsAllRanksEndWithTheSameBitsAfterOneRoundingPerHost) {
  for (const auto& hosts : kHosts) check_all(Grid::from_hosts(hosts), hosts, WireWhere::between);
}

TEST(Rounding, EverywhereItIsOneMoreForEachOtherRankOfTheLargestHost) {
  for (const auto& hosts : kHosts) check_all(Grid::from_hosts(hosts), hosts, WireWhere::everywhere);
  for (int ranks : {2, 3, 4, 5, 6, 7, 8, 12, 16})
    check_all(Grid::from_hosts(hosts_of({ranks})), hosts_of({ranks}), WireWhere::everywhere);
}

TEST(Rounding, NodesOfAHostAreNoMore) {
  const std::vector<HostIndex> hosts = hosts_of({4, 4, 4});
  const std::vector<int> nodes = {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1};
  check_all(Grid::from_nodes(hosts, nodes), hosts, WireWhere::everywhere);
}

TEST(Rounding, GroupsOfSomeWhoShareAHostAgreeToo) {
  for (WireWhere where : {WireWhere::between, WireWhere::everywhere})
    for (const auto& [hosts, dims] : std::vector<std::pair<std::vector<HostIndex>, std::vector<Rank>>>{
             {{0, 0, 0, 1}, {4}}, {{0, 0, 0, 1, 1, 1}, {2, 3}}, {{0, 0, 0, 1, 1}, {5}}}) {
      Grid grid = Grid::from_dims(hosts, dims);
      for (Algorithm first : kAllAlgorithms)
        for (Algorithm rest : kAllAlgorithms) {
          const PlanChoice choice = narrow_choice(grid, first, rest, where);
          int roundings = 0;
          if (!suits(grid, choice)) continue;
          ASSERT_EQ(problem_of(plans_of(grid, choice), choice.wire, &roundings), "")
              << describe(grid, choice);
          ASSERT_LE(roundings, static_cast<int>(hosts.size())) << describe(grid, choice);
        }
    }
}

TEST(Rounding, WithinAHostDirectlyItIsTwice) {
  Grid grid = Grid::from_hosts(hosts_of({7}));
  for (Algorithm algorithm : {Algorithm::direct, Algorithm::funnel, Algorithm::exchange}) {
    const PlanChoice choice = narrow_choice(grid, algorithm, algorithm, WireWhere::everywhere);
    int roundings = 0;
    EXPECT_EQ(problem_of(plans_of(grid, choice), choice.wire, &roundings), "");
    EXPECT_EQ(roundings, 2) << algorithm_name(algorithm);
  }
}

TEST(Rounding, AStepThatDoesNotRoundIsSeen) {
  Grid grid = Grid::from_hosts(hosts_of({3}));
  for (Algorithm algorithm : kAllAlgorithms)
    for (Verb verb : {Verb::copy, Verb::reduce}) {  // the own share, or the result
      const PlanChoice choice = narrow_choice(grid, algorithm, algorithm, WireWhere::everywhere);
      std::vector<Plan> plans = plans_of(grid, choice);
      bool any = false;
      for (Step& step : plans[0].steps)
        if (step.rounds && step.verb == verb) step.rounds = false, any = true;
      if (any) {
        EXPECT_NE(problem_of(plans, choice.wire), "") << algorithm_name(algorithm);
      }
    }
}

}  // namespace ddl
