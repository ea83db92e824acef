#include "launcher/supervise.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "launcher/messages.hpp"

namespace ddl {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

std::vector<char*> argv_of(const Strings& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

void set_environment(const Assignments& environment) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
}

// Signals are taken by sigwaitinfo in one place instead of by handlers; the mask is restored at the end.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&held_);
    for (int signal : kForwarded) sigaddset(&held_, signal);
    sigaddset(&held_, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  const sigset_t& held() const { return held_; }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t held_{}, before_{};
};

// A key at the terminal reaches the whole process group, mpirun too: only what was sent to us alone is passed
// on.
void forward(pid_t child, const siginfo_t& info) {
  bool from_terminal = info.si_code == SI_KERNEL;
  if (!from_terminal) kill(child, info.si_signo);
  if (info.si_signo == SIGTSTP) raise(SIGSTOP);
}

std::optional<int> exit_code_of(pid_t child) {
  int status = 0;
  pid_t ended = waitpid(child, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  if (ended < 0) return 1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool ends_jobs(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

JobEnd wait_for(pid_t child, const sigset_t& held) {
  JobEnd end;
  while (true) {
    if (auto code = exit_code_of(child)) {
      end.code = *code;
      return end;
    }
    siginfo_t info{};
    timespec limit{1, 0};  // a lost SIGCHLD must not become a hang
    if (sigtimedwait(&held, &info, &limit) > 0 && info.si_signo != SIGCHLD) {
      forward(child, info);
      if (ends_jobs(info.si_signo)) end.interrupted = info.si_signo;
    }
  }
}

[[noreturn]] void run_child(char* const* argv, int output, const sigset_t& mask, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a killed launcher must not leave its job behind
  if (getppid() != parent) _exit(kExitLaunch);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  execvp(argv[0], argv);
  _exit(127);
}

void pump(int from, const OutputSink& sink) {
  char buffer[16384];
  while (true) {
    ssize_t got = read(from, buffer, sizeof buffer);
    if (got > 0) sink({buffer, static_cast<std::size_t>(got)});
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

}  // namespace

void become_job(const JobSpec& job) {
  set_environment(job.environment);
  execvp(job.command[0].c_str(), argv_of(job.command).data());
  throw LaunchError(fmt::format("cannot execute {}", job.command[0]), std::strerror(errno), "check PATH");
}

JobEnd supervise(const JobSpec& job, const OutputSink& sink, const std::function<void(pid_t)>& started) {
  set_environment(job.environment);
  std::vector<char*> argv = argv_of(job.command);
  int ends[2] = {-1, -1};
  if (sink && pipe2(ends, O_CLOEXEC) != 0)
    throw LaunchError("cannot make a pipe", std::strerror(errno), "free some files");
  SignalsHeld signals;
  pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0)
    throw LaunchError("cannot start a process", std::strerror(errno), "free some memory or processes");
  if (child == 0) run_child(argv.data(), ends[1], signals.before(), parent);
  if (started) started(child);
  std::thread reader;
  if (sink) {
    close(ends[1]);
    reader = std::thread(pump, ends[0], std::cref(sink));
  }
  const JobEnd end = wait_for(child, signals.held());
  if (sink) {
    reader.join();
    close(ends[0]);
  }
  return end;
}

}  // namespace ddl
