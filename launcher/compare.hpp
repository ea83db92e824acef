// --compare: the same job under plain mpirun and then under the engine, with both wall times, their ratio,
// and whether the line by which the program lets its result be checked is the same. That line starts with
// `check:` or `CHECK`; the last one on each run's standard output counts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/job_spec.hpp"

namespace ddl {

/// Remembers the last checkable line of a stream that arrives in pieces.
class CheckLine {
 public:
  void feed(std::string_view piece);
  /// The line, also when the stream ended without a newline behind it.
  std::optional<std::string> last() const;

 private:
  std::string open_;  // the line still growing
  std::optional<std::string> last_;
};

struct Outcome {
  int exit_code = 0;
  double seconds = 0;
  std::optional<std::string> check;
};

/// The lines that end a comparison. Pure.
std::string comparison_text(const Outcome& plain, const Outcome& engine);

/// Runs both; the exit code is that of the run under the engine, or of the plain one when that failed.
int run_comparison(const JobSpec& plain, const JobSpec& engine);

}  // namespace ddl
