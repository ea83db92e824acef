#!/usr/bin/python3
"""Steps of PyTorch's DistributedDataParallel over gloo, with and without the engine, in alternating runs: medians of the
slowest rank, their ratio, and how much of a step without the engine all-reduces take.

  scripts/bench_ddp.py [--models NAME,NAME] [--steps N] [--rounds N] [--python PROGRAM] [ddlrun's options, -np 2 by default]

Needs a release build and PyTorch. On virtual hosts as scripts/bench_gloo.py.
"""
import argparse
import contextlib
import hashlib
import json
import os
import statistics
import sys
import time

from bench_gloo import alternate, ddlrun

# Widths of the layers, and the batch of a rank. Gradients: 19 KB, 0.5 MB, 8.7 MB, 5.3 MB, 6.3 MB; conv 0.2 MB.
MODELS = {"tiny": ([64, 64, 10], 32), "small": ([256, 256, 256, 10], 2), "example": ([64, 1024, 1024, 1024, 10], 32),
          "wire": ([256, 1024, 1024, 10], 1), "wide": ([512, 1024, 1024, 10], 4), "conv": None}


def make(torch, name):
    torch.manual_seed(2)
    nn = torch.nn
    if name == "conv":
        layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 144, 10)]
        return nn.Sequential(*layers), (64, 1, 16, 16)
    widths, batch = MODELS[name]
    layers = [layer for one, other in zip(widths, widths[1:]) for layer in (nn.Linear(one, other), nn.ReLU())]
    return nn.Sequential(*layers[:-1]), (batch, widths[0])


def work(names, steps):
    """One rank. Rank 0 prints by model: the time of a step in ms, the same without all-reduces, what the weights are."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = {}
    for name in names:
        model, shape = make(torch, name)
        model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        torch.manual_seed(5 + dist.get_rank())
        images, labels = torch.randn(shape), torch.randint(10, shape[:1])

        def median(steps, context):
            times = []
            for _ in range(steps):
                began = time.perf_counter()
                with context():
                    loss = torch.nn.functional.cross_entropy(model(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                times.append(time.perf_counter() - began)
            slowest = torch.tensor([statistics.median(times[steps // 4:])], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            return 1e3 * slowest.item()

        whole = median(steps, contextlib.nullcontext)
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        seen = [None] * dist.get_world_size()
        dist.all_gather_object(seen, hashlib.sha256(weights.numpy().tobytes()).hexdigest())
        results[name] = [whole, median(max(steps // 3, 5), model.no_sync), seen[0] if len(set(seen)) == 1 else "DIFFERENT"]
        dist.barrier()
    if dist.get_rank() == 0:
        print(json.dumps(results), flush=True)
    dist.barrier()
    time.sleep(0.3)  # PyTorch aborts where a thread of its own is the last to hold the group
    dist.destroy_process_group()


def weights_of(runs, name):
    """In words."""
    seen = {enable: {one[name][2] for one in those} for enable, those in runs.items()}
    if any("DIFFERENT" in one for one in seen.values()):
        return "DIFFERENT"
    return "the same, with and without" if seen["0"] == seen["1"] else "the same on all ranks"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="All other options are ddlrun's.")
    parser.add_argument("--models", default="tiny,conv,example,wide", help="of " + ", ".join(MODELS) + " (default %(default)s)")
    parser.add_argument("--steps", default="60", help="of each model (default %(default)s)")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default %(default)s)")
    options, of_ddlrun = parser.parse_known_args()
    command = [*ddlrun(of_ddlrun), options.python, os.path.realpath(__file__), "--work", options.models, options.steps]
    runs = alternate(command, options.rounds)
    print("| model | gloo (ms) | engine (ms) | engine / gloo | all-reduces in gloo's | weights |\n|---|---:|---:|---:|---:|---|")
    for name in options.models.split(","):
        gloo, engine = (statistics.median(one[name][0] for one in runs[enable]) for enable in "01")
        share = 1 - statistics.median(one[name][1] for one in runs["0"]) / gloo
        print(f"| {name} | {gloo:.2f} | {engine:.2f} | {engine / gloo:.2f} | {share:.0%} | {weights_of(runs, name)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2].split(","), int(sys.argv[3]))
    else:
        main()
