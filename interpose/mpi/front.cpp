// The table that the shim asks for, and nothing else.
#include "interpose/mpi/front.hpp"

#include "core/base/env.hpp"
#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/persistent.hpp"

namespace ddl::mpi {
namespace {
ddl_mpi_table originals;
}

State& state() {
  static State* the_state = new State;  // outlives exit handlers of the program
  return *the_state;
}

const ddl_mpi_table& next() { return originals; }

namespace {

template <class Function>
ddl_function as_word(Function* function) {
  return reinterpret_cast<ddl_function>(function);
}

#define DDL_HOOKED(name, hook) front.name = as_word(Guarded<#name, hook>::call)
#define DDL_PERSISTENT(name, start) \
  front.name = as_word(Guarded<#name, Persistent<#name, &ddl_mpi_table::name, start>::init>::call)

void fill(ddl_mpi_table& front) {
  DDL_HOOKED(MPI_Init, init);
  DDL_HOOKED(MPI_Init_thread, init_thread);
  DDL_HOOKED(MPI_Finalize, finalize);
  // Of `ddlrun --compare`: all else goes on as if we were not there.
  if (!foreign_env("DDL_TIMES_ONLY").empty()) return;
  DDL_HOOKED(MPI_Allreduce, allreduce);
  DDL_HOOKED(MPI_Iallreduce, iallreduce);
  DDL_HOOKED(MPI_Bcast, bcast);
  DDL_HOOKED(MPI_Ibcast, ibcast);
  DDL_HOOKED(MPI_Reduce, reduce);
  DDL_HOOKED(MPI_Ireduce, ireduce);
  DDL_HOOKED(MPI_Allgather, allgather);
  DDL_HOOKED(MPI_Iallgather, iallgather);
  DDL_HOOKED(MPI_Allgatherv, allgatherv);
  DDL_HOOKED(MPI_Iallgatherv, iallgatherv);
  DDL_HOOKED(MPI_Reduce_scatter, reduce_scatter);
  DDL_HOOKED(MPI_Ireduce_scatter, ireduce_scatter);
  DDL_HOOKED(MPI_Reduce_scatter_block, reduce_scatter_block);
  DDL_HOOKED(MPI_Ireduce_scatter_block, ireduce_scatter_block);
  DDL_HOOKED(MPI_Alltoall, alltoall);
  DDL_HOOKED(MPI_Ialltoall, ialltoall);
  DDL_HOOKED(MPI_Gather, gather);
  DDL_HOOKED(MPI_Igather, igather);
  DDL_HOOKED(MPI_Scatter, scatter);
  DDL_HOOKED(MPI_Iscatter, iscatter);
  DDL_HOOKED(MPI_Gatherv, gatherv);
  DDL_HOOKED(MPI_Igatherv, igatherv);
  DDL_HOOKED(MPI_Scatterv, scatterv);
  DDL_HOOKED(MPI_Iscatterv, iscatterv);
  DDL_HOOKED(MPI_Alltoallv, alltoallv);
  DDL_HOOKED(MPI_Ialltoallv, ialltoallv);
  DDL_HOOKED(MPI_Alltoallw, alltoallw);
  DDL_HOOKED(MPI_Ialltoallw, ialltoallw);
  DDL_HOOKED(MPI_Barrier, barrier);
  DDL_HOOKED(MPI_Ibarrier, ibarrier);
  DDL_PERSISTENT(MPIX_Allreduce_init, iallreduce);
  DDL_PERSISTENT(MPIX_Bcast_init, ibcast);
  DDL_PERSISTENT(MPIX_Reduce_init, ireduce);
  DDL_PERSISTENT(MPIX_Allgather_init, iallgather);
  DDL_PERSISTENT(MPIX_Allgatherv_init, iallgatherv);
  DDL_PERSISTENT(MPIX_Reduce_scatter_init, ireduce_scatter);
  DDL_PERSISTENT(MPIX_Reduce_scatter_block_init, ireduce_scatter_block);
  DDL_PERSISTENT(MPIX_Alltoall_init, ialltoall);
  DDL_PERSISTENT(MPIX_Alltoallv_init, ialltoallv);
  DDL_PERSISTENT(MPIX_Alltoallw_init, ialltoallw);
  DDL_PERSISTENT(MPIX_Gather_init, igather);
  DDL_PERSISTENT(MPIX_Gatherv_init, igatherv);
  DDL_PERSISTENT(MPIX_Scatter_init, iscatter);
  DDL_PERSISTENT(MPIX_Scatterv_init, iscatterv);
  DDL_PERSISTENT(MPIX_Barrier_init, ibarrier);
  DDL_PERSISTENT(MPI_Allreduce_init, iallreduce);
  DDL_PERSISTENT(MPI_Bcast_init, ibcast);
  DDL_PERSISTENT(MPI_Reduce_init, ireduce);
  DDL_PERSISTENT(MPI_Allgather_init, iallgather);
  DDL_PERSISTENT(MPI_Allgatherv_init, iallgatherv);
  DDL_PERSISTENT(MPI_Reduce_scatter_init, ireduce_scatter);
  DDL_PERSISTENT(MPI_Reduce_scatter_block_init, ireduce_scatter_block);
  DDL_PERSISTENT(MPI_Alltoall_init, ialltoall);
  DDL_PERSISTENT(MPI_Alltoallv_init, ialltoallv);
  DDL_PERSISTENT(MPI_Alltoallw_init, ialltoallw);
  DDL_PERSISTENT(MPI_Gather_init, igather);
  DDL_PERSISTENT(MPI_Gatherv_init, igatherv);
  DDL_PERSISTENT(MPI_Scatter_init, iscatter);
  DDL_PERSISTENT(MPI_Scatterv_init, iscatterv);
  DDL_PERSISTENT(MPI_Barrier_init, ibarrier);
  DDL_HOOKED(MPI_Start, start);
  DDL_HOOKED(MPI_Startall, startall);
  DDL_HOOKED(MPI_Request_free, request_free);
  DDL_HOOKED(MPI_Wait, wait);
  DDL_HOOKED(MPI_Waitall, waitall);
  DDL_HOOKED(MPI_Op_free, op_free);
  DDL_HOOKED(MPI_Comm_dup, comm_dup);
  DDL_HOOKED(MPI_Comm_dup_with_info, comm_dup_with_info);
  DDL_HOOKED(MPI_Comm_idup, comm_idup);
  DDL_HOOKED(MPI_Comm_idup_with_info, comm_idup_with_info);
  DDL_HOOKED(MPI_Comm_create, comm_create);
  DDL_HOOKED(MPI_Comm_create_group, comm_create_group);
  DDL_HOOKED(MPI_Comm_split, comm_split);
  DDL_HOOKED(MPI_Comm_split_type, comm_split_type);
  DDL_HOOKED(MPI_Cart_create, cart_create);
  DDL_HOOKED(MPI_Cart_sub, cart_sub);
  DDL_HOOKED(MPI_Graph_create, graph_create);
  DDL_HOOKED(MPI_Dist_graph_create, dist_graph_create);
  DDL_HOOKED(MPI_Dist_graph_create_adjacent, dist_graph_create_adjacent);
  DDL_HOOKED(MPI_Intercomm_merge, intercomm_merge);
}

#undef DDL_HOOKED
#undef DDL_PERSISTENT

}  // namespace
}  // namespace ddl::mpi

extern "C" __attribute__((visibility("default"))) int ddl_mpi_front(uint32_t version,
                                                                    const ddl_mpi_table* next,
                                                                    ddl_mpi_table* front) {
  if (version != DDL_FRONT_VERSION) return 0;
  ddl::mpi::originals = *front = *next;
  ddl::mpi::fill(*front);
  return 1;
}
