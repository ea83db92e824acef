#include "launcher/compare.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

Outcome run(double seconds, const char* check = nullptr, std::optional<double> inside = {},
            std::optional<double> all_reduce = {}) {
  Outcome outcome;
  outcome.seconds = seconds;
  if (check) outcome.check = check;
  outcome.inside = inside;
  outcome.all_reduce = all_reduce;
  return outcome;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST(OutputReader, TheLastCheckCountsHoweverTheStreamIsCut) {
  OutputReader reader;
  for (const char* piece : {"epoch 1\nche", "ck: 1\nnot check: x\nCHECK sum", "=7\r\nbye\n"})
    reader.feed(piece);
  EXPECT_EQ(reader.check(), "CHECK sum=7");
}

TEST(OutputReader, ALineWithoutANewlineCounts) {
  OutputReader reader;
  reader.feed("check: 42");
  EXPECT_EQ(reader.check(), "check: 42");
}

TEST(OutputReader, ThereMayBeNone) {
  OutputReader reader;
  reader.feed("hello\n checking\n12 3 4 5.0\n");
  EXPECT_FALSE(reader.check());
  EXPECT_TRUE(reader.bench().empty());
}

TEST(OutputReader, RowsOfDdlBenchAreTaken) {
  OutputReader reader;
  reader.feed(
      "  bytes  count  iters    median us  avg us\n  4  1  200  0.25  0.30\n 1024 256 20 1.5 1.6\nbye\n");
  EXPECT_EQ(reader.bench(), (std::map<BenchRow, double>{{{"", 4}, 0.25}, {{"", 1024}, 1.5}}));
}

TEST(OutputReader, RowsOfAReplayHaveNames) {
  OutputReader reader;
  reader.feed(
      "  what  bytes  count  iters  median us\n   step  400  100  10  7.5 8\ncomputing alone 0 0 10 5.25 6\n"
      "hidden 4.0 % of the all-reduces\n");
  EXPECT_EQ(reader.bench(),
            (std::map<BenchRow, double>{{{"step", 400}, 7.5}, {{"computing alone", 0}, 5.25}}));
}

TEST(Comparison, TimesRatioAndCheckAreShown) {
  Outcome plain = run(3.0, "check: 1", 2.0, 0.5), engine = run(2.0, "check: 1", 1.0, 0.25);
  std::string text = comparison_text({plain, {plain}, {engine}});
  for (const char* part : {"wall time                        3 s         2 s     1.50",
                           "without the start              2 s         1 s     2.00",
                           "in all-reduces               0.5 s      0.25 s     2.00",
                           "ratio            2.000", "one run of each", "the same: check: 1"})
    EXPECT_TRUE(has(text, part)) << part << "\n" << text;
}

TEST(Comparison, WhatNoReportToldIsLeftOut) {
  std::string text = comparison_text({run(3), {run(3)}, {run(2)}});
  EXPECT_FALSE(has(text, "without the start  "));
  EXPECT_FALSE(has(text, "in all-reduces"));
  EXPECT_TRUE(has(text, "ratio            1.500"));
  EXPECT_TRUE(has(text, "most of which may be the start"));
  EXPECT_TRUE(has(text, "none printed"));
}

TEST(Comparison, ADifferenceWithinTheRunsIsNoise) {
  auto text = [](std::vector<Outcome> plain, std::vector<Outcome> engine) {
    return comparison_text({plain[0], plain, engine});
  };
  std::string noise = text({run(1.0), run(1.2), run(1.1)}, {run(1.15), run(0.9), run(1.0)});
  EXPECT_TRUE(has(noise, "the difference is noise")) << noise;
  EXPECT_TRUE(has(noise, "medians of 3 and 3 runs in turn")) << noise;
  std::string real = text({run(1.0), run(1.2)}, {run(0.8), run(0.9)});
  EXPECT_TRUE(has(real, "more than runs of one kind differ by")) << real;
}

TEST(Comparison, TablesAreJoinedBySize) {
  Outcome plain = run(1), engine = run(1);
  plain.bench = {{{"", 4}, 1.0}, {{"", 8}, 2.0}, {{"step", 8}, 3.0}};
  engine.bench = {{{"", 4}, 0.5}, {{"", 16}, 2.0}, {{"step", 8}, 2.0}};
  std::string text = comparison_text({plain, {plain}, {engine}});
  EXPECT_TRUE(has(text, "           4          1.00          0.50     2.00\n")) << text;
  EXPECT_TRUE(has(text, "           8          3.00          2.00     1.50  step\n")) << text;
  EXPECT_FALSE(has(text, "           8          2.00")) << text;
  EXPECT_FALSE(has(text, "sent between hosts")) << text;
}

TEST(Comparison, ADifferentCheckLineStandsOut) {
  auto text = [](const char* plain, const char* engine) {
    return comparison_text({run(1, plain), {run(1, plain)}, {run(1, engine)}});
  };
  EXPECT_TRUE(has(text("check: 1", "check: 2"), "DIFFERS"));
  EXPECT_TRUE(has(text("check: 1", nullptr), "DIFFERS"));
}

TEST(Comparison, WhatRailsCarriedIsShown) {
  EXPECT_DOUBLE_EQ(*rail_bytes(R"({"collectives": [], "rails": [{"bytes_sent": 2e6}, {"bytes_sent": 1e6}]})"),
                   3e6);
  Outcome plain = run(1), engine = run(1);
  engine.rail_bytes = 3e6;
  EXPECT_TRUE(
      has(comparison_text({plain, {plain}, {engine}}), "sent between hosts       not counted        3 MB\n"));
}

TEST(Comparison, SecondsComeFromTheReport) {
  const char* report = R"({"seconds": 2.5, "collectives": [
    {"name": "MPI_Allreduce", "ranks": 2, "engine": {"calls": 4, "bytes": 8, "seconds": 1.0},
     "original": [{"reason": "measured", "calls": 2, "bytes": 4, "seconds": 0.5}]},
    {"name": "MPI_Iallreduce", "ranks": 2, "engine": {"calls": 4, "bytes": 8, "seconds": 99.0}, "original": []},
    {"name": "MPI_Bcast", "ranks": 2, "engine": {"calls": 0, "bytes": 0, "seconds": 0.0}, "original": []}]})";
  EXPECT_DOUBLE_EQ(*inside_seconds(report), 2.5);
  EXPECT_DOUBLE_EQ(*all_reduce_seconds(report), 0.75);
  for (const char* none : {"", "{}", "[1", R"({"collectives": []})"}) {
    EXPECT_FALSE(inside_seconds(none)) << none;
    EXPECT_FALSE(rail_bytes(none)) << none;
    EXPECT_FALSE(all_reduce_seconds(none)) << none;
  }
}

}  // namespace ddl
