#include "interpose/mpi/guard.hpp"

#include <fmt/format.h>

#include <exception>

#include "core/base/log.hpp"

namespace ddl::mpi {
namespace {

void say(const char* hook, const char* what) noexcept {
  try {
    log_error(fmt::format("{} failed: {}", hook, what));
  } catch (...) {  // no memory for a line
  }
}

// Before MPI_Init and after MPI_Finalize nobody can be asked.
bool can_ask_handler() {
  int is_initialized = 0, is_finalized = 0;
  PMPI_Initialized(&is_initialized);
  PMPI_Finalized(&is_finalized);
  return is_initialized && !is_finalized;
}

}  // namespace

int report_error(const std::string& line, MPI_Comm comm, int code) {
  log_error(line);
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

int report_exception(const char* hook, MPI_Comm comm) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    say(hook, error.what());
  } catch (...) {
    say(hook, "an unknown error");
  }
  if (can_ask_handler())
    PMPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

}  // namespace ddl::mpi
