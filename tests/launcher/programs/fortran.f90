! What mpif90 makes of an all-reduce: Open MPI's functions for Fortran call its PMPI functions.
program all_reduce
  implicit none
  include 'mpif.h'
  integer :: code, rank
  real :: mine, total
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  mine = 1
  call MPI_Allreduce(mine, total, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)
  call MPI_Finalize(code)
end program
