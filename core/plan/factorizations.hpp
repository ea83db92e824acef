// The user's dimensions against the number of ranks: what fits, and what to say when it does not.
#pragma once

#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// Throws UsageError in IBM's words unless the product of `dims` is the number of ranks; it names
/// factorizations that fit, those whose first factor fits the ranks of every host first.
void check_dims(std::span<const HostIndex> host_of_rank, std::span<const Rank> dims);

/// The ordered factorizations of `ranks` into at most `most` factors greater than one, the shortest first.
std::vector<std::vector<Rank>> factorizations(Rank ranks, std::size_t most);

}  // namespace ddl
