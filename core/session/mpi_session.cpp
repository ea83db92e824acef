#include "core/session/mpi_session.hpp"

#include <utility>

#include "core/base/biased_mutex.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/siblings.hpp"

namespace ddl {

std::unique_ptr<Session> announce(HostLibrary library) {
  BiasedMutex::prepare();  // before PMIx, MPI and we start threads
  SessionOptions options;
  options.keeps_report = true;
  options.waits_awake = true;
  try {
    options.env = load_env();
  } catch (const UsageError& error) {
    options.trouble = error.what();
    options.env.report = foreign_env("DDL_REPORT");  // which is to tell that
  }
  // PMIx itself may wait for a rank that does not go on.
  if (const Rank rank = own_rank(); rank >= 0 && options.env.enable)
    options.join_watch =
        std::make_unique<JoinWatch>(nanoseconds_of(options.env.stall_warn_s), "MPI_Init", rank);
  options.progress_hook = library.calls_from_waits;
  options.progress = std::move(library.progress);
  JobStart start = start_by_pmix(options.env.timeout_s, std::move(library.exchange));
  if (!start.exchange) return nullptr;
  if (start.exchange->rank() == 0)
    for (const std::string& warning : options.env.warnings) log_warning(warning);
  // Last: who has published an endpoint info is waited for.
  return std::make_unique<Session>(std::move(start), std::move(options));
}

}  // namespace ddl
