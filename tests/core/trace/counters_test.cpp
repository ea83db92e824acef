#include "core/trace/counters.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddl {

using nlohmann::json;

TEST(Counters, CallsAreCountedByCollectiveRouteAndReason) {
  Counters counters;
  counters.collect("MPI_Allreduce", 128, "plan", {1, 100, 2'000'000'000});
  counters.collect("MPI_Allreduce", 64, "other plan", {1, 50, 0});
  counters.count_original("MPI_Allreduce", "datatype", {1, 8, 0});
  counters.count_original("MPI_Iallreduce", "operation", {1, 4, 0});
  json report = counters.to_json();
  ASSERT_EQ(report["collectives"].size(), 2u);
  const json& blocking = report["collectives"][0];
  EXPECT_EQ(blocking["engine"]["calls"], 2);
  EXPECT_EQ(blocking["engine"]["bytes"], 150);
  EXPECT_DOUBLE_EQ(blocking["engine"]["seconds"], 2.0);
  EXPECT_EQ(blocking["original"][0]["reason"], "datatype");
}

TEST(Counters, PartsOfAllRanksAddUp) {
  json total = {{"collectives", json::array()}, {"rails", json::array()}};
  for (int rank = 0; rank < 3; ++rank) {
    Counters counters;
    counters.collect("MPI_Allreduce", 128, "plan", {1, 100, 1'000'000'000});
    counters.count_original("MPI_Allreduce", rank == 2 ? "operation" : "datatype", {1, 8, 0});
    json part = counters.to_json();
    part["rails"] = {{{"name", "10.0.0.0/24"}, {"bytes_sent", 10}, {"bytes_predicted", 9}}};
    merge_counts(total, part);
  }
  EXPECT_EQ(total["collectives"][0]["engine"]["calls"], 3);
  EXPECT_EQ(total["collectives"][0]["engine"]["bytes"], 300);
  EXPECT_DOUBLE_EQ(total["collectives"][0]["engine"]["seconds"], 3.0);
  EXPECT_EQ(total["collectives"][0]["original"].size(), 2u);
  EXPECT_EQ(total["rails"][0]["bytes_sent"], 30);
  EXPECT_EQ(total["rails"][0]["bytes_predicted"], 27);
}

TEST(Counters, WhatWasNarrowedAddsUpByClass) {
  Counters here, there;
  here.count_narrowed("MPI_Allreduce", "float32 as int8", {1, 1000, 300, 1000});
  here.count_narrowed("MPI_Allreduce", "float64 as int8", {1, 1, 1, 1});
  there.count_narrowed("MPI_Allreduce", "float32 as int8", {2, 2000, 500, 1800});
  here.take(there);
  json total = {{"collectives", json::array()}, {"narrowed", json::array()}, {"rails", json::array()}};
  merge_counts(total, here.to_json());
  merge_counts(total, here.to_json());
  ASSERT_EQ(total["narrowed"].size(), 2u);
  EXPECT_EQ(total["narrowed"][0], (json{{"collective", "MPI_Allreduce"},
                                        {"class", "float32 as int8"},
                                        {"calls", 6},
                                        {"bytes", 6000},
                                        {"bytes_sent", 1600},
                                        {"bytes_in_memory", 5600}}));
}

TEST(Counters, WhatWasFusedAddsUpByClass) {
  json total = {{"collectives", json::array()}, {"fused", json::array()}, {"rails", json::array()}};
  for (int rank = 0; rank < 2; ++rank) {
    Counters gone, counters;
    counters.count_fused("MPI_Iallreduce", "float32, sum", 20, 1000);
    gone.count_fused("MPI_Iallreduce", "float32, sum", 10, 500);
    gone.count_fused("MPI_Iallreduce", "int64, max", 2, 16);
    counters.take(gone);
    merge_counts(total, counters.to_json());
  }
  ASSERT_EQ(total["fused"].size(), 2u);
  EXPECT_EQ(total["fused"][0], (json{{"collective", "MPI_Iallreduce"},
                                     {"class", "float32, sum"},
                                     {"calls", 60},
                                     {"batches", 4},
                                     {"bytes", 3000}}));
}

TEST(Counters, RanksAndPlansOfAllRanksAddUp) {
  json total = {{"collectives", json::array()}, {"algorithms", json::array()}, {"rails", json::array()}};
  for (int rank : {0, 1, 1}) {
    Counters counters;
    counters.collect("MPI_Allreduce", 128, rank ? "other plan" : "plan", {1, 100, 0});
    json part = counters.to_json();
    part["collectives"][0]["ranks"] = json::array({rank});
    merge_counts(total, part);
    merge_plans(total, part);
  }
  EXPECT_EQ(total["collectives"][0]["ranks"], json::array({0, 1}));
  json done = total;
  for (int times = 0; times < 2; ++times) count_ranks(done);
  EXPECT_EQ(done["collectives"][0]["ranks"], 2);
  ASSERT_EQ(total["algorithms"].size(), 2u);
  EXPECT_EQ(total["algorithms"][0]["calls"], 1);
  EXPECT_EQ(total["algorithms"][1]["calls"], 2);
  total["collectives"][0]["ranks"] = 2;
  Counters more;
  more.collect("MPI_Allreduce", 128, "plan", {1, 100, 0});
  json part = more.to_json();
  part["collectives"][0]["ranks"] = json::array({7});
  merge_counts(total, part);
  EXPECT_EQ(total["collectives"][0]["ranks"], 2) << "a report that is done";
}

TEST(Counters, SparseCallsOfAllRanksAddUp) {
  json total = {{"collectives", json::array()}, {"rails", json::array()}};
  for (int rank = 0; rank < 2; ++rank) {
    Counters counters, late;
    counters.count_sparse("MPI_Allreduce", 1000, 100, 5000);
    late.count_sparse("MPI_Allreduce", 1000, 200, 4000);
    counters.take(late);
    merge_counts(total, counters.to_json());
  }
  const json expected = {{"collective", "MPI_Allreduce"},
                         {"calls", 4},
                         {"bytes", 4000},
                         {"bytes_sent", 600},
                         {"bytes_kept", 10'000}};
  ASSERT_EQ(total["sparse"].size(), 1u);
  EXPECT_EQ(total["sparse"][0], expected);
}

TEST(Counters, PlansAreCountedPerSizeClass) {
  Counters counters;
  counters.collect("MPI_Allreduce", 64, "2 local exchange", {1, 4, 0});
  Counters gone;
  gone.collect("MPI_Allreduce", 64, "2 local exchange", {1, 4, 0});
  counters.take(gone);
  EXPECT_TRUE(gone.to_json()["algorithms"].empty());
  json report = counters.to_json();
  EXPECT_EQ(report["algorithms"][0]["calls"], 2);
  EXPECT_EQ(report["algorithms"][0]["plan"], "2 local exchange");
}

TEST(Counters, PartsOfGroupsThatEndMakeOneThatDoesNotGrow) {
  Counters counters;
  counters.collect("gloo::allreduce", 128, "plan", {1, 100, 0});
  json part = counters.to_json();
  part["staging_bytes"] = 7;
  json over = json::object();
  merge_part(over, part);
  const std::size_t one = over.dump().size();
  for (int more = 1; more < 9; ++more) merge_part(over, part);
  EXPECT_EQ(over["collectives"][0]["engine"]["calls"], 9);
  EXPECT_EQ(over["algorithms"][0]["calls"], 9);
  EXPECT_EQ(over["staging_bytes"], 7);
  EXPECT_LE(over.dump().size(), one + 2) << "900 bytes";
  EXPECT_FALSE(over.contains("complete"));
  merge_part(over, json::parse(kUnfinishedPart));
  EXPECT_EQ(over["complete"], false);
}

}  // namespace ddl
