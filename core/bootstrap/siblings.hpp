// The ranks that the same starter has made on this host, before they can say so themselves: for when one does
// not come to MPI_Init.
#pragma once

#include <string>
#include <vector>

#include "core/base/process.hpp"
#include "core/base/types.hpp"

namespace ddl {

struct Sibling {
  Rank rank;
  ProcessState state;
};

/// The rank of a process with that environment (entries that end with a 0) in the job of that name; -1: it
/// has none there.
Rank rank_in(const std::string& environment, const std::string& job);

/// This process's parent's children of the same job, this one among them, in order of rank. Empty where /proc
/// does not tell.
std::vector<Sibling> siblings();

}  // namespace ddl
