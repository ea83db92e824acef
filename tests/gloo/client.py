"""A PyTorch program over gloo, which knows nothing of the engine: checks what it gets. One case per name on the command
line; who it is comes from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
import datetime
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing

OPS = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul, dist.ReduceOp.MIN: torch.minimum,
       dist.ReduceOp.MAX: torch.maximum}
BITWISE = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}
FLOATS = (torch.float16, torch.float32, torch.float64)
if int(torch.__version__.split(".")[0]) >= 2:  # gloo has no sums of it in 1.13
    FLOATS += (torch.bfloat16,)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)


def values(rank, count, dtype):
    return ((torch.arange(count) * 7 + rank * 3) % 5 + 1).to(dtype)


def check(group=None, count=1000, dtype=torch.float32, op=dist.ReduceOp.SUM, combine=torch.add):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    mine = values(rank, count, dtype)
    dist.all_reduce(mine, op, group=group)
    right = values(0, count, dtype)
    for other in range(1, size):
        right = combine(right, values(other, count, dtype))
    assert torch.equal(mine, right), (dtype, op, count, mine[:8], right[:8])


def numbers():
    for count in (1, 2, 37, 1000, 65537, 1 << 18):
        for dtype in FLOATS + INTEGERS:
            for op, combine in OPS.items():
                # Small products and sums are the same in any order.
                check(None, count if op != dist.ReduceOp.PRODUCT or dtype != torch.float16 else 3, dtype, op, combine)
    for dtype in INTEGERS:
        for op, combine in BITWISE.items():
            check(None, 100, dtype, op, combine)


def few():
    check()
    check(dtype=torch.int64, op=dist.ReduceOp.MAX, combine=torch.maximum)


def shapes():
    empty = torch.empty(0)
    dist.all_reduce(empty)
    check(count=1)
    square = torch.ones(3, 5)
    dist.all_reduce(square)
    assert torch.equal(square, torch.full((3, 5), float(dist.get_world_size())))


def coalesced():
    parts = [values(dist.get_rank(), count, torch.float32) for count in (3, 1000, 17)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_reduce_coalesced(parts)
    for part in parts:
        right = sum(values(r, part.numel(), torch.float32) for r in range(dist.get_world_size()))
        assert torch.equal(part, right)


def several_tensors():
    """The sum over all tensors of all ranks, in each of them. Newer versions of PyTorch have no such call."""
    if not hasattr(dist, "all_reduce_multigpu"):
        return
    parts = [values(dist.get_rank() * 2 + i, 1000, torch.float32) for i in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_reduce_multigpu(parts)
    right = sum(values(r, 1000, torch.float32) for r in range(2 * dist.get_world_size()))
    assert all(torch.equal(part, right) for part in parts), (parts, right)


def beside_mpi():
    """Calls of MPI's and gloo's, outstanding together."""
    import numpy
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    right = world.size * (world.size + 1) / 2
    for i in range(60):
        theirs = numpy.full(1000 + i, world.rank + 1.0)
        ours = torch.full((1000 + i,), float(dist.get_rank() + 1))
        work = dist.all_reduce(ours, async_op=True)
        request = world.Iallreduce(MPI.IN_PLACE, theirs)
        request.Wait()
        work.wait()
        assert (theirs == right).all() and (ours == right).all()
        world.Barrier()
        dist.barrier()


def long_loop():
    """One call again and again, until the ranks know which library is faster."""
    for i in range(600):
        mine = torch.full((1 << 14,), float(dist.get_rank() + i))
        dist.all_reduce(mine)
        assert mine[7].item() == 2 * i + 1


def many_calls():
    """So many that nothing that is kept by call may be of a fixed number, in two groups that are served by two threads each."""
    size, groups = dist.get_world_size(), (None, dist.new_group())
    for i in range(400):
        parts = [torch.tensor([float(100 * i + j)]) for j in range(100)]
        for work in [dist.all_reduce(part, async_op=True, group=groups[j % 2]) for j, part in enumerate(parts)]:
            work.wait()
        assert all(part.item() == size * (100 * i + j) for j, part in enumerate(parts)), i


def until_told():
    """Calls until the report that is kept meanwhile shows some on the engine, or never comes to show them."""
    def is_told():
        try:
            with open(os.environ["DDL_REPORT"], encoding="utf-8") as file:
                return any(one["engine"]["calls"] > 0 for one in json.load(file)["collectives"])
        except OSError:
            return False

    for _ in range(1000):
        told = torch.tensor([float(dist.get_rank() == 0 and is_told())])
        dist.all_reduce(told)
        if told.item() > 0:
            return
        time.sleep(0.01)


def leaves_at_once():
    until_told()
    os._exit(0)  # pylint: disable=protected-access


def killed():
    until_told()
    os.kill(os.getpid(), signal.SIGKILL)


def sparse():
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.tensor([float(rank + 1)]), (size,))
    dist.all_reduce(mine)
    assert torch.equal(mine.to_dense(), torch.arange(1.0, size + 1))


def moved(count=1000, dtype=torch.float32, group=None):
    """Broadcast and all-gather."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    for root in range(size):
        one = values(rank, count, dtype)
        dist.broadcast(one, root if group is None else dist.distributed_c10d._get_global_rank(group, root), group=group)
        assert torch.equal(one, values(root, count, dtype)), (root, count, dtype)
    all_of = [torch.empty(count, dtype=dtype) for _ in range(size)]
    dist.all_gather(all_of, values(rank, count, dtype), group=group)
    assert all(torch.equal(part, values(other, count, dtype)) for other, part in enumerate(all_of)), (count, dtype)


def reduced(count=1000, dtype=torch.float32, op=dist.ReduceOp.SUM, combine=torch.add):
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        mine = values(rank, count, dtype)
        dist.reduce(mine, root, op)
        if rank == root:
            right = values(0, count, dtype)
            for other in range(1, size):
                right = combine(right, values(other, count, dtype))
            assert torch.equal(mine, right), (dtype, op, count, mine[:8], right[:8])


def other_calls():
    for count in (1, 2, 37, 65537, 1 << 18):
        for dtype in (torch.float16, torch.float32, torch.int8, torch.int64):
            moved(count, dtype)
        for op, combine in OPS.items():
            reduced(count, torch.int64, op, combine)
            reduced(count, torch.float32, op, combine)
    for op, combine in BITWISE.items():
        reduced(100, torch.int32, op, combine)
    dist.broadcast(torch.empty(0), 0)


def barriers():
    """Nobody leaves one before all have come."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for late in range(size):
        if rank == late:
            time.sleep(0.5)
        came = torch.tensor([time.time()], dtype=torch.float64)
        dist.barrier()
        left = torch.tensor([time.time()], dtype=torch.float64)
        dist.all_reduce(came, dist.ReduceOp.MAX)
        assert left.item() >= came.item(), (late, left, came)


def mixed():
    """Calls of all kinds outstanding at once, in two groups, served by two threads each."""
    rank, size = dist.get_rank(), dist.get_world_size()
    other = dist.new_group()
    for group in (None, other):  # a group's first call may be any
        dist.barrier(group)
    for _ in range(3):
        works, checks = [], []
        for i in range(60):
            group, count = (None, other)[i % 2], 1 + (i * 7919) % 50000
            mine = values(rank + i, count, torch.float32)
            if i % 4 == 0:
                works.append(dist.all_reduce(mine, async_op=True, group=group))
                checks.append((mine, sum(values(r + i, count, torch.float32) for r in range(size))))
            elif i % 4 == 1:
                works.append(dist.broadcast(mine, i % size, async_op=True, group=group))
                checks.append((mine, values(i % size + i, count, torch.float32)))
            elif i % 4 == 2:
                all_of = [torch.empty(count) for _ in range(size)]
                works.append(dist.all_gather(all_of, mine, async_op=True, group=group))
                checks += [(part, values(r + i, count, torch.float32)) for r, part in enumerate(all_of)]
            else:
                works.append(dist.reduce(mine, i % size, async_op=True, group=group))
                if rank == i % size:
                    checks.append((mine, sum(values(r + i, count, torch.float32) for r in range(size))))
        for work in works:
            work.wait()
        assert all(torch.equal(got, right) for got, right in checks)
        check()


def others():
    """What is gloo's own, and what is made of several calls."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))
    if rank == 0:
        dist.send(torch.ones(3), size - 1)
    if rank == size - 1:
        dist.recv(torch.empty(3), 0)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [part["rank"] for part in objects] == list(range(size))


def outstanding():
    """Two threads of each rank take them from one queue."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(5):
        counts = [1 + (i * 7919) % 50000 for i in range(100)]
        parts = [values(rank + i, count, torch.float32) for i, count in enumerate(counts)]
        works = [dist.all_reduce(part, async_op=True) for part in parts]
        for work in works:
            work.wait()
        for i, (part, count) in enumerate(zip(parts, counts)):
            assert torch.equal(part, sum(values(r + i, count, torch.float32) for r in range(size))), i


def groups():
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = [dist.new_group([r]) for r in range(size)]
    check(alone[rank])
    whole = dist.new_group()
    ends = dist.new_group([0, size - 1]) if size > 2 else whole
    backwards = dist.new_group(list(reversed(range(size))))
    for _ in range(20):
        check()
        check(whole, 5000)
        check(backwards, 70000)
        if rank in (0, size - 1):
            check(ends, 100000)
    if rank in (0, size - 1) and size > 2:
        time.sleep(0.1)  # see the end
        dist.destroy_process_group(ends)
    check()


def many_groups():
    """More than fit on the engine where the process may have little; see LIMITS."""
    for name, most in (one.split(":") for one in os.environ["LIMITS"].split()):
        resource.setrlimit(getattr(resource, name), (int(most), int(most)))
    check()
    all_of_them = [dist.new_group() for _ in range(12)]
    for _ in range(2):
        for group in all_of_them:
            check(group, 5000)


def again():
    """Addresses are used twice."""
    for i in range(5):
        check(count=1000 + i)
        dist.barrier()
        time.sleep(0.1)
        dist.destroy_process_group()
        join(port=int(os.environ["MASTER_PORT"]) + 1)
    check()


def beside_forks():
    """Workers of a data loader are forked, with the groups in them; other processes are spawned or run."""
    check()
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2)
    total = torch.tensor([float(sum(batch.sum() for (batch,) in loader))])
    dist.all_reduce(total)
    assert total.item() == 2016.0 * dist.get_world_size()
    assert subprocess.run([sys.executable, "-c", "print(6 * 7)"], check=True, stdout=subprocess.PIPE).stdout == b"42\n"
    torch.multiprocessing.spawn(spawned, nprocs=2)
    check()


def spawned(index):
    assert index in (0, 1)


def trained():
    """A few steps of DDP: all ranks end with the same weights, which are printed."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.2)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    torch.manual_seed(2 + dist.get_rank())
    for _ in range(30):
        x = torch.randn(32, 64)
        loss = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    flats = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(flats, flat)
    assert all(torch.equal(flat, other) for other in flats)
    if dist.get_rank() == 0:
        print("weights", flat.double().sum().item().hex())


def largest_chunks():
    """DDL_SPARSE=0.2 without a warm-up, two gradients at a time: what travels is the largest fifth of what was kept."""
    rank, size, chunk, sparse = dist.get_rank(), dist.get_world_size(), 1024, 0
    counts = (20 * chunk - 100, 33 * chunk)
    kept = [torch.zeros(size, count) for count in counts]

    def gradient(step, which):
        element = torch.arange(counts[which])
        large = torch.where((element // chunk + 3 * step + which) % 7 == 0, 9, 1)
        return torch.stack([(large * (1 + r) + element % 5 - 2).float() for r in range(size)])

    for step in range(60):
        gradients = [gradient(step, which) for which in (0, 1)]
        sums = [of_all[rank].clone() for of_all in gradients]
        for work in [dist.all_reduce(one, async_op=True) for one in sums]:
            work.wait()
        for which, got in enumerate(sums):
            if torch.equal(got, gradients[which].sum(0)):
                continue
            sparse += 1
            kept[which] += gradients[which]
            chunks = [kept[which][:, at:at + chunk] for at in range(0, counts[which], chunk)]
            order = sorted(range(len(chunks)), key=lambda c: -float(chunks[c].abs().sum()))
            expected = torch.zeros(counts[which])
            for c in order[:-(-len(chunks) // 5)]:
                expected[c * chunk:(c + 1) * chunk] = chunks[c].sum(0)
                chunks[c].zero_()
            assert torch.equal(got, expected), (step, which)
    assert sparse > 60, sparse


def expect_error(words, call=lambda: dist.all_reduce(torch.ones(1000))):
    try:
        for _ in range(50):
            call()
    except RuntimeError as error:
        print("raised:", str(error).replace("\n", " "))
        assert any(word in str(error) for word in words), error
        return
    raise AssertionError("no error")


def dead_peer():
    check()
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(("gone", "closed", "reset"))
    os._exit(0)


def raises():
    """As a rank does whose backward pass fails: its traceback, then the end of the process."""
    check()
    if dist.get_rank() == dist.get_world_size() - 1:
        raise ValueError("on purpose")
    expect_error(("gone", "closed", "reset"))
    os._exit(0)


def dead_before_a_barrier():
    dist.barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(("gone", "closed", "reset"), dist.barrier)
    os._exit(0)


def dead_before_a_broadcast():
    moved()
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(("gone", "closed", "reset"), lambda: dist.broadcast(torch.ones(1 << 20), dist.get_world_size() - 1))
    os._exit(0)


def late_peer():
    """With a timeout of three seconds, see join()."""
    check()
    if dist.get_rank() == dist.get_world_size() - 1:
        time.sleep(8)
    else:
        expect_error(("3 s", "imed out", "closed", "gone"))
    os._exit(0)


def late_reader():
    """The root gives its call up, and uses its tensor for something else before the other rank comes."""
    apart = dist.new_group(timeout=datetime.timedelta(seconds=3))
    is_root = dist.get_rank() == 0
    for _ in range(3):
        dist.broadcast(torch.ones(300000), 0, group=apart)
    tensor = torch.ones(300000) if is_root else torch.zeros(300000)
    if not is_root:
        time.sleep(5)
    try:
        dist.broadcast(tensor, 0, group=apart)
        assert not is_root and torch.equal(tensor, torch.ones(300000)), tensor
    except RuntimeError as error:
        print(f"raised: {error}", flush=True)
    if is_root:
        tensor.fill_(777)
        time.sleep(5)
    os._exit(0)


def without_shim():
    """One of the ranks has no shim."""
    one = values(dist.get_rank(), 1000, torch.float32)
    dist.broadcast(one, 0)
    assert torch.equal(one, values(0, 1000, torch.float32))
    few()
    other = dist.new_group()
    check(other)
    outstanding()
    moved()


def never_met():
    """A rank dies before its first call."""
    dist.monitored_barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(("closed", "reset"))
    os._exit(0)


def late_for_the_first():
    """So late that others make their first calls by gloo, from two threads; then all are made by the engine."""
    dist.monitored_barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        time.sleep(8)
    ones = [torch.ones(1000) for _ in range(5)]
    for work in [dist.all_reduce(one, async_op=True) for one in ones]:
        work.wait()
    assert all(one[7].item() == dist.get_world_size() for one in ones)
    for count in range(1000, 1100):
        check(count=count)


def one_group_fails():
    """The others go on."""
    apart = dist.new_group(timeout=datetime.timedelta(seconds=2))
    check()
    check(apart)
    if dist.get_rank() != dist.get_world_size() - 1:
        try:
            dist.all_reduce(torch.ones(10), group=apart)
            raise AssertionError("no error")
        except RuntimeError as error:
            print("raised:", str(error).replace("\n", " "))
    else:
        time.sleep(4)
    check()
    check()


def join(port=None):
    timeout = 3 if "late_peer" in sys.argv else 120
    if port:
        os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))


def fork_ranks(folder):
    """This process becomes each of the ranks, which write to a file of their own there; PyTorch is loaded once."""
    ranks = []
    for rank in range(int(os.environ["WORLD_SIZE"])):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            os.environ["RANK"] = str(rank)
            said = os.open(f"{folder}/{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(said, 1)
            os.dup2(said, 2)
            return
    codes = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]
    with open(f"{folder}/codes", "w", encoding="utf-8") as file:
        json.dump(codes, file)
    sys.exit()


if __name__ == "__main__":
    if "TEST_FORKS_IN" in os.environ:
        fork_ranks(os.environ["TEST_FORKS_IN"])
    faulthandler.dump_traceback_later(270)  # who hangs says where, before the test ends it
    join()
    for name in sys.argv[1:]:
        globals()[name]()
    print("client: rank", dist.get_rank(), "is right", flush=True)
    # PyTorch 1.13 aborts where its threads are still there at the end, and hangs where they drop the last tensors while it
    # waits for them: it does so with Python's lock held, which they need for that.
    time.sleep(0.3)
    dist.destroy_process_group()
