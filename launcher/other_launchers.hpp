// Options of other launchers (MPICH's and Intel's mpiexec, srun, torchrun) that people type out of habit:
// each is either said in mpirun's words or answered with what to write instead. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/options.hpp"

namespace ddl {

struct OtherOption {
  std::string_view name;  // without dashes
  int values = 0;
  std::string_view instead;  // mpirun's option, as written; "" with `answer`: none, else it needs none
  std::string_view answer;   // why it cannot be taken, and what to write; "": it can
};

/// The row of an option, or nullptr.
const OtherOption* find_other_option(std::string_view name);

/// The same in mpirun's words. UsageError for a variable without a name.
std::vector<PassedOption> in_mpirun_words(const OtherOption& option, const Strings& values);

}  // namespace ddl
