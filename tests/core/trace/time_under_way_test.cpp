#include "core/trace/time_under_way.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddl {
namespace {

constexpr Nanoseconds kOneSecond = 1'000'000'000;

double seconds(TimeUnderWay& time, const std::string& collective, double until = 1000) {
  Counters counters;
  time.collect(counters, static_cast<Nanoseconds>(until * kOneSecond));
  const nlohmann::json all = counters.to_json()["collectives"];
  for (const auto& one : all)
    if (one["name"] == collective) return one["engine"]["seconds"];
  return 0;
}

}  // namespace

TEST(TimeUnderWay, CallsThatOverlapShareTheirTime) {
  TimeUnderWay time;
  time.begin("a", 1 * kOneSecond);
  time.begin("a", 2 * kOneSecond);
  time.end("a", 4 * kOneSecond);
  time.begin("a", 5 * kOneSecond);
  time.end("a", 6 * kOneSecond);
  time.end("a", 8 * kOneSecond);
  time.begin("a", 10 * kOneSecond);
  time.end("a", 11 * kOneSecond);
  EXPECT_DOUBLE_EQ(seconds(time, "a"), 8);
  EXPECT_DOUBLE_EQ(seconds(time, "a"), 0) << "it was moved";
}

TEST(TimeUnderWay, OtherCollectivesHaveTheirOwn) {
  TimeUnderWay time;
  const char *a = "a", *b = "b";
  time.begin(a, 1 * kOneSecond);
  time.begin(b, 2 * kOneSecond);
  time.end(a, 3 * kOneSecond);
  time.end(b, 6 * kOneSecond);
  Counters counters;
  time.collect(counters, 6 * kOneSecond);
  const nlohmann::json all = counters.to_json()["collectives"];
  EXPECT_DOUBLE_EQ(all[0]["engine"]["seconds"], 2);
  EXPECT_DOUBLE_EQ(all[1]["engine"]["seconds"], 4);
}

// A call counts from when the program made it, which may be before the engine was told of the end of another.
TEST(TimeUnderWay, NothingIsCountedTwice) {
  TimeUnderWay time;
  time.begin("a", 1 * kOneSecond);
  time.end("a", 3 * kOneSecond);
  time.begin("a", 2 * kOneSecond);
  time.end("a", 4 * kOneSecond);
  EXPECT_DOUBLE_EQ(seconds(time, "a"), 3);
}

TEST(TimeUnderWay, WhatIsUnderWayCountsSoFar) {
  TimeUnderWay time;
  time.begin("a", 1 * kOneSecond);
  EXPECT_DOUBLE_EQ(seconds(time, "a", 3), 2);
  time.end("a", 7 * kOneSecond);
  EXPECT_DOUBLE_EQ(seconds(time, "a", 9), 4);
}

}  // namespace ddl
