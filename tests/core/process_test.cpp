#include "core/base/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddl {

TEST(Process, WhatStartsRanksIsKnownByItsFile) {
  EXPECT_EQ(executable_of(getpid()), "ddl_unit_tests");
  EXPECT_TRUE(is_starter("orted"));
  EXPECT_TRUE(is_starter("mpirun.openmpi"));
  EXPECT_FALSE(is_starter("python3.11"));
  EXPECT_FALSE(is_starter(""));
}

TEST(Process, IsToldToRunToBeStoppedOrToBeGone) {
  EXPECT_EQ(state_of_process(getpid()), ProcessState::runs);
  const pid_t child = fork();
  if (child == 0)
    while (true) pause();
  EXPECT_EQ(state_of_process(child), ProcessState::runs);
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(state_of_process(child), ProcessState::stopped);
  kill(child, SIGKILL);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(state_of_process(child), ProcessState::gone);  // nobody has asked for its exit code yet
  waitpid(child, &status, 0);
  EXPECT_EQ(state_of_process(child), ProcessState::gone);
}

}  // namespace ddl
