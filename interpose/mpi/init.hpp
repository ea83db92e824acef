// The hooks of MPI_Init, MPI_Init_thread and MPI_Finalize: the engine joins the job there, and leaves it.
#pragma once

#include <mpi.h>

namespace ddl::mpi {

int init(int* argc, char*** argv);
int init_thread(int* argc, char*** argv, int required, int* provided);
int finalize();
/// What MPI_Finalize does of ours while MPI can still be used; once.
void leave_job();

}  // namespace ddl::mpi
