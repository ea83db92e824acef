#include "launcher/supervise.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "launcher/messages.hpp"
#include "launcher/starter_watch.hpp"

namespace ddl {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

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
void forward(pid_t child, const signalfd_siginfo& info) {
  const int signal = static_cast<int>(info.ssi_signo);
  if (info.ssi_code != SI_KERNEL) kill(child, signal);
  if (signal == SIGTSTP) raise(SIGSTOP);
}

// As waitpid() tells it. Of others, which have lost their parents, nothing is to be known.
std::optional<int> status_of(pid_t child) {
  constexpr int kLost = 1 << 8;  // as of an exit with 1
  for (int status = 0;;) {
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
    if (ended < 0) return kLost;
    if (ended == child) return status;
  }
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// While it lives, processes of mpirun's that it leaves behind become this process's children.
class Subreaper {
 public:
  Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;
};

void end_stuck(pid_t child) {
  print_error(
      "mpirun does not end (its processes are gone, and it has waited for a lock of its own for 5 s, as Open "
      "MPI 4 may when a rank is killed in MPI_Init); it is killed");
  kill(child, SIGKILL);
}

// What kill() is to be told: a process with its group where it leads one, as Open MPI's ranks do, for what it
// has started itself.
pid_t with_group(pid_t process) { return getpgid(process) == process ? -process : process; }

// Takes those out that end within a second.
void await_end(std::vector<pid_t>& targets) {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 1s;
  const auto is_gone = [](pid_t target) { return kill(target, 0) != 0; };
  while (std::erase_if(targets, is_gone), !targets.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

void end_left_behind(const StarterWatch& watch) {
  std::vector<pid_t> left = watch.left_behind();
  std::transform(left.begin(), left.end(), left.begin(), with_group);
  await_end(left);  // they may be about to end
  for (const pid_t target : left) {
    print_warning(fmt::format("mpirun has ended without its process {}, which is killed", std::abs(target)));
    kill(target, SIGKILL);
  }
  await_end(left);
}

bool ends_jobs(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

// Hands on what is there; false when nobody will write any more.
bool pump(int from, const OutputSink& sink) {
  char buffer[16384];
  const ssize_t got = read(from, buffer, sizeof buffer);
  if (got > 0) sink({buffer, static_cast<std::size_t>(got)});
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

void take_signals(int signals, pid_t child, JobEnd& end) {
  signalfd_siginfo info{};
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    forward(child, info);
    if (ends_jobs(static_cast<int>(info.ssi_signo))) end.interrupted = static_cast<int>(info.ssi_signo);
  }
}

// Until mpirun has ended and its output has been read.
JobEnd attend(pid_t child, int signals, int output, const OutputSink& sink, const JobLook& look,
              StarterWatch& watch) {
  using std::chrono::milliseconds;
  constexpr milliseconds kLongest{500};  // a lost SIGCHLD must not become a hang
  const auto now = [] { return std::chrono::steady_clock::now(); };
  JobEnd end;
  bool is_over = false, is_looking = static_cast<bool>(look);
  auto next_look = now();
  while (true) {
    if (auto status = is_over ? std::nullopt : status_of(child)) {
      if (WIFSIGNALED(*status)) watch.was_killed();
      end.code = exit_code_of(*status), is_over = true;
    }
    if (is_over && output < 0) return end;
    if (!is_over && watch.look(child)) end_stuck(child);
    if (!is_over && is_looking && now() >= next_look) {
      const milliseconds pause = look(child);
      is_looking = pause.count() > 0;
      next_look = now() + pause;
    }
    milliseconds wait = kLongest;
    if (!is_over && is_looking)
      wait = std::clamp(std::chrono::ceil<milliseconds>(next_look - now()), milliseconds(0), kLongest);
    pollfd ends[2] = {{signals, POLLIN, 0}, {output, POLLIN, 0}};
    if (poll(ends, 2, static_cast<int>(wait.count())) <= 0) continue;
    if (ends[0].revents) take_signals(signals, child, end);
    if (ends[1].revents && !pump(output, sink)) output = -1;
  }
}

[[noreturn]] void run_child(char* const* argv, int output, const sigset_t& mask, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a killed launcher must not leave its job behind
  if (getppid() != parent) _exit(kExitLaunch);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  signal(SIGPIPE, SIG_DFL);  // we may ignore it
  execvp(argv[0], argv);
  _exit(127);
}

}  // namespace

JobEnd supervise(const JobSpec& job, const OutputSink& sink, const JobLook& look) {
  set_environment(job.environment);
  std::vector<char*> argv = argv_of(job.command);
  int ends[2] = {-1, -1};
  if (sink && pipe2(ends, O_CLOEXEC) != 0)
    throw LaunchError("cannot make a pipe", std::strerror(errno), "free some files");
  SignalsHeld held;
  Subreaper subreaper;
  StarterWatch watch;
  const int signals = signalfd(-1, &held.held(), SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) throw LaunchError("cannot wait for signals", std::strerror(errno), "free some files");
  pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0)
    throw LaunchError("cannot start a process", std::strerror(errno), "free some memory or processes");
  if (child == 0) run_child(argv.data(), ends[1], held.before(), parent);
  if (sink) close(ends[1]);
  const JobEnd end = attend(child, signals, ends[0], sink, look, watch);
  end_left_behind(watch);
  close(signals);
  if (sink) close(ends[0]);
  return end;
}

}  // namespace ddl
