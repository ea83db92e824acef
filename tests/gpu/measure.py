"""measure.py WHAT, with PyTorch: prints lines "torch: ..." from rank 0.
  sweep BACKEND   all-reduce of 1 KiB to 1 GiB (gloo: to 256 MiB) of float32 on the GPU
  behind          what a call costs its caller behind a kernel of 200 ms
  steps           the time of a step of DistributedDataParallel (25 million parameters) with the ranks on one GPU
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
gpu = torch.device("cuda", 0)


def say(text):
    if rank == 0:
        print("torch: " + text, flush=True)


def median_of(turns, body):
    took = []
    for turn in range(turns + 1):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        began = time.perf_counter()
        body()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


def sweep(backend):
    bytes_n = 1024
    while bytes_n <= (1 << 30 if backend == "nccl" else 1 << 28):
        numbers = torch.ones(bytes_n // 4, device=gpu)
        times = 20 if bytes_n <= 1 << 20 else 3 if bytes_n <= 1 << 26 else 1

        def calls():
            for _ in range(times):
                dist.all_reduce(numbers)
        say(f"{backend}, {size} ranks, {bytes_n} bytes: {1e3 * median_of(3, calls) / times:.4f} ms")
        del numbers
        bytes_n *= 4


def behind():
    numbers = torch.ones(1 << 20, device=gpu)
    dist.all_reduce(numbers)
    torch.cuda.synchronize()
    began = time.perf_counter()
    torch.cuda._sleep(400_000_000)
    torch.cuda.synchronize()
    cycles = int(400_000_000 * 0.2 / (time.perf_counter() - began))
    for kind in ("all_reduce", "all_gather_into_tensor"):
        out = torch.empty(size << 20, device=gpu)
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        began = time.perf_counter()
        torch.cuda._sleep(cycles)
        launched = time.perf_counter()
        work = dist.all_reduce(numbers, async_op=True) if kind == "all_reduce" else dist.all_gather_into_tensor(out, numbers, async_op=True)
        returned = time.perf_counter()
        work.wait()
        torch.cuda.synchronize()
        say(f"{size} ranks, {kind} of 4 MiB behind a kernel of 200 ms: returns after {1e3 * (returned - launched):.3f} ms, "
            f"done after {1e3 * (time.perf_counter() - began):.1f} ms")


def steps():
    torch.manual_seed(1)
    width, batch = 2048, 256
    model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]).to(gpu)
    if size > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(batch // size, width, device=gpu)

    def some():
        for _ in range(10):
            optimizer.zero_grad()
            model(images).square().mean().backward()
            optimizer.step()
    def alone():
        with model.no_sync():
            some()
    say(f"{size} ranks, a step of 25 million parameters: {100 * median_of(5, some):.3f} ms")
    if size > 1:
        say(f"{size} ranks, a step without its all-reduces: {100 * median_of(5, alone):.3f} ms")


if __name__ == "__main__":
    torch.cuda.set_device(gpu)
    dist.init_process_group(sys.argv[2] if len(sys.argv) > 2 else "nccl")
    {"sweep": lambda: sweep(sys.argv[2]), "behind": behind, "steps": steps}[sys.argv[1]]()
    dist.barrier()
    dist.destroy_process_group()
