#!/usr/bin/python3
"""Data-parallel training with PyTorch's DistributedDataParallel over gloo: handwritten digits of scikit-learn.

  train.py [STEPS]
"""
import hashlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

BATCH, TEST, WIDTH = 64, 297, 1024


def load():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    images, labels = torch.tensor(images, dtype=torch.float32)[order] / 16, torch.tensor(labels)[order]
    return images[TEST:], labels[TEST:], images[:TEST], labels[:TEST]


def make_model():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(64, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
                               torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    images, labels, test_images, test_labels = load()
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    order = torch.Generator().manual_seed(3)
    times = []
    for step in range(1, steps + 1):
        batch = torch.randint(len(labels), (BATCH,), generator=order)[rank::ranks]
        began = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
        if rank == 0 and (step % 50 == 0 or step == steps):
            with torch.no_grad():
                right = (model.module(test_images).argmax(1) == test_labels).float().mean()
            print(f"step {step:3d}  loss {loss.item():.4f}  test accuracy {100 * right:.2f} %  "
                  f"{1e3 * statistics.median(times):.1f} ms a step", flush=True)
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    all_weights = [torch.empty_like(weights) for _ in range(ranks)]
    dist.all_gather(all_weights, weights)
    if rank == 0:
        same = all(torch.equal(weights, other) for other in all_weights)
        print("weights", hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16],
              "the same on all ranks" if same else "DIFFERENT")
    dist.barrier()
    time.sleep(0.3)  # PyTorch aborts where a thread of its own is the last to hold the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
