#include "launcher/supervise.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/process.hpp"
#include "launcher/watched_job.hpp"

namespace ddl {
namespace {

JobSpec shell(const std::string& script) { return {{"sh", "-c", script}, {{"DDL_TEST_WORD", "here"}}}; }

// Their numbers are in a file: what the sink reads would let supervise() look sooner.
void expect_all_ended(const std::string& starter) {
  const std::string name = testing::TempDir() + "ddl-left-" + std::to_string(getpid());
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise({{"bash", "-c", starter, "bash", name}, {}}).code, 128 + SIGKILL);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("which is killed"), std::string::npos);
  std::ifstream file(name);
  int processes = 0;
  for (pid_t process = 0; file >> process; ++processes)
    EXPECT_EQ(state_of_process(process), ProcessState::gone) << process;
  EXPECT_GT(processes, 0);
  std::filesystem::remove(name);
}

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

TEST(Supervise, QuitEndsTheJob) {
  const JobEnd end = supervise(shell("trap 'exit 7' QUIT; kill -QUIT $PPID; while :; do sleep 0.05; done"));
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.interrupted, SIGQUIT);
}

TEST(Supervise, AClosedPipeEndsTheJobAlone) {
  const PipeSignalIgnored ignored;
  raise(SIGPIPE);
  EXPECT_EQ(supervise(shell("kill -PIPE $$")).code, 128 + SIGPIPE);
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

TEST(Supervise, WhatAKilledStarterLeavesBehindIsEndedHoweverShortItWasThere) {
  expect_all_ended("sleep 1000 & echo $! >$1; kill -9 $$");
}

TEST(Supervise, WhatARankHasStartedEndsWithIt) {
  // With set -m a process in the background leads a group of its own, as Open MPI's ranks do.
  expect_all_ended("set -m; sh -c 'sleep 1000 & echo $! >$0; wait' $1 & sleep 1; kill -9 $$");
}

TEST(Supervise, WhatHadLostItsParentBeforeTheStarterWasKilledIsLeftAlone) {
  std::string process;
  EXPECT_EQ(supervise(shell("sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!' | cat; sleep 1; kill -9 $$"),
                      [&](std::string_view piece) { process += piece; })
                .code,
            128 + SIGKILL);
  EXPECT_EQ(kill(std::stoi(process), SIGKILL), 0);
}

}  // namespace ddl
