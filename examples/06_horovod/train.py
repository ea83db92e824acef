#!/usr/bin/env python3
"""Data-parallel training with Horovod and PyTorch over MPI: handwritten digits of scikit-learn. With --fp16 the
gradients travel as float16."""
import hashlib
import statistics
import sys
import time

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits

STEPS, BATCH, TEST, WIDTH = 150, 64, 297, 512


def main():
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(2)
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    images, labels = torch.tensor(images, dtype=torch.float32)[order] / 16, torch.tensor(labels)[order]
    model = torch.nn.Sequential(torch.nn.Linear(64, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
                                torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if "--fp16" in sys.argv else hvd.Compression.none)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    batches = torch.Generator().manual_seed(3)
    times = []
    for step in range(1, STEPS + 1):
        batch = TEST + torch.randint(len(labels) - TEST, (BATCH,), generator=batches)[hvd.rank()::hvd.size()]
        began = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
        if hvd.rank() == 0 and step % 50 == 0:
            with torch.no_grad():
                right = (model(images[:TEST]).argmax(1) == labels[:TEST]).float().mean()
            print(f"step {step:3d}  loss {loss.item():.4f}  test accuracy {100 * right:.2f} %  "
                  f"{1e3 * statistics.median(times):.1f} ms a step", flush=True)
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    same = torch.equal(hvd.allgather(weights[None]), weights[None].expand(hvd.size(), -1))
    if hvd.rank() == 0:
        print("weights", hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16],
              "the same on all ranks" if same else "DIFFERENT")
    hvd.shutdown()


if __name__ == "__main__":
    main()
