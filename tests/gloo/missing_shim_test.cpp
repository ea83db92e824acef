#include "interpose/gloo/missing_shim.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ddl::gloo {
namespace {

constexpr bool kYes = true, kNo = false;

TEST(GlooMissingShim, WhoHasGlooAndNotTheShimIsNamedByTheLowestOther) {
  const std::vector<JobProcess> job = {
      {12, 2, kYes, kYes}, {10, 0, kYes, kNo}, {11, 1, kYes, kYes}, {13, 3, kYes, kNo}};
  EXPECT_EQ(text_of_those_without_shim(job, 12), "");
  EXPECT_EQ(text_of_those_without_shim(job, 10), "");
  EXPECT_NE(text_of_those_without_shim(job, 11).find("rank 0 (process 10), rank 3 (process 13) run without"),
            std::string::npos);
  EXPECT_EQ(text_of_those_without_shim(job, 99), "")
      << "a process that /proc does not show as one of the job";
}

TEST(GlooMissingShim, WhatARankHasStartedIsNoRank) {
  // A shell that starts the program, something that it runs, and a rank that has not loaded gloo yet.
  const std::vector<JobProcess> job = {
      {9, 0, kNo, kNo}, {10, 0, kYes, kYes}, {20, 0, kYes, kNo}, {11, 1, kNo, kNo}, {12, 2, kYes, kYes}};
  EXPECT_TRUE(without_shim(job).empty());
  EXPECT_NE(text_of_those_without_shim(job, 10).find("ranks on other hosts"), std::string::npos);
  EXPECT_EQ(text_of_those_without_shim(job, 12), "");
}

TEST(GlooMissingShim, OtherJobsAreNotLookedAt) {
  for (const JobProcess& one : processes_of_this_job()) EXPECT_GE(one.rank, 0);
}

}  // namespace
}  // namespace ddl::gloo
