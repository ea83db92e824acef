#include "core/base/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/base/file.hpp"

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

TEST(Process, RunsOnWithoutTheThreadThatHasBegunIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "no thread can be started there after a fork";
#endif
  int lives[2];
  ASSERT_EQ(pipe(lives), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(lives[1]);
    std::thread([end = lives[0]] {
      char nothing = 0;
      const bool is_over = read(end, &nothing, 1) == 0;
      _exit(is_over ? 0 : 1);
    }).detach();
    syscall(SYS_exit, 0);  // of this thread alone; pthread_exit() would unwind what runs the test
  }
  close(lives[0]);
  const std::string name = "/proc/" + std::to_string(child) + "/stat";
  while (read_file(name, 4096).text.find(") Z") == std::string::npos) usleep(1000);
  EXPECT_EQ(state_of_process(child), ProcessState::runs);
  close(lives[1]);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(state_of_process(child), ProcessState::gone);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace ddl
