#include "launcher/run_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace ddl {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) read = ends[0], write = ends[1];
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

// In the child: only async-signal-safe calls between fork and exec.
[[noreturn]] void become(char* const* argv, int out, int err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed launcher leaves no helper behind
  int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execvp(argv[0], argv);
  _exit(127);
}

// Appends what is there; closes the end when the writers are gone.
void drain(int& end, std::string& text) {
  char buffer[4096];
  ssize_t got = ::read(end, buffer, sizeof buffer);
  if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) Pipe::close_end(end);
}

// Reads both ends until they close; false when the time is over first.
bool collect(int& out, int& err, CommandResult& result, Clock::time_point deadline) {
  while (out >= 0 || err >= 0) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> ends{{{out, POLLIN, 0}, {err, POLLIN, 0}}};
    if (poll(ends.data(), ends.size(), static_cast<int>(left)) <= 0) continue;
    if (ends[0].revents) drain(out, result.output);
    if (ends[1].revents) drain(err, result.errors);
  }
  return true;
}

}  // namespace

CommandResult run_command(const Strings& command, std::chrono::milliseconds limit) {
  CommandResult result;
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Pipe out, err;
  if (out.read < 0 || err.read < 0) return result;
  pid_t child = fork();
  if (child < 0) return result;
  if (child == 0) become(argv.data(), out.write, err.write);
  setpgid(child, child);  // also here: the kill below must not come before the child's own call
  Pipe::close_end(out.write);
  Pipe::close_end(err.write);
  if (!collect(out.read, err.read, result, Clock::now() + limit)) {
    result.timed_out = true;
    kill(-child, SIGKILL);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace ddl
