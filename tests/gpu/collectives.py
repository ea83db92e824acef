"""PyTorch's collectives on NCCL with every result checked, all ranks on one GPU, types and sizes in turn."""
import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8, torch.int8]
COUNTS = [1, 7, 1000, 65536, 1048583]
gpu = torch.device("cuda", 0)
checked = 0


def of(r, count, dtype):
    """What rank r brings: small whole numbers, so that sums of all types are exact."""
    return ((torch.arange(count, device=gpu) * 7 + r * 3) % 13).to(dtype)


def same(got, right, what):
    global checked
    checked += 1
    assert torch.equal(got, right.to(got.dtype)), f"rank {rank}: {what}: {got.flatten()[:4]} where {right.flatten()[:4]}"


def reductions(count, dtype):
    everybody = torch.stack([of(r, count, dtype).double() for r in range(size)])
    for op, right in [(dist.ReduceOp.SUM, everybody.sum(0)), (dist.ReduceOp.MAX, everybody.amax(0)), (dist.ReduceOp.MIN, everybody.amin(0)),
                      (dist.ReduceOp.PRODUCT, everybody.prod(0) if dtype is not torch.int8 and size < 3 else None),
                      (dist.ReduceOp.AVG, everybody.mean(0) if dtype.is_floating_point and size in (2, 4) else None)]:
        if right is None:
            continue
        mine = of(rank, count, dtype)
        dist.all_reduce(mine, op=op)
        same(mine, right, f"all_reduce {op} of {count} {dtype}")
        mine = of(rank, count, dtype)
        dist.reduce(mine, dst=size - 1, op=op)
        if rank == size - 1:
            same(mine, right, f"reduce {op} of {count} {dtype}")
    whole = torch.cat([of(rank + r, count, dtype) for r in range(size)])
    share = torch.empty(count, dtype=dtype, device=gpu)
    dist.reduce_scatter_tensor(share, whole)
    same(share, sum(of(r + rank, count, dtype).double() for r in range(size)), f"reduce_scatter of {count} {dtype}")


def movements(count, dtype):
    right = torch.cat([of(r, count, dtype) for r in range(size)])
    everybody = torch.empty(size * count, dtype=dtype, device=gpu)
    dist.all_gather_into_tensor(everybody, of(rank, count, dtype))
    same(everybody, right, f"all_gather of {count} {dtype}")
    several = [torch.empty(count + r, dtype=dtype, device=gpu) for r in range(size)]
    dist.all_gather(several, of(rank, count + rank, dtype))
    for r in range(size):
        same(several[r], of(r, count + r, dtype), f"uneven all_gather of {count} {dtype}")
    for root in range(size):
        mine = of(rank, count, dtype)
        dist.broadcast(mine, src=root)
        same(mine, of(root, count, dtype), f"broadcast of {count} {dtype} from {root}")
    out = torch.empty(size * count, dtype=dtype, device=gpu)
    dist.all_to_all_single(out, torch.cat([of(rank * size + r, count, dtype) for r in range(size)]))
    same(out, torch.cat([of(r * size + rank, count, dtype) for r in range(size)]), f"all_to_all of {count} {dtype}")
    gathered = [torch.empty(count, dtype=dtype, device=gpu) for _ in range(size)] if rank == 0 else None
    dist.gather(of(rank, count, dtype), gathered, dst=0)
    if rank == 0:
        same(torch.cat(gathered), right, f"gather of {count} {dtype}")
    mine = torch.empty(count, dtype=dtype, device=gpu)
    dist.scatter(mine, [of(r, count, dtype) for r in range(size)] if rank == 0 else None, src=0)
    same(mine, of(rank, count, dtype), f"scatter of {count} {dtype}")


def messages():
    there, here = torch.full((1000,), float(rank), device=gpu), torch.empty(1000, device=gpu)
    ring = [dist.P2POp(dist.isend, there, (rank + 1) % size), dist.P2POp(dist.irecv, here, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    same(here, torch.full_like(here, (rank - 1) % size), "a ring of messages")
    if size > 1 and rank < 2:
        (dist.send if rank == 0 else dist.recv)(there, 1 - rank)
        same(there, torch.zeros_like(there), "send and recv")


def groups_and_others():
    half = dist.new_group(list(range(size // 2 + 1)))
    if rank <= size // 2:
        mine = of(rank, 1000, torch.float32)
        dist.all_reduce(mine, group=half)
        same(mine, sum(of(r, 1000, torch.float32) for r in range(size // 2 + 1)), "a sum in a group")
    many = [of(rank + i, 1000 + i, torch.float32) for i in range(40)]
    with dist._coalescing_manager(device=gpu):
        for one in many:
            dist.all_reduce(one)
    for i, one in enumerate(many):
        same(one, sum(of(r + i, 1000 + i, torch.float32) for r in range(size)), "a sum in a coalesced group")
    work = [dist.all_reduce(one, async_op=True) for one in many]
    for one in work:
        one.wait()
    for i, one in enumerate(many):
        same(one, size * sum(of(r + i, 1000 + i, torch.float32) for r in range(size)), "a sum of many under way")
    dist.all_reduce(torch.empty(0, device=gpu))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    dist.barrier()


torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
for count in COUNTS:
    for dtype in TYPES:
        reductions(count, dtype)
        movements(count, dtype)
messages()
groups_and_others()
print(f"collectives: rank {rank} of {size}: {checked} results are right", flush=True)
dist.barrier()
dist.destroy_process_group()
