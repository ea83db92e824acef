#include "launcher/supervise.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace ddl {
namespace {

JobSpec shell(const std::string& script) { return {{"sh", "-c", script}, {{"DDL_TEST_WORD", "here"}}}; }

}  // namespace

TEST(Supervise, TheExitCodeIsTheJobs) {
  EXPECT_EQ(supervise(shell("exit 5")).code, 5);
  EXPECT_EQ(supervise(shell("kill -SEGV $$")).code, 128 + SIGSEGV);
  EXPECT_EQ(supervise({{"/nonexistent/mpirun"}, {}}).code, 127);
}

TEST(Supervise, TheOutputReachesTheSinkAndTheEnvironmentTheJob) {
  std::string text;
  EXPECT_EQ(supervise(shell("echo $DDL_TEST_WORD"), [&](std::string_view piece) { text += piece; }).code, 0);
  EXPECT_EQ(text, "here\n");
}

TEST(Supervise, ASignalSentToUsReachesTheJob) {
  // The job asks for the signal itself once its trap is set, so the test cannot be too early.
  int code = supervise(shell("trap 'exit 7' USR1; kill -USR1 $PPID; while :; do sleep 0.05; done")).code;
  EXPECT_EQ(code, 7);
}

}  // namespace ddl
