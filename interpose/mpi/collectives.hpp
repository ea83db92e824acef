// The hooks of the collectives, blocking and nonblocking (all_reduce.cpp, collectives.cpp,
// vector_collectives.cpp). Each takes the arguments of its MPI function. Thread safety: all functions.
#pragma once

#include <mpi.h>

namespace ddl::mpi {

int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
               MPI_Request* request);

int bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request);
int reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
            MPI_Request* request);
int reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm);
int ireduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm, MPI_Request* request);
int reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request* request);
int allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, MPI_Comm comm);
int iallgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
               MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request);
int alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
             MPI_Datatype out_type, MPI_Comm comm);
int ialltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request);
int gather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
           MPI_Datatype out_type, int root, MPI_Comm comm);
int igather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
            MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int scatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
            MPI_Datatype out_type, int root, MPI_Comm comm);
int iscatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
             MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int barrier(MPI_Comm comm);
int ibarrier(MPI_Comm comm, MPI_Request* request);

// With counts of each rank.
int allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
               const int displacements[], MPI_Datatype out_type, MPI_Comm comm);
int iallgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
                const int displacements[], MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request);
int gatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
            const int displacements[], MPI_Datatype out_type, int root, MPI_Comm comm);
int igatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
             const int displacements[], MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int scatterv(const void* in, const int counts[], const int displacements[], MPI_Datatype in_type, void* out,
             int out_count, MPI_Datatype out_type, int root, MPI_Comm comm);
int iscatterv(const void* in, const int counts[], const int displacements[], MPI_Datatype in_type, void* out,
              int out_count, MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request);
int alltoallv(const void* in, const int in_counts[], const int in_displacements[], MPI_Datatype in_type,
              void* out, const int out_counts[], const int out_displacements[], MPI_Datatype out_type,
              MPI_Comm comm);
int ialltoallv(const void* in, const int in_counts[], const int in_displacements[], MPI_Datatype in_type,
               void* out, const int out_counts[], const int out_displacements[], MPI_Datatype out_type,
               MPI_Comm comm, MPI_Request* request);
int alltoallw(const void* in, const int in_counts[], const int in_displacements[],
              const MPI_Datatype in_types[], void* out, const int out_counts[], const int out_displacements[],
              const MPI_Datatype out_types[], MPI_Comm comm);
int ialltoallw(const void* in, const int in_counts[], const int in_displacements[],
               const MPI_Datatype in_types[], void* out, const int out_counts[],
               const int out_displacements[], const MPI_Datatype out_types[], MPI_Comm comm,
               MPI_Request* request);

}  // namespace ddl::mpi
