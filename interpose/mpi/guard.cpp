#include "interpose/mpi/guard.hpp"

#include <fmt/format.h>

#include <exception>

#include "core/base/log.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

thread_local bool thrown_by_program = false;  // what is under way

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

void note_thrown_by_program() noexcept { thrown_by_program = true; }

// What the handler calls is the program's; and it may leave by a longjmp().
int ask_error_handler(MPI_Comm comm, int code) {
  state().unwound();
  Original<int(MPI_Comm, int)>{PMPI_Comm_call_errhandler}(comm, code);
  return code;
}

int report_error(const std::string& line, MPI_Comm comm, int code) {
  log_error(line);
  return ask_error_handler(comm, code);
}

int report_exception(const char* hook, MPI_Comm comm) {
  if (thrown_by_program) throw;
  try {
    throw;
  } catch (const std::exception& error) {
    say(hook, error.what());
  } catch (...) {
    say(hook, "an unknown error");
  }
  if (can_ask_handler()) ask_error_handler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

int end_with_exception(const char* hook, MPI_Comm comm) {
  try {
    return report_exception(hook, comm);
  } catch (...) {
    thrown_by_program = false;
    state().unwound();
    throw;
  }
}

}  // namespace ddl::mpi
