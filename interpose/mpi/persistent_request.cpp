#include "interpose/mpi/persistent_request.hpp"

#include <sched.h>

#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

int PersistentRequest::make(MPI_Comm comm, MPI_Request* request) {
  comm_ = comm;
  const int result = PMPI_Recv_init(nullptr, 0, MPI_BYTE, 0, tag_, mpi::state().own_self, request);
  request_ = *request;
  return result;
}

bool PersistentRequest::may_begin_without_receive() {
  if (state() == State::inactive) return true;
  start_receive();
  return false;
}

void PersistentRequest::begin() {
  State was = State::inactive;
  state_.compare_exchange_strong(was, State::started, std::memory_order_acq_rel);
}

void PersistentRequest::not_begun() {
  has_receive() ? tell() : state_.store(State::inactive, std::memory_order_release);
}

// The handler comes last: it may throw.
void PersistentRequest::end(int error) {
  State was = State::started;
  if (!state_.compare_exchange_strong(was, State::ended, std::memory_order_acq_rel)) tell();
  if (error != MPI_SUCCESS) ask_error_handler(comm_, error);
}

void PersistentRequest::start_receive() {
  State was = State::started;
  bool is_mine = state_.compare_exchange_strong(was, State::starts_receive, std::memory_order_acq_rel);
  const bool has_ended = !is_mine && was == State::ended;
  if (has_ended)
    is_mine = state_.compare_exchange_strong(was, State::starts_receive, std::memory_order_acq_rel);
  if (is_mine) {
    PMPI_Start(&request_);
    state_.store(State::has_receive, std::memory_order_release);
    if (has_ended) tell();
  }
  while (state() == State::starts_receive) ::sched_yield();
}

void PersistentRequest::complete() {
  if (state() == State::ended)
    state_.store(State::inactive, std::memory_order_release);
  else
    start_receive();
}

// A send need not wait for its receive where that has been started; but where threads wait for each other in
// the library's progress, which may have called us, it must not.
void PersistentRequest::tell() {
  const MPI_Comm self = mpi::state().own_self;
  if (!mpi::state().several_threads) {
    PMPI_Send(nullptr, 0, MPI_BYTE, 0, tag_, self);
    return;
  }
  MPI_Request sent = MPI_REQUEST_NULL;
  if (PMPI_Isend(nullptr, 0, MPI_BYTE, 0, tag_, self, &sent) == MPI_SUCCESS) PMPI_Request_free(&sent);
}

}  // namespace ddl::mpi
