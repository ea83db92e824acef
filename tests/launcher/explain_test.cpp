#include "launcher/explain.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/plan/planner.hpp"
#include "launcher/explain_original.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

struct Case {
  explicit Case(Strings words)
      : options(parse_options(words)), allocation(resolve_allocation(options, view())) {
    options = with_ranks_of_hosts(options, allocation, view(), 2);
  }
  System view() const { return world.view(); }
  std::vector<HostIndex> hosts() const { return expected_hosts(options, allocation, view(), 2); }
  std::string text() const { return explain(options, allocation, view(), 2, nics); }

  FakeWorld world;
  Options options;
  Allocation allocation;
  std::vector<Nic> nics;
};

using Hosts = std::vector<HostIndex>;

}  // namespace

TEST(Explain, RanksAreExpectedWhereMpirunPutsThem) {
  EXPECT_EQ(Case({"--explain", "-H", "a:2,b:1"}).hosts(), (Hosts{0, 0, 1}));
  EXPECT_EQ(Case({"--explain", "-np", "3", "-H", "a:2,b:2"}).hosts(), (Hosts{0, 0, 1}));
  EXPECT_EQ(Case({"--explain", "--map-by", "node", "-H", "a:3,b:1"}).hosts(), (Hosts{0, 1, 0, 0}));
  EXPECT_EQ(Case({"--explain", "-np", "5", "-H", "a:2,b:2"}).hosts(), (Hosts{0, 0, 1, 1, 0}));
  EXPECT_EQ(Case({"--explain", "-N", "2", "-H", "a:4,b:4"}).hosts(), (Hosts{0, 0, 1, 1}));
  EXPECT_EQ(Case({"--explain", "-np", "3", "-npernode", "2", "-H", "a:4,b:4"}).hosts(), (Hosts{0, 0, 1}));
  EXPECT_EQ(Case({"--explain", "-N", "1", "--map-by", "slot", "-H", "a:2,b:1"}).hosts(), (Hosts{0, 0, 1}));
  EXPECT_EQ(Case({"--explain"}).hosts(), (Hosts{0, 0}));
  EXPECT_EQ(Case({"--explain", "-np", "2", "a", ":", "-np", "1", "b"}).hosts(), (Hosts{0, 0, 0}));
}

TEST(Explain, PretendedHostsCount) {
  Case pretended({"--explain", "-np", "6", "-x", "DDL_FAKE_HOSTS=2,1,3"});
  EXPECT_EQ(pretended.hosts(), (Hosts{0, 0, 1, 2, 2, 2}));
  EXPECT_NE(pretended.text().find("3 local x 3 hosts at most"), std::string::npos) << pretended.text();
}

TEST(Explain, OtherHostsHaveTheRailsOfThisMachine) {
  Case four({"--explain", "-np", "8", "-H", "a:2,b:2,c:2,d:2"});
  std::string assumed = four.text();
  EXPECT_NE(
      assumed.find("1 rail, speed unknown: 1 Gbit/s assumed (119.5 MB/s of payload); DDL_RAILS names more"),
      std::string::npos)
      << assumed;
  for (const char* name : {"ens1", "ens2"}) {
    Nic nic;
    nic.name = name;
    nic.kind = "ethernet";
    nic.gbit = 100;
    nic.up = nic.running = true;
    nic.address = "10.0.1.1";
    nic.prefix = 24;
    four.nics.push_back(nic);
  }
  std::string rated = four.text();
  EXPECT_NE(rated.find("2 rails: ens1 100 Gbit/s, ens2 100 Gbit/s, as the driver states on this machine"),
            std::string::npos)
      << rated;
  EXPECT_NE(rated.find("2 lanes"), std::string::npos) << rated;
}

TEST(Explain, TheChoiceAndItsTimeAreTheEngines) {
  Case four({"--explain", "-H", "a:2,b:2,c:2,d:2"});
  std::string text = four.text();
  Grid grid = Grid::from_hosts(four.hosts());
  PlanLimits limits = {1, Bytes{16} << 20};
  for (Bytes bytes : {Bytes{4} << 10, Bytes{16} << 20}) {
    Candidate chosen = candidates(grid, bytes, limits)[0];
    std::string line =
        fmt::format("{}: {:.3g} {}", describe(grid, chosen.choice),
                    chosen.predicted.seconds * (bytes > 1 << 20 ? 1e3 : 1e6), bytes > 1 << 20 ? "ms" : "us");
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_NE(text.find("256 MiB  2 local direct x 4 hosts ring"), std::string::npos) << text;
  EXPECT_NE(text.find("instead of"), std::string::npos);
  EXPECT_NE(text.find("reduce-scatter hosts      ring"), std::string::npos) << text;
}

TEST(Explain, RailsAndSegmentsFollowTheVariables) {
  std::string text =
      Case({"--explain", "-H", "a:2,b:2", "-x", "DDL_RAILS=e0,e1", "-x", "DDL_SEGMENT_BYTES=256k"}).text();
  EXPECT_NE(text.find("2 rails, speed unknown: 1 Gbit/s assumed for each"), std::string::npos) << text;
  EXPECT_NE(text.find("segments of 256 KiB"), std::string::npos) << text;
  EXPECT_NE(text.find(", 2 lanes"), std::string::npos) << text;
}

TEST(Explain, WhatTravelsNarrowerIsSaid) {
  const std::string text = Case({"--explain", "-H", "a:2,b:2", "-x", "DDL_WIRE_TYPE=bfloat16"}).text();
  EXPECT_NE(text.find("2 hosts direct, bfloat16 between hosts: "), std::string::npos) << text;
  EXPECT_NE(text.find("bfloat16        what elements of float32 travel as"), std::string::npos) << text;
  const std::string all = Case({"--explain", "-H", "a:2,b:2", "-x", "DDL_WIRE_TYPE=bfloat16", "-x",
                                "DDL_WIRE_TYPE_WHERE=everywhere"})
                              .text();
  EXPECT_NE(all.find("2 hosts direct, bfloat16 everywhere: "), std::string::npos) << all;
  EXPECT_NE(all.find("everywhere      within hosts, too"), std::string::npos) << all;
  EXPECT_EQ(Case({"--explain", "-np", "4", "-x", "DDL_WIRE_TYPE=bfloat16"}).text().find("bfloat16"),
            std::string::npos)
      << "one host";
  const std::string here =
      Case({"--explain", "-np", "2", "-x", "DDL_WIRE_TYPE=bfloat16", "-x", "DDL_WIRE_TYPE_WHERE=everywhere"})
          .text();
  EXPECT_NE(here.find("256 MiB  2 local direct, bfloat16 everywhere: "), std::string::npos) << here;
  EXPECT_NE(here.find("  1 MiB  2 local direct: "), std::string::npos) << here;
}

TEST(Explain, WhatIsFusedIsSaid) {
  const std::string text = Case({"--explain", "-H", "a:2,b:2", "-x", "DDL_LAZY_BYTES=2m"}).text();
  EXPECT_NE(
      text.find(
          "fused     nonblocking all-reduces of up to 64 KiB, when 2 MiB have come together or one is waited "
          "for, 1 MiB at most as one\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("            fused, 400 at once in 2 batches of up to 1 MiB: "), std::string::npos)
      << text;
  const std::string overruled =
      Case({"--explain", "-np", "4", "-x", "DDL_LAZY_BYTES=2m", "-x", "DDL_DETERMINISTIC=1"}).text();
  EXPECT_NE(overruled.find("fused     nothing"), std::string::npos) << overruled;
  EXPECT_EQ(overruled.find("fused, "), std::string::npos) << overruled;
  EXPECT_EQ(Case({"--explain", "-np", "4"}).text().find("fused"), std::string::npos);
}

TEST(Explain, WhatIsSparseIsSaid) {
  const std::string text =
      Case({"--explain", "-H", "a:2,b:2", "-x", "DDL_SPARSE=0.1", "-x", "DDL_LAZY_BYTES=1m"}).text();
  EXPECT_NE(text.find("sparse    sums of float32 and float64 from 64 KiB on: 0.1 of their chunks"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("410 of 4096 chunks"), std::string::npos) << text;
  const std::size_t small = text.find("\n   4 KiB  "), large = text.find("\n  64 KiB  ");
  EXPECT_LT(text.find("fused, 400"), large) << "of 64 KiB chunks are sent";
  EXPECT_GT(text.find("sparse in the end"), large) << text.substr(small);
  const std::string here = Case({"--explain", "-np", "4", "-x", "DDL_SPARSE=0.1"}).text();
  EXPECT_NE(here.find("sparse    nothing: there is one host\n"), std::string::npos) << here;
  EXPECT_EQ(here.find("in the end"), std::string::npos) << here;
}

TEST(Explain, DimensionsThatDoNotFitAreRefused) {
  Case wrong({"--explain", "-H", "a:4,b:4", "-m", "b:4x3"});
  try {
    wrong.text();
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("invalid dim size=12 usr_size=8 dim[0]=4 dim[1]=3", 0), 0u);
  }
  EXPECT_NE(Case({"--explain", "-H", "a:4,b:4", "-m", "b:2x2x2"}).text().find("2 local x 2 local x 2 hosts"),
            std::string::npos);
}

TEST(Explain, DimensionsMayComeFromTheVariableAndFromIbmsOptions) {
  std::string variable = Case({"--explain", "-H", "a:4,b:4", "-x", "DDL_OPTIONS=-mode b:2x2x2"}).text();
  EXPECT_NE(variable.find("2 local x 2 local x 2 hosts"), std::string::npos) << variable;
  std::string racks = Case({"--explain", "-H", "a:2,b:2,c:2,d:2", "-m", "b", "-accelerators", "2", "-nodes",
                            "2", "-racks", "2"})
                          .text();
  EXPECT_NE(racks.find("2 local x 2 hosts x 2 hosts"), std::string::npos) << racks;
}

TEST(Explain, RacksAndAislesAreDimensions) {
  Strings eight{"--explain", "-H", "a:2,b:2,c:2,d:2,e:2,f:2,g:2,h:2", "-racks", "2", "-aisles", "2"};
  EXPECT_NE(Case(eight).text().find("2 local x 2 hosts x 2 hosts x 2 hosts"), std::string::npos)
      << Case(eight).text();
  EXPECT_THROW(Case({"--explain", "-H", "a:2,b:1", "-racks", "2"}), UsageError);
}

TEST(Explain, TheModeCounts) {
  auto text = [](const char* mode) { return Case({"--explain", "-H", "a:3,b:3", "-m", mode}).text(); };
  EXPECT_NE(text("r").find("  4 KiB  3 local ring x 2 hosts ring"), std::string::npos) << text("r");
  EXPECT_EQ(text("n").find("direct"), std::string::npos) << text("n");
  EXPECT_NE(text("m").find("the original library's own"), std::string::npos) << text("m");
  std::string dump = Case({"--explain", "-H", "a:3,b:3", "-x", "DDL_OPTIONS=-dump_iter 5"}).text();
  EXPECT_NE(dump.find("6 hosts ring"), std::string::npos) << "IBM's flat ring\n" << dump;
  std::string off = Case({"--explain", "-H", "a:3,b:3", "-x", "DDL_ENABLE=0"}).text();
  EXPECT_NE(off.find("left to the original library"), std::string::npos) << off;
}

TEST(Explain, ColumnsHaveHeadsAndNothingIsOneTimesAsLong) {
  std::string text = Case({"--explain", "-H", "a:2,b:2,c:2,d:2"}).text();
  EXPECT_NE(text.find("each rank   does           over       by         messages bytes sent  time alone"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("1.00 times"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  local           ranks of one host\n"), std::string::npos) << text;
}

TEST(Explain, TheOriginalIsEstimatedBesideOurs) {
  std::string text = Case({"--explain", "-H", "a:2,b:2,c:2,d:2"}).text();
  EXPECT_NE(text.find("Open MPI's own, by recursive doubling: "), std::string::npos) << text;
  EXPECT_NE(text.find("Open MPI's own, by a ring of all ranks: "), std::string::npos) << text;
  const std::vector<HostIndex> one(8, 0), four = {0, 0, 1, 1, 2, 2, 3, 3};
  for (Bytes bytes : {Bytes{4} << 10, Bytes{1} << 20}) {
    double here = estimate_original(one, bytes, {}).seconds,
           wire = estimate_original(four, bytes, {}).seconds;
    EXPECT_GT(here, 0);
    EXPECT_GT(wire, 5 * here) << "the wire is slower than memory";
  }
}

TEST(Explain, OneRankHasNothingToReduce) {
  EXPECT_NE(Case({"--explain", "-np", "1"}).text().find("nothing to reduce"), std::string::npos);
}

}  // namespace ddl
