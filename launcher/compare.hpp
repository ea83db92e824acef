// --compare: the same job under plain mpirun and under the engine, several times in turn when it is short:
// how long each took with and without its start, how much of that in all-reduces, whether the difference is
// more than runs of one kind differ by, and whether the line by which the program lets its result be checked
// is the same. That line starts with `check:` or `CHECK`; the last one on each run's standard output counts.
// Tables of ddl-bench are joined by size, those of its --replay by what was measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/watched_job.hpp"

namespace ddl {

/// A row of ddl-bench's tables: its name, where it has one, and bytes.
using BenchRow = std::pair<std::string, std::uint64_t>;

/// Remembers the last checkable line of a stream that arrives in pieces, and the rows of ddl-bench's tables.
class OutputReader {
 public:
  void feed(std::string_view piece);
  /// The line, also when the stream ended without a newline behind it.
  std::optional<std::string> check() const;
  /// Median microseconds.
  const std::map<BenchRow, double>& bench() const { return bench_; }

 private:
  void take(const std::string& line);

  std::string open_;  // the line still growing
  std::optional<std::string> check_;
  bool in_table_ = false;
  std::map<BenchRow, double> bench_;
};

struct Outcome {
  JobEnd end;
  double seconds = 0;  // wall time, the start included
  std::optional<std::string> check;
  std::map<BenchRow, double> bench;
  // By the report: between MPI_Init and MPI_Finalize, in blocking all-reduces per rank, and what the engine
  // sent over rails.
  std::optional<double> inside, all_reduce, rail_bytes;
};

/// What a report holds: seconds in all-reduces per rank, engine and original, without nonblocking ones, whose
/// time is not the program's; seconds between Init and Finalize; bytes over rails.
std::optional<double> all_reduce_seconds(const std::string& report);
std::optional<double> inside_seconds(const std::string& report);
std::optional<double> rail_bytes(const std::string& report);

/// What is compared: `counted` is the plain run that timed its all-reduces.
struct Comparison {
  Outcome counted;
  std::vector<Outcome> plain, engine;  // in the order they ran; of short jobs several
};

/// The lines that end a comparison. Pure.
std::string comparison_text(const Comparison& done);

/// Runs both; the exit code is that of the run under the engine, or of the plain one when that failed.
int run_comparison(const JobInputs& in, const ReportPlace& report);

}  // namespace ddl
