"""A training script with processes of its own: processes.py mpi|gloo fork|spawn|subprocess

Its all-reduces go on before, while and after there are such. Knows nothing of the engine; prints one line per rank."""
import os
import subprocess
import sys

import torch
import torch.utils.data

ITEMS, COUNT, EPOCHS = 48, 20000, 2


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return torch.tensor([float(index), os.getpid()], dtype=torch.float64)


class OverMpi:
    def __init__(self):
        from mpi4py import MPI  # here, since a process that is spawned imports this file
        self.comm, self.rank, self.size = MPI.COMM_WORLD, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

    def start(self, tensor):
        """An all-reduce under way: call it to wait for the sums."""
        sums = torch.empty_like(tensor)
        request = self.comm.Iallreduce(tensor.numpy(), sums.numpy())
        return lambda: (request.Wait(), sums)[1]

    def now(self, tensor):
        sums = torch.empty_like(tensor)
        self.comm.Allreduce(tensor.numpy(), sums.numpy())
        return sums

    def leave(self):
        pass


class OverGloo:
    def __init__(self):
        import torch.distributed as dist
        dist.init_process_group("gloo")
        self.dist, self.rank, self.size = dist, dist.get_rank(), dist.get_world_size()

    def start(self, tensor):
        sums = tensor.clone()
        work = self.dist.all_reduce(sums, async_op=True)
        return lambda: (work.wait(), sums)[1]

    def now(self, tensor):
        return self.start(tensor)()

    def leave(self):
        self.dist.barrier()


def loaded(how):
    """An epoch through two workers: right, and from other processes."""
    total, workers = 0.0, set()
    for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2, multiprocessing_context=how):
        total += batch[:, 0].sum().item()
        workers.update(batch[:, 1].tolist())
    assert total == ITEMS * (ITEMS - 1) / 2, total
    assert len(workers) == 2 and os.getpid() not in workers, workers


def called():
    run = subprocess.run
    assert run([sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).abs(-42))"], check=True, capture_output=True).stdout == b"42\n"
    assert run("echo one | tr a-z A-Z", shell=True, check=True, capture_output=True).stdout == b"ONE\n"
    assert run(["sh", "-c", "exit 3"], check=False).returncode == 3
    assert os.popen("expr 20 + 1").read() == "21\n"
    assert os.system("true") == 0
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as cat:
        assert cat.communicate(b"through")[0] == b"through"
    lost = subprocess.Popen(["sleep", "60"])  # one that is told to go
    lost.terminate()
    assert lost.wait() == -15


def main(how):
    job = OverMpi() if sys.argv[1] == "mpi" else OverGloo()
    mine = torch.arange(COUNT, dtype=torch.float32) + job.rank
    right = job.size * torch.arange(COUNT, dtype=torch.float32) + job.size * (job.size - 1) / 2
    for _ in range(EPOCHS):
        assert torch.equal(job.now(mine), right)
        under_way = job.start(mine)
        if how == "subprocess":
            called()
        else:
            loaded(how)
        assert torch.equal(under_way(), right)
    sys.stdout.write(f"rank {job.rank} is right\n")
    sys.stdout.flush()
    job.leave()


if __name__ == "__main__":
    main(sys.argv[2])
