// Runs a piece of work in a process of its own and brings its result back. SimGrid has one engine per process
// and never gives it up; and a simulation that crashes takes only its own row with it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <type_traits>

namespace ddl::simulation {

/// nullopt when the process died or threw; its words are then on stderr. The work must not leave threads.
template <class Work>
auto run_isolated(Work&& work) -> std::optional<decltype(work())> {
  using Result = decltype(work());
  static_assert(std::is_trivially_copyable_v<Result>);
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  std::fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      Result result = work();
      status = write(ends[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result) ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ddl-simulate: error: %s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(status);  // SimGrid's own end is not worth waiting for
  }
  close(ends[1]);
  Result result{};
  bool whole = child > 0 && read(ends[0], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return whole && status == 0 ? std::optional(result) : std::nullopt;
}

}  // namespace ddl::simulation
