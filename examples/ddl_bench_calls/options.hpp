// The command line of ddl-bench-calls, as a value. Parsing touches neither MPI nor files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace calls {

struct Options {
  std::vector<std::string> only;     // names of items, in their order in items()
  std::vector<std::uint64_t> sizes;  // bytes of a call; none: each item has its own
  int rounds = 0;                    // 0: a number that falls with the size, the same on every machine
  std::string json;
};

struct Parsed {
  Options options;
  int exit_code = 0;
  bool run = true;   // false: print `text` and leave with exit_code
  std::string text;  // help, or one line that says what is wrong
};

Parsed parse(int argc, char** argv);

// The sizes asked for, or those an item has by itself.
std::vector<std::uint64_t> sizes_or(const Options& options, std::vector<std::uint64_t> own);

}  // namespace calls
