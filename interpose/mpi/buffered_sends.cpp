#include "interpose/mpi/buffered_sends.hpp"

#include <atomic>

#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

std::atomic<bool> has_persistent{false};  // from the first MPI_Bsend_init on

void take_back_space() {
  constexpr int kMoves = 2;  // what one has received another completes
  if (!state().active) return;
  for (int i = 0; i < kMoves; ++i) move_original();
}

}  // namespace

int bsend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  take_back_space();
  return DDL_NEXT(MPI_Bsend)(buffer, count, type, to, tag, comm);
}

int ibsend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
           MPI_Request* request) {
  take_back_space();
  return DDL_NEXT(MPI_Ibsend)(buffer, count, type, to, tag, comm, request);
}

int bsend_init(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  has_persistent.store(true, std::memory_order_relaxed);
  return DDL_NEXT(MPI_Bsend_init)(buffer, count, type, to, tag, comm, request);
}

void before_start() {
  if (has_persistent.load(std::memory_order_relaxed)) take_back_space();
}

}  // namespace ddl::mpi
