#include "core/session/mpi_session.hpp"

#include <utility>

#include "core/base/error.hpp"
#include "core/base/log.hpp"

namespace ddl {

std::unique_ptr<Session> announce(HostLibrary library) {
  SessionOptions options;
  options.keeps_report = true;
  options.joining = "MPI_Init";
  options.waits_awake = true;
  try {
    options.env = load_env();
  } catch (const UsageError& error) {
    options.trouble = error.what();
  }
  options.progress_hook = library.calls_from_waits;
  options.progress = std::move(library.progress);
  JobStart start = start_by_pmix(options.env.timeout_s, std::move(library.all_gather));
  if (!start.exchange) return nullptr;
  if (start.exchange->rank() == 0)
    for (const std::string& warning : options.env.warnings) log_warning(warning);
  // Last: who has published an endpoint info is waited for.
  return std::make_unique<Session>(std::move(start), std::move(options));
}

}  // namespace ddl
