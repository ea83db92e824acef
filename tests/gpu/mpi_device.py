"""MPI_Allreduce and MPI_Bcast of mpi4py on CuPy's device memory, all ranks on one GPU."""
import time

import cupy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
cupy.cuda.Device(0).use()
for count in (1, 1000, 1048583):
    mine = cupy.arange(count, dtype=cupy.float64) * (rank + 1)
    total = cupy.empty_like(mine)
    cupy.cuda.Device(0).synchronize()
    comm.Allreduce(mine, total)
    assert (total == cupy.arange(count, dtype=cupy.float64) * (size * (size + 1) // 2)).all(), "Allreduce"
    comm.Allreduce(MPI.IN_PLACE, mine)
    assert (mine == total).all(), "Allreduce in place"
    spread = cupy.full(count, rank, dtype=cupy.int32)
    cupy.cuda.Device(0).synchronize()
    comm.Bcast(spread, root=size - 1)
    assert (spread == size - 1).all(), "Bcast"
numbers = cupy.ones(16 << 20, dtype=cupy.float32)
cupy.cuda.Device(0).synchronize()
for name, call in (("Allreduce", lambda: comm.Allreduce(MPI.IN_PLACE, numbers)), ("Bcast", lambda: comm.Bcast(numbers, root=0))):
    call()
    comm.Barrier()
    began = time.perf_counter()
    for _ in range(5):
        call()
    if rank == 0:
        print(f"mpi: {size} ranks, {name} of 64 MiB on the GPU: {200 * (time.perf_counter() - began):.2f} ms", flush=True)
if rank == 0:
    print("mpi: the right numbers", flush=True)
