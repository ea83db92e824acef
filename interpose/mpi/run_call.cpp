#include "interpose/mpi/run_call.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "core/base/log.hpp"

namespace ddl::mpi {
namespace {

std::array<std::array<std::atomic<std::uint64_t>, 2>, kCollectives> empty_calls{};

}  // namespace

int done_without_elements(Collective collective, Form form) {
  empty_calls[static_cast<std::size_t>(collective)][static_cast<std::size_t>(form)].fetch_add(
      1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

void count_empty_calls() {
  State& s = state();
  for (int collective = 0; collective < kCollectives; ++collective)
    for (int form = 0; form < 2; ++form)
      if (std::uint64_t calls =
              empty_calls[static_cast<std::size_t>(collective)][static_cast<std::size_t>(form)].exchange(0))
        s.api->count_empty(s.job, name_of(static_cast<Collective>(collective), static_cast<Form>(form)),
                           calls);
}

int report_failure(MPI_Comm comm) {
  State& s = state();
  log_error(std::string(s.api->failure(s.job)));
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);  // aborts the job unless the program asked for error codes
  return MPI_ERR_OTHER;
}

int report_unreadable(Collective collective, Form form, MPI_Comm comm) {
  log_error(fmt::format("{}: MPI cannot pack the elements of the buffer", name_of(collective, form)));
  PMPI_Comm_call_errhandler(comm, MPI_ERR_TYPE);
  return MPI_ERR_TYPE;
}

}  // namespace ddl::mpi
