// What ddl-exec sets for the program alone: LD_PRELOAD and the variables that torch-style programs read
// (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), derived from what mpirun or
// srun set. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/system.hpp"

namespace ddl {

using Assignments = std::vector<std::pair<std::string, std::string>>;

/// The place of this process in its job; absent what the starter did not say.
struct RankFacts {
  std::optional<int> rank, size, local_rank, local_size;
};
RankFacts read_rank_facts(const System& world);

/// The variables to set. What was in the environment before of the rank and the number of ranks is of another
/// job or of a shell, and goes; MASTER_ADDR and MASTER_PORT stay where given. `master` is the host of rank 0,
/// "" unknown.
Assignments rank_variables(const RankFacts& facts, const std::string& master, const System& world);
/// What -v says of variables that were there: which are replaced, which stay; "" when there were none.
std::string stale_variables_text(const Assignments& set, const System& world);

/// `shim` in front of what is preloaded already.
std::string preload_list(const std::string& shim, const std::string& existing);
/// ASAN_OPTIONS that let a program with GCC's address sanitizer run: by itself that ends where another library
/// is preloaded, for fear of an allocator; the shim has none. What the user says of it stays.
std::string asan_options(const std::string& existing);
/// LD_PRELOAD separates names by blanks and colons and has no quotes.
bool can_be_preloaded(const std::string& file);

/// In [10000, 32000), the same for all ranks of a job: below the ports that Linux hands out by itself, one of
/// which some connection may hold.
int master_port(const std::string& job_id);

}  // namespace ddl
