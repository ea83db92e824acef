"""CuPy's NCCL, two processes on one GPU: a sum, a broadcast, and what each rank thinks it is."""
import multiprocessing


def rank_of_two(rank, identity):
    import cupy
    from cupy.cuda import nccl

    cupy.cuda.Device(0).use()
    comm = nccl.NcclCommunicator(2, identity, rank)
    numbers = cupy.arange(100003, dtype=cupy.float32) * (rank + 1)
    total = cupy.empty_like(numbers)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device(0).synchronize()  # the numbers are there
    comm.allReduce(numbers.data.ptr, total.data.ptr, numbers.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
    comm.broadcast(numbers.data.ptr, numbers.data.ptr, numbers.size, nccl.NCCL_FLOAT32, 1, stream.ptr)
    stream.synchronize()
    assert (total == cupy.arange(100003, dtype=cupy.float32) * 3).all()
    assert (numbers == cupy.arange(100003, dtype=cupy.float32) * 2).all()
    assert (comm.rank_id(), comm.size(), comm.device_id()) == (rank, 2, 0)
    print(f"cupy: rank {rank} has the right numbers", flush=True)
    comm.destroy()


def first(pipe):
    from cupy.cuda import nccl

    identity = nccl.get_unique_id()
    pipe.send(identity)
    rank_of_two(0, identity)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    here, there = multiprocessing.Pipe()
    processes = [multiprocessing.Process(target=first, args=(there,))]
    processes[0].start()
    processes.append(multiprocessing.Process(target=rank_of_two, args=(1, here.recv())))
    processes[1].start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
