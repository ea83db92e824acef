/* As poison.c, for the other collectives, whatever their size, and without the prototypes of mpi.h. The PMPI
 * functions are left alone: the engine starts and ends with some of them. */
#include <stdio.h>
#include <stdlib.h>

#define REFUSED(name)                                                    \
  int name(void);                                                        \
  int name(void) {                                                       \
    fprintf(stderr, "poison: " #name " reached the original library\n"); \
    abort();                                                             \
  }
/* Under both names: see persistent_names.h. */
#define REFUSED_INIT(name) REFUSED(MPI_##name) REFUSED(MPIX_##name)

REFUSED(MPI_Bcast)
REFUSED(MPI_Ibcast)
REFUSED(MPI_Reduce)
REFUSED(MPI_Ireduce)
REFUSED(MPI_Allgather)
REFUSED(MPI_Iallgather)
REFUSED(MPI_Allgatherv)
REFUSED(MPI_Iallgatherv)
REFUSED(MPI_Reduce_scatter)
REFUSED(MPI_Ireduce_scatter)
REFUSED(MPI_Reduce_scatter_block)
REFUSED(MPI_Ireduce_scatter_block)
REFUSED(MPI_Alltoall)
REFUSED(MPI_Ialltoall)
REFUSED(MPI_Gather)
REFUSED(MPI_Igather)
REFUSED(MPI_Scatter)
REFUSED(MPI_Iscatter)
REFUSED(MPI_Barrier)
REFUSED(MPI_Ibarrier)
REFUSED(MPI_Gatherv)
REFUSED(MPI_Igatherv)
REFUSED(MPI_Scatterv)
REFUSED(MPI_Iscatterv)
REFUSED(MPI_Alltoallv)
REFUSED(MPI_Ialltoallv)
REFUSED(MPI_Alltoallw)
REFUSED(MPI_Ialltoallw)
REFUSED_INIT(Allreduce_init)
REFUSED_INIT(Bcast_init)
REFUSED_INIT(Reduce_init)
REFUSED_INIT(Allgather_init)
REFUSED_INIT(Allgatherv_init)
REFUSED_INIT(Reduce_scatter_init)
REFUSED_INIT(Reduce_scatter_block_init)
REFUSED_INIT(Alltoall_init)
REFUSED_INIT(Alltoallv_init)
REFUSED_INIT(Alltoallw_init)
REFUSED_INIT(Gather_init)
REFUSED_INIT(Gatherv_init)
REFUSED_INIT(Scatter_init)
REFUSED_INIT(Scatterv_init)
REFUSED_INIT(Barrier_init)
