#include "launcher/report_check.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "core/base/error.hpp"

namespace ddl {

TEST(ReportCheck, ARewrittenFileHasANewStamp) {
  std::string file = "/tmp/ddl-report-" + std::to_string(getpid());
  EXPECT_EQ(stamp_of(file), FileStamp{});
  std::ofstream(file) << "old";
  FileStamp before = stamp_of(file);
  EXPECT_NE(before, FileStamp{});
  EXPECT_EQ(stamp_of(file), before);
  std::ofstream(file) << "newer";
  EXPECT_NE(stamp_of(file), before);
  std::remove(file.c_str());
}

TEST(ReportCheck, AMissingFolderIsFoundBeforeTheJobRuns) {
  EXPECT_THROW(check_report_place("/nonexistent/r.json"), UsageError);
  EXPECT_THROW(check_report_place("/tmp"), UsageError);
  EXPECT_NO_THROW(check_report_place("/tmp/ddl-no-such-report.json"));
}

}  // namespace ddl
