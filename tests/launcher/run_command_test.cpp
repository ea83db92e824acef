#include "launcher/run_command.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(RunCommand, BothStreamsAndTheCodeComeBack) {
  CommandResult result =
      run_command({"sh", "-c", "echo out; echo err >&2; exit 5"}, std::chrono::seconds(20));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
}

TEST(RunCommand, ALargeOutputIsReadCompletely) {
  CommandResult result = run_command({"sh", "-c", "head -c 1000000 /dev/zero"}, std::chrono::seconds(20));
  EXPECT_EQ(result.output.size(), 1000000u);
}

TEST(RunCommand, AMissingProgramIsCode127) {
  EXPECT_EQ(run_command({"/nonexistent/program"}, std::chrono::seconds(20)).exit_code, 127);
}

TEST(RunCommand, TheTimeLimitEndsTheWholeGroup) {
  auto start = std::chrono::steady_clock::now();
  CommandResult result = run_command({"sh", "-c", "sleep 30 & wait"}, std::chrono::milliseconds(200));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + 9);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace ddl
