#include "launcher/compare.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(CheckLine, TheLastOneCountsHoweverTheStreamIsCut) {
  CheckLine check;
  for (const char* piece : {"epoch 1\nche", "ck: 1\nnot check: x\nCHECK sum", "=7\r\nbye\n"})
    check.feed(piece);
  EXPECT_EQ(check.last(), "CHECK sum=7");
}

TEST(CheckLine, ALineWithoutANewlineCounts) {
  CheckLine check;
  check.feed("check: 42");
  EXPECT_EQ(check.last(), "check: 42");
}

TEST(CheckLine, ThereMayBeNone) {
  CheckLine check;
  check.feed("hello\n checking\n");
  EXPECT_FALSE(check.last());
}

TEST(Comparison, TimesRatioAndCheckAreShown) {
  std::string text = comparison_text({0, 3.0, "check: 1"}, {0, 2.0, "check: 1"});
  EXPECT_NE(text.find("3.000 s"), std::string::npos);
  EXPECT_NE(text.find("1.500"), std::string::npos);
  EXPECT_NE(text.find("the same: check: 1"), std::string::npos);
}

TEST(Comparison, ADifferentCheckLineStandsOut) {
  std::string text = comparison_text({0, 1, "check: 1"}, {0, 1, "check: 2"});
  EXPECT_NE(text.find("DIFFERS"), std::string::npos);
  EXPECT_NE(comparison_text({0, 1, "check: 1"}, {0, 1, {}}).find("DIFFERS"), std::string::npos);
  EXPECT_NE(comparison_text({0, 1, {}}, {0, 1, {}}).find("none printed"), std::string::npos);
}

TEST(Comparison, RunsBothAndReturnsTheEnginesCode) {
  testing::internal::CaptureStdout();
  int code = run_comparison({{"sh", "-c", "echo check: 1"}, {}}, {{"sh", "-c", "echo check: 1; exit 4"}, {}});
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 4);
  EXPECT_NE(text.find("the same"), std::string::npos) << text;
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_comparison({{"sh", "-c", "exit 6"}, {}}, {{"sh", "-c", "echo never"}, {}}), 6);
  EXPECT_EQ(testing::internal::GetCapturedStdout().find("never"), std::string::npos);
}

}  // namespace ddl
