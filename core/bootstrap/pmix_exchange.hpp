// The exchange of a process that a PMIx server started. Round 1 is a put before the initialisation of the MPI
// library and gets after it: the exchange in there carries the bytes, so a rank without the engine is seen
// alike by all others. Later rounds are all-gathers of the MPI library, which work even where the first one
// has failed on this rank.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/bootstrap/exchange.hpp"

namespace ddl {

/// Fills `all` with every rank's bytes, by rank, as many from each. Waits for them; false: it failed.
using AllGather = std::function<bool(std::span<const std::byte> mine, std::byte* all)>;

/// What the MPI library lends, once it is initialised.
struct MpiExchange {
  AllGather all_gather;
  std::function<std::string()> published_key;  // one under which it tells all ranks something; "": not known
};

/// No exchange where there is no PMIx server (a process outside any job). PMIx counts its users, so the MPI
/// library's own use is not disturbed, in whatever order both begin and end. Throws Error.
JobStart start_by_pmix(double timeout_s, MpiExchange mpi);

}  // namespace ddl
