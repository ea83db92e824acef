// --json.
#pragma once

#include <fstream>
#include <nlohmann/json_fwd.hpp>

#include "options.hpp"

namespace bench {

/// Opens it on rank 0. Collective, and before the measurement: a typing error should not cost the user the
/// whole run.
bool open_results(const Options& options, int rank, std::ofstream& file);

/// On rank 0, to the file or to standard output, where one is wanted. False, and said, when it could not be
/// written.
bool write_results(const Options& options, const nlohmann::json& results, std::ofstream& file);

}  // namespace bench
