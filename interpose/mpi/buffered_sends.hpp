// MPI_Bsend, MPI_Ibsend and MPI_Bsend_init, which stay the original's.
//
// Open MPI takes back the space of a buffered send when its progress runs, and refuses the next one for want
// of space before it lets progress run. A program whose barriers are the original's always has it by then;
// those of the engine move the original only now and then.
#pragma once

#include <mpi.h>

namespace ddl::mpi {

int bsend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int ibsend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
           MPI_Request* request);
int bsend_init(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request);

// Before requests are started, which may be those of MPI_Bsend_init.
void before_start();

}  // namespace ddl::mpi
