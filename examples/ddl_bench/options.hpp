// The command line of ddl-bench, as a value. Parsing touches neither MPI nor files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Options {
  std::uint64_t min_bytes = 4;
  std::uint64_t max_bytes = 64 << 20;
  std::string range;  // --sizes
  double factor = 2;
  std::string op = "allreduce";
  std::string dtype = "float32";
  std::string reduce = "sum";
  int iters = 0;    // 0: a number that falls with the size, the same on every machine
  int warmup = -1;  // -1: half as many as the iterations, of long calls a tenth, at least two
  bool inplace = false;
  double tolerance = 0;    // how far a sum may be off, as a part of the largest
  std::string replay;      // a list of gradients instead of sizes, see model.hpp
  double compute_ms = -1;  // of a step; -1: as the list says
  bool blocking = false, sleep = false;
  std::string json;  // a file, "-": standard output, where the table then goes to standard error
};

struct Parsed {
  Options options;
  int exit_code = 0;
  bool run = true;   // false: print `text` and leave with exit_code
  std::string text;  // help, or one line that says what is wrong
};

Parsed parse(int argc, char** argv);

// The sizes to measure in bytes, ascending: from the smallest on, each the one before times the factor, whole
// elements. The smallest is rounded up.
std::vector<std::uint64_t> sizes(const Options& options);

// How often a message of this size is measured. Depends on the size alone, so that two runs do the same work.
int iterations(const Options& options, std::uint64_t bytes);
int warmups(const Options& options, std::uint64_t bytes);

}  // namespace bench
