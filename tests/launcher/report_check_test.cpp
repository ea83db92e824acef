#include "launcher/report_check.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {

TEST(ReportCheck, AMissingFolderIsFoundBeforeTheJobRuns) {
  EXPECT_THROW(check_report_place("/nonexistent/r.json"), UsageError);
  EXPECT_THROW(check_report_place("/tmp"), UsageError);
  EXPECT_NO_THROW(check_report_place("/tmp/ddl-no-such-report.json"));
}

}  // namespace ddl
