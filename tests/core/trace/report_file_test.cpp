#include "core/trace/report_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/full_disk.hpp"

namespace ddl {

using nlohmann::json;

TEST(ReportFile, HoldsWhatAFrontOfThisJobWroteAndNothingOlder) {
  const std::string name = "/tmp/ddl-report-file-" + std::to_string(::getpid());
  const json older = empty_report(2, false, "left to NCCL"), report = empty_report(3, true, "");
  ReportFile earlier_job(name), beside(name);
  EXPECT_TRUE(beside.written().is_null());
  earlier_job.write(older);
  EXPECT_EQ(beside.written(), older);
  ReportFile mpi(name), nccl(name);
  EXPECT_TRUE(nccl.written().is_null()) << "of another job";
  mpi.write(report);
  EXPECT_EQ(nccl.written(), report);
  EXPECT_FALSE(write_file(name, "{\"no\": \"report\"}"));
  EXPECT_TRUE(nccl.written().is_null());
  EXPECT_FALSE(write_file(name, "[1"));
  EXPECT_TRUE(nccl.written().is_null());
  std::filesystem::remove(name);
}

TEST(ReportFile, WhatIsOnlyKeptIsNotAddedToUnlessItIsMpis) {
  const std::string name = "/tmp/ddl-report-kept-" + std::to_string(::getpid());
  json kept = empty_report(2, true, ""), counted = kept;
  kept["complete"] = false;
  ReportFile gloo(name), nccl(name);
  gloo.write(kept);
  EXPECT_TRUE(gloo.written().is_null()) << "its own";
  EXPECT_EQ(nccl.written(), kept);
  EXPECT_TRUE(nccl.settled().is_null());
  counted["collectives"].push_back({{"name", "ncclAllReduce"}});
  nccl.write(counted);
  EXPECT_EQ(gloo.settled(), counted);
  kept["collectives"].push_back({{"name", "MPI_Allreduce"}});
  ReportFile(name).write(kept);
  EXPECT_EQ(gloo.settled(), kept);
  gloo.write(counted);
  EXPECT_EQ(gloo.settled(), kept) << "what it has added to";
  std::filesystem::remove(name);
}

TEST(ReportFile, IsKeptInAFileAlone) {
  EXPECT_TRUE(may_be_kept("/tmp/ddl-no-such-report"));
  EXPECT_FALSE(may_be_kept("/dev/null"));
  EXPECT_FALSE(may_be_kept(""));
}

TEST(ReportFile, AFullDiskIsNotTakenForAWrittenReport) {
  const std::string name = "/tmp/ddl-report-full-" + std::to_string(::getpid());
  const json report = empty_report(1, false, std::string(1000, 'x'));
  testing::internal::CaptureStderr();
  {
    test::FullDisk full;
    ReportFile(name).write(report);
  }
  EXPECT_FALSE(std::filesystem::exists(name));
  ReportFile(name).write(report);  // nothing to say
  std::filesystem::remove(name);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("ddl: error: cannot write the report to " + name + " (File too large)"),
            std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

}  // namespace ddl
