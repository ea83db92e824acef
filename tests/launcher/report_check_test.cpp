#include "launcher/report_check.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.hpp"

namespace ddl {

TEST(ReportCheck, AMissingFolderIsFoundBeforeTheJobRuns) {
  EXPECT_THROW(check_place("report", "/nonexistent/r.json"), UsageError);
  EXPECT_THROW(check_place("report", "/tmp"), UsageError);
  EXPECT_NO_THROW(check_place("report", "/tmp/ddl-no-such-report.json"));
  const std::string pipe = testing::TempDir() + "ddl-pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NO_THROW(check_place("report", pipe)) << "rank 0 may write there";
  EXPECT_THROW(check_is_read_again(pipe), UsageError);
  std::filesystem::remove(pipe);
}

TEST(ReportCheck, OfADeviceNothingIsSaid) {
  testing::internal::CaptureStderr();
  tell_about_report("/dev/null", {});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(ReportCheck, WhatIsNotWholeIsAnError) {
  const std::string file = testing::TempDir() + "ddl-report-" + std::to_string(getpid());
  auto said_after = [&](const std::string& text) {
    EXPECT_FALSE(write_file(file, text));
    testing::internal::CaptureStderr();
    tell_about_report(file, {});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_after(""),
            "ddlrun: error: the report " + file + " is not whole (0 bytes); is there room for it?\n");
  EXPECT_NE(said_after("{\"ranks\": 2, ").find("is not whole (13 bytes)"), std::string::npos);
  EXPECT_EQ(said_after("{}"), "ddlrun: report written to " + file + "\n");
  std::filesystem::remove(file);
}

}  // namespace ddl
