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

TEST(Supervise, AStarterThatHangsAtItsEndIsEnded) {
  // Has a child, which it does not collect, and waits for a lock for ever, as Open MPI's mpirun may.
  const char* hangs =
      "import os, threading\n"
      "os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '1')\n"
      "lock = threading.Lock()\n"
      "lock.acquire()\n"
      "lock.acquire()\n";
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise({{"python3", "-c", hangs}, {}}).code, 128 + SIGKILL);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("mpirun does not end"), std::string::npos);
}

TEST(Supervise, WhatTheStarterLeavesBehindIsEnded) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise(shell("sleep 1000 & sleep 1; exit 4")).code, 4);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("which is killed"), std::string::npos);
}

TEST(Supervise, WhatAProgramOfTheStartersLeavesBehindIsLeftAlone) {
  std::string process;
  EXPECT_EQ(supervise(shell("sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!' | cat; sleep 1"),
                      [&](std::string_view piece) { process += piece; })
                .code,
            0);
  EXPECT_EQ(kill(std::stoi(process), SIGKILL), 0);
}

}  // namespace ddl
