// PersistentRequest: the request of a persistent collective, as the program has it: a persistent receive of
// nothing, on our own duplicate of MPI_COMM_SELF. To the MPI library that is a request like any other.
//
// Most programs start such a request and wait for it with MPI_Wait or MPI_Waitall, which are ours. There the
// receive need not be started at all: to the library the request stays inactive, and its wait has nothing to
// do. Whoever wants to see it otherwise (MPI_Test and the like, a wait for other requests, too) has it
// started first; from then on each start begins with it, and a message to ourselves completes it. The two
// cost 50 to 100 ns.
//
// Thread safety: end(), by any thread, beside all others, and start_receive(); else as MPI demands of the
// calls on one request.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>

#include "interpose/mpi/own_tag.hpp"

namespace ddl::mpi {

struct Pending;

class PersistentRequest {
 public:
  PersistentRequest() = default;
  PersistentRequest(const PersistentRequest&) = delete;
  PersistentRequest& operator=(const PersistentRequest&) = delete;
  /// Makes it, of a call on that communicator, whose error handler is asked.
  int make(MPI_Comm comm, MPI_Request* request);

  /// Before a start. False: the receive is to be started with it, or it is under way, which the library then
  /// says of its receive.
  bool may_begin_without_receive();
  void begin();
  /// There will be no end().
  void not_begun();
  /// When what was started is over, with an MPI error code.
  void end(int error);

  bool has_receive() const { return state() == State::has_receive; }
  /// From now on it has one, unless it is inactive. By several threads at once.
  void start_receive();
  /// Its owner has waited in the engine: what has ended is inactive now; else it waits for the receive.
  void complete();

  Pending* under_way = nullptr;  // the engine's call of its start, see requests.cpp

 private:
  enum class State : std::uint8_t { inactive, started, ended, starts_receive, has_receive };
  State state() const { return state_.load(std::memory_order_acquire); }
  void tell();

  const OwnTag tag_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::atomic<State> state_{State::inactive};
};

}  // namespace ddl::mpi
