"""PyTorch's DistributedDataParallel on NCCL, all ranks on one GPU: prints the loss of every step, of the whole batch,
which must not depend on the number of ranks."""
import os

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, INPUTS, CLASSES = 20, 64, 64, 10
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def train(device):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(INPUTS, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES)).to(device)
    images = torch.randn(STEPS, BATCH, INPUTS).to(device)
    labels = torch.randint(CLASSES, (STEPS, BATCH)).to(device)
    if size > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[step, mine]), labels[step, mine])
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if size > 1:
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"loss {step} {loss.item():.7f}", flush=True)


if __name__ == "__main__":
    gpu = torch.device("cuda", 0)
    torch.cuda.set_device(gpu)
    if size > 1:
        dist.init_process_group("nccl")
    train(gpu)
    if size > 1:
        dist.destroy_process_group()
