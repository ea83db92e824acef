// The ranks that the same starter has made on this host, before they can say so themselves: for when one does
// not come to MPI_Init.
#pragma once

#include <string>
#include <vector>

#include "core/base/process.hpp"
#include "core/base/types.hpp"

namespace ddl {

/// Threads of a rank by whose names its siblings see how far it is. At most 15 letters.
inline constexpr const char* kJoiningThread = "ddl-joining";
inline constexpr const char* kJoinedThread = "ddl-watch";

/// How far a rank is with joining; unknown: it does not run with our library, as far as can be seen.
enum class Joining { unknown, not_yet, under_way, over };

struct Sibling {
  Rank rank;
  ProcessState state;
  Joining joining;
};

/// Of a process with threads of these names, one per line, and that environment.
Joining joining_of(const std::string& threads, const std::string& environment);

/// The rank of a process with that environment (entries that end with a 0) in the job of that name; -1: it
/// has none there.
Rank rank_in(const std::string& environment, const std::string& job);

/// Of this process, before it has asked PMIx; -1: no starter has given it one.
Rank own_rank();

/// This process's parent's children of the same job, this one among them, in order of rank. Empty where /proc
/// does not tell.
std::vector<Sibling> siblings();

}  // namespace ddl
