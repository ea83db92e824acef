// All-reduces whose elements travel narrower than they are in memory.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/collective/engine.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/wire_rule.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::VirtualJob;

constexpr WireType kNarrow[] = {WireType::bfloat16, WireType::float16, WireType::int8};
constexpr Algorithm kAll[] = {Algorithm::direct,   Algorithm::ring,    Algorithm::exchange,
                              Algorithm::doubling, Algorithm::halving, Algorithm::funnel};

constexpr WireWhere kWheres[] = {WireWhere::between, WireWhere::everywhere};

double unit_roundoff(WireType type) {
  return type == WireType::bfloat16 ? 0x1p-8 : type == WireType::float16 ? 0x1p-11 : 1 / 125.0;
}

struct Case {
  std::vector<HostIndex> hosts;
  std::vector<Rank> dims;  // empty: ranks of a host x hosts
  PlanChoice choice;
  Elements count;
  Op op;
  bool in_place;
  std::string text(const Grid& grid) const {
    std::string all = describe(grid, choice) + ", hosts";
    for (HostIndex host : hosts) all += " " + std::to_string(host);
    return all + ", " + std::to_string(count) + " " + std::string(name_of(choice.wire.of)) + ", " +
           std::string(name_of(op)) + (in_place ? " in place" : "");
  }
};

template <class T>
using Values = std::vector<std::vector<T>>;  // by rank

// Every rank's result of one call by that choice.
template <class T>
Values<T> run(VirtualJob& job, CommId id, const Case& one, const Values<T>& in) {
  Values<T> out = in;
  PlanLimits limits{static_cast<LaneId>(one.choice.share.size()), Bytes{1} << 20, 0};
  auto world = job.create(id, everybody(job.size()), limits, one.dims);
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    PreparedPlan& plan = world[me]->plans().prepare(one.choice, one.count * sizeof(T));
    const void* from = one.in_place ? out[me].data() : in[me].data();
    Call call{from, out[me].data(), one.count, one.choice.wire.of, one.op};
    for (int again = 0; again < 2; ++again) {  // the second time with what the first has left in its buffers
      if (one.in_place) out[me] = in[me];
      job.engine(rank).run(*world[me], call, &plan);
    }
  });
  for (Rank rank = 0; rank < job.size(); ++rank) EXPECT_EQ(job.engine(rank).failure(), "");
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// What can travel is rounded no more.
template <class T>
std::vector<T> rounded(const WireFormat& wire, const std::vector<T>& values) {
  std::vector<std::byte> travels(wire.bytes(values.size()));
  std::vector<T> back(values.size());
  narrow(wire, travels.data(), values.data(), values.size());
  widen(wire, back.data(), travels.data(), values.size());
  return back;
}

// docs/gradients.md: on the way of a share at most one rounding per host, everywhere also one for each other
// rank of the largest host.
int most_roundings(const Case& one) {
  if (!one.dims.empty()) return static_cast<int>(one.hosts.size());
  std::map<HostIndex, int> ranks_of;
  for (HostIndex host : one.hosts) ++ranks_of[host];
  int most = 0;
  for (const auto& [host, ranks] : ranks_of) most = std::max(most, ranks);
  return static_cast<int>(ranks_of.size()) + (one.choice.wire.where == WireWhere::everywhere ? most - 1 : 0);
}

// Each of a sum no larger than that of the magnitudes; in 8 bits of the largest in its cache line.
template <class T>
double allowed_error(const Case& one, const Values<T>& in, Elements i) {
  const Elements line = one.choice.wire.has_scales() ? one.choice.wire.line() : 1;
  const Elements segment = one.choice.segment / sizeof(T);
  const Elements begin = i / segment * segment + i % segment / line * line;
  double magnitudes = 0;
  for (Elements k = begin; k < begin + line && k < one.count; ++k) {
    double sum = 0;
    for (const auto& share : in) sum += std::fabs(static_cast<double>(share[k]));
    magnitudes = std::max(magnitudes, sum);
  }
  return magnitudes * most_roundings(one) * unit_roundoff(one.choice.wire.as) * 1.01;
}

template <class T>
void check(VirtualJob& job, CommId id, const Case& one, std::mt19937& random) {
  std::uniform_real_distribution<double> share(-1, 1);
  Values<T> in(one.hosts.size(), std::vector<T>(one.count));
  for (auto& values : in)
    for (T& value : values) value = static_cast<T>(share(random));
  const Values<T> out = run(job, id, one, in);
  Grid grid = one.dims.empty() ? Grid::from_hosts(one.hosts) : Grid::from_dims(one.hosts, one.dims);
  for (std::size_t r = 1; r < out.size(); ++r)
    ASSERT_TRUE(same_bits(out[r], out[0])) << "rank " << r << ": " << one.text(grid);
  const Elements segment = one.choice.segment / sizeof(T);
  for (Elements first = 0; first < one.count; first += segment) {
    const auto begin = out[0].begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<T> part(begin,
                              begin + static_cast<std::ptrdiff_t>(std::min(segment, one.count - first)));
    ASSERT_TRUE(same_bits(rounded(one.choice.wire, part), part)) << one.text(grid);
  }
  for (Elements i = 0; i < one.count; ++i) {
    double exact = static_cast<double>(in[0][i]);
    for (std::size_t r = 1; r < in.size(); ++r) {
      auto next = static_cast<double>(in[r][i]);
      exact = one.op == Op::sum   ? exact + next
              : one.op == Op::max ? std::max(exact, next)
                                  : std::min(exact, next);
    }
    ASSERT_NEAR(static_cast<double>(out[0][i]), exact, allowed_error(one, in, i))
        << i << ": " << one.text(grid);
  }
}

void check_one(VirtualJob& job, CommId id, const Case& one, std::mt19937& random) {
  if (one.choice.wire.of == DType::float64)
    check<double>(job, id, one, random);
  else
    check<float>(job, id, one, random);
}

bool suits(const Grid& grid, const PlanChoice& choice) {
  try {
    check_choice(grid, choice);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// All algorithms in all dimensions, on that job.
void check_all(const std::vector<HostIndex>& hosts, const std::vector<Rank>& dims, std::mt19937& random,
               WireWhere where) {
  Grid grid = dims.empty() ? Grid::from_hosts(hosts) : Grid::from_dims(hosts, dims);
  VirtualJob job(hosts);
  job.make_wire_read_late();  // what is sent must stay until then
  CommId id = 0;
  for (Algorithm first : kAll)
    for (Algorithm last : kAll) {
      if ((static_cast<int>(first) + static_cast<int>(last)) % test::thinned(2) != 0) continue;
      Case one{hosts, dims, {}, 1 + random() % 3000, Op::sum, random() % 2 == 0};
      one.choice.algorithm.assign(static_cast<std::size_t>(grid.dimensions()), first);
      one.choice.algorithm.back() = last;
      one.choice.share.assign(1 + random() % 2, 1);
      one.choice.segment = 2048;
      one.choice.wire = {random() % 3 ? DType::float32 : DType::float64, kNarrow[random() % 3], where};
      if (Op ops[] = {Op::sum, Op::min, Op::max}; random() % 3 == 0) one.op = ops[random() % 3];
      if (suits(grid, one.choice)) check_one(job, ++id, one, random);
      if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
    }
}

void check_special(const std::vector<HostIndex>& hosts, WireWhere where) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  VirtualJob job(hosts);
  CommId id = 0;
  for (WireType type : kNarrow)
    for (Algorithm last : kAll) {
      Case one{hosts, {}, {}, 100, Op::sum, false};
      one.choice = {{Algorithm::direct, last}, {1}, {}, {}, 2048, 4, {DType::float32, type, where}};
      if (!Grid::from_hosts(hosts).spans_hosts()) one.choice.algorithm = {last};
      Values<float> in(4, std::vector<float>(100, 1));
      in[3][0] = inf;
      in[1][16] = nan;
      in[2][32] = inf, in[0][32] = -inf;
      for (auto& values : in) values[48] = 40'000, values[64] = -3e38F;
      const Values<float> out = run(job, ++id, one, in);
      for (const auto& values : out) {
        EXPECT_EQ(values[0], inf);
        EXPECT_TRUE(std::isnan(values[16]));
        EXPECT_TRUE(std::isnan(values[32]));
        EXPECT_EQ(std::isinf(values[48]), type == WireType::float16) << values[48];
        EXPECT_EQ(values[64], -inf);
        for (Elements ordinary : {1, 15, 17, 31, 33, 47, 80, 99}) EXPECT_EQ(values[ordinary], 4) << ordinary;
      }
    }
}

// Ranks whose settings the engine was given behind the back of their agreement.
std::string said_where_rank_1_has(const std::vector<HostIndex>& hosts, const WireFormat& first,
                                  const WireFormat& other) {
  VirtualJob job(hosts);
  auto world = job.create(1, everybody(2));
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    std::vector<float> values(1000, 1);
    PlanChoice choice = plain_choice(world[me]->members().grid, 1);
    choice.segment = 4096;
    choice.wire = rank == 1 ? other : first;
    PreparedPlan& plan = world[me]->plans().prepare(choice, 4000);
    job.engine(rank).run(*world[me], {values.data(), values.data(), 1000, DType::float32, Op::sum}, &plan);
  });
  return job.engine(0).failure() + job.engine(1).failure();
}

struct Sent {
  Bytes sent = 0, in_memory = 0;
};

// What all ranks say of one all-reduce of 50'001 float32: of their rails, and of what was narrower.
std::pair<Sent, Sent> count_one(const std::vector<HostIndex>& hosts, const WireFormat& wire) {
  VirtualJob job(hosts);
  auto world = job.create(1, everybody(job.size()));
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    std::vector<float> values(50'001, 1);
    PreparedPlan& plan = world[me]->plans().plan_for({}, 200'004, wire);
    job.engine(rank).run(*world[me], {values.data(), values.data(), 50'001, DType::float32, Op::sum, "sum"},
                         &plan);
  });
  Sent on_rails, narrow;
  for (Rank rank = 0; rank < job.size(); ++rank) {
    Counters counters;
    std::vector<WireBytes> rails;
    job.engine(rank).collect(counters, rails);
    const nlohmann::json counted = counters.to_json();
    for (const auto& one : counted["narrowed"]) {
      EXPECT_EQ(one["class"], "float32 as bfloat16");
      EXPECT_EQ(one["calls"], 1);
      EXPECT_EQ(one["bytes"], 200'004);
      narrow.sent += one["bytes_sent"].get<Bytes>();
      narrow.in_memory += one["bytes_in_memory"].get<Bytes>();
    }
    for (const WireBytes& rail : rails) on_rails.sent += rail.sent, on_rails.in_memory += rail.in_memory;
  }
  return {on_rails, narrow};
}

}  // namespace

TEST(Narrowing, EveryPlanGivesAllRanksTheSameBitsWithinTheBound) {
  std::mt19937 random(7);
  for (const std::vector<HostIndex>& hosts : std::vector<std::vector<HostIndex>>{
           {0, 1}, {0, 1, 2}, {0, 0, 1, 1}, {0, 0, 1}, {0, 1, 1, 1, 2, 2}, {0, 1, 2, 0, 1, 2, 3}})
    for (WireWhere where : kWheres) check_all(hosts, {}, random, where);
}

TEST(Narrowing, OnOneHostTheyDoSoEverywhere) {
  std::mt19937 random(10);
  for (std::size_t ranks : {2, 3, 4, 7})
    for (int round = 0; round < 3 / test::thinned(3); ++round)
      check_all(std::vector<HostIndex>(ranks, 0), {}, random, WireWhere::everywhere);
}

// The user's dimensions may put ranks of one host and of several into one group.
TEST(Narrowing, GroupsOfSomeWhoShareAHostAgreeToo) {
  std::mt19937 random(8);
  for (WireWhere where : kWheres) {
    check_all({0, 0, 0, 1}, {4}, random, where);
    check_all({0, 0, 0, 1, 1, 1}, {2, 3}, random, where);
    check_all({0, 0, 0, 0, 1, 1, 1, 1}, {2, 2, 2}, random, where);
    check_all({0, 0, 0, 1, 1}, {5}, random, where);
  }
}

TEST(Narrowing, InfinitiesAndNaNsAndWhatIsTooLargeAreCarried) {
  for (WireWhere where : kWheres) check_special({0, 0, 1, 2}, where);
  check_special({0, 0, 0, 0}, WireWhere::everywhere);
}

TEST(Narrowing, AnotherTypeThatTravelsOnOneRankIsNamed) {
  const WireFormat between{DType::float32, WireType::bfloat16},
      everywhere{DType::float32, WireType::bfloat16, WireWhere::everywhere};
  for (const std::string& said :
       {said_where_rank_1_has({0, 1}, {}, between), said_where_rank_1_has({0, 0}, {}, everywhere),
        said_where_rank_1_has({0, 1}, between, everywhere)}) {
    EXPECT_NE(said.find("here it is all-reduce of 1000 float32, sum"), std::string::npos) << said;
    EXPECT_NE(said.find("there all-reduce of 1000 float32, sum"), std::string::npos) << said;
    EXPECT_NE(said.find("bfloat16"), std::string::npos) << said;
  }
}

TEST(Narrowing, CountsWhatTravelsAndWhatThatIsInMemory) {
  const std::vector<HostIndex> hosts = {0, 1, 1};
  constexpr Bytes kBetween = 2 * 200'004;  // from each of two hosts half of it, twice
  const auto [exact, none] = count_one(hosts, {});
  EXPECT_EQ(exact.in_memory, kBetween);
  EXPECT_EQ(exact.sent, kBetween);
  EXPECT_EQ(none.in_memory, 0u);
  for (WireWhere where : kWheres) {
    const auto [rails, narrow] = count_one(hosts, {DType::float32, WireType::bfloat16, where});
    EXPECT_EQ(rails.in_memory, kBetween);
    EXPECT_EQ(rails.sent, kBetween / 2);
    // Within the host of two each hands the other half, twice.
    EXPECT_EQ(narrow.in_memory, where == WireWhere::between ? kBetween : 2 * kBetween);
    EXPECT_EQ(narrow.sent, narrow.in_memory / 2);
  }
  const auto [nothing, here] = count_one({0, 0}, {DType::float32, WireType::bfloat16, WireWhere::everywhere});
  EXPECT_EQ(nothing.sent, 0u);
  EXPECT_EQ(here.in_memory, kBetween);
  EXPECT_EQ(here.sent, kBetween / 2);
}

TEST(WireRule, NarrowsLargeAllReducesOfFloatsBetweenHosts) {
  constexpr WireRule rule{WireType::float16, 1000};
  const WireFormat narrow{DType::float64, WireType::float16};
  EXPECT_EQ(rule.format_of(Kind::all_reduce, DType::float64, 1000), narrow);
  EXPECT_TRUE(rule.format_of(Kind::all_reduce, DType::float64, 999).is_exact());
  EXPECT_TRUE(rule.format_of(Kind::reduce_scatter, DType::float64, 1000).is_exact());
  for (DType type : {DType::int32, DType::uint64, DType::float16, DType::bfloat16})
    EXPECT_TRUE(rule.format_of(Kind::all_reduce, type, 1000).is_exact()) << name_of(type);
  EXPECT_TRUE(WireRule{}.format_of(Kind::all_reduce, DType::float32, 1000).is_exact());
}

TEST(WireRule, IsThatOfTheCommunicator) {
  const GradientSettings settings{
      WireType::int8, WireWhere::between, {1000, {{4, 5000}, {16, BytesByRanks::kNever}}}};
  EXPECT_EQ(wire_rule(settings, 8, true).from, 1000u);
  EXPECT_EQ(wire_rule(settings, 8, true).type, WireType::int8);
  EXPECT_EQ(wire_rule(settings, 4, true).from, 5000u);
  EXPECT_EQ(wire_rule(settings, 16, true).type, WireType::exact) << "never";
  EXPECT_EQ(wire_rule(settings, 8, false).type, WireType::exact) << "one host";
}

TEST(WireRule, OnOneHostItNarrowsWhatIsFasterAndOnlyWhereItIsToBeEverywhere) {
  GradientSettings settings{WireType::bfloat16, WireWhere::everywhere, {1000, {{4, BytesByRanks::kNever}}}};
  EXPECT_EQ(wire_rule(settings, 8, true).from, 1000u);
  EXPECT_EQ(wire_rule(settings, 8, true).where, WireWhere::everywhere);
  EXPECT_EQ(wire_rule(settings, 8, false).from, kWorthWithinAHost);
  const WireFormat format =
      wire_rule(settings, 8, false).format_of(Kind::all_reduce, DType::float32, 16 << 20);
  EXPECT_TRUE(narrows(format, Fabric::local));
  EXPECT_EQ(wire_rule(settings, 4, false).type, WireType::exact) << "never";
  settings.wire_type_from.others = 32 << 20;
  EXPECT_EQ(wire_rule(settings, 8, false).from, Bytes{32} << 20) << "what was asked for counts, too";
  settings.wire_type = WireType::int8;
  EXPECT_EQ(wire_rule(settings, 8, false).type, WireType::exact) << "slower at all sizes";
}

TEST(Narrowing, RandomHostsAgree) {
  std::mt19937 random(9);
  for (int round = 0; round < 12 / test::thinned(3); ++round) {
    std::vector<HostIndex> hosts(2 + random() % 6);
    for (HostIndex& host : hosts)
      host = static_cast<HostIndex>(random() % std::min<std::size_t>(4, hosts.size()));
    if (Grid::from_hosts(hosts).spans_hosts()) check_all(hosts, {}, random, kWheres[round % 2]);
  }
}

}  // namespace ddl
