// Requests of nonblocking calls: genuine ones of the MPI library, completed by its own progress.
// Thread safety: all functions.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "interpose/mpi/call_buffers.hpp"
#include "interpose/mpi/persistent_request.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

/// What a request stands for. Asked in the program's own Wait or Test, by one thread at a time.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual bool is_done() = 0;
  /// Once, when it is done; an MPI error code.
  virtual int finish() = 0;
};
/// That stands for a nonblocking call of the original library, whose request is `request_`.
class OriginalWork : public PendingWork {
 public:
  /// Moves the library, and comes back here in doing so.
  bool is_done() override;

 protected:
  MPI_Request request_ = MPI_REQUEST_NULL;
  int error_ = MPI_SUCCESS;
};
/// What the engine names when a call on that communicator is done; either dropped or made a request of. The
/// buffers are those that the engine has.
struct Pending;
Pending* new_pending(CommState* comm, CallBuffers buffers, std::uint64_t bytes);
/// The same of a call that needs nothing but its layouts.
using Layouts = std::array<std::shared_ptr<const Blocks>, 2>;
Pending* new_pending(CommState* comm, Layouts layouts);
void drop_pending(Pending* call);
/// Of one that was done at once, before it is dropped: brings its result where it belongs; an MPI error code.
int finish_pending(Pending* call);
/// A real MPI request for work under way. It completes in the program's own Wait or Test, through the
/// progress hook.
int make_request(Pending* call, ddl_started* started, MPI_Request* request);
int make_request(std::unique_ptr<PendingWork> work, MPI_Request* request);
/// The same without a request.
void watch(std::unique_ptr<PendingWork> work);
/// While it lives, the next nonblocking call that this thread makes is the start of a persistent one. Where
/// the engine takes it, it gets no request: that is MPI_REQUEST_NULL. Else the original's request for it is
/// started.
class PersistentStart {
 public:
  PersistentStart(std::shared_ptr<PersistentRequest> of, MPI_Request original);
  ~PersistentStart();
  PersistentStart(const PersistentStart&) = delete;
  PersistentStart& operator=(const PersistentStart&) = delete;
  /// That of this thread, if there is one.
  static PersistentStart* current() {
    return there_are_.load(std::memory_order_relaxed) > 0 ? of_thread() : nullptr;
  }
  /// There was such a call, and PersistentRequest::end() is, or was, called.
  bool has_taken() const { return !of_; }
  std::shared_ptr<PersistentRequest> take() { return std::exchange(of_, nullptr); }
  int start_original(MPI_Request* request);

 private:
  static PersistentStart* of_thread();
  static inline std::atomic<int> there_are_{0};  // of all threads

  std::shared_ptr<PersistentRequest> of_;
  MPI_Request original_;
};
/// A request that is complete already.
int make_done_request(MPI_Request* request);
/// Whether this MPI library lets us into its Wait and Test: without, no request of ours is ever done.
inline bool can_make_requests() { return state().opal_progress_register && state().opal_progress_unregister; }
/// Stops completing requests; all are done when MPI_Finalize may be called.
void close_requests();
/// Moves the original library while one of its calls waits in the engine.
void move_original();

}  // namespace ddl::mpi
