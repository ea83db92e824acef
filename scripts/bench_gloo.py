#!/usr/bin/python3
"""PyTorch's all_reduce over gloo, or another call, with and without the engine, in alternating runs: medians and their ratio.

  scripts/bench_gloo.py [--call NAME] [--rounds N] [--max BYTES] [--python PROGRAM] [ddlrun's options, -np 2 by default]

Needs a release build and PyTorch. On virtual hosts:
  tests/cluster/vcluster --hosts 4 --rails 1 --rate 1gbit -- scripts/bench_gloo.py -np 8 -H h0:2,h1:2,h2:2,h3:2
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from bench_table import in_turn

HERE = os.path.dirname(os.path.realpath(__file__))
SIZES = [4, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]


CALLS = {"all_reduce": lambda dist, tensor, all_of: dist.all_reduce(tensor),
         "broadcast": lambda dist, tensor, all_of: dist.broadcast(tensor, 0),
         "reduce": lambda dist, tensor, all_of: dist.reduce(tensor, 0),
         "all_gather": lambda dist, tensor, all_of: dist.all_gather(all_of, tensor),
         "barrier": lambda dist, tensor, all_of: dist.barrier()}


def work(name, largest):
    """One rank: median time of a call per size, in microseconds, printed by rank 0."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    medians = {}
    for size in (size for size in SIZES if size <= largest):
        tensor, times = torch.zeros(size // 4), []
        all_of = [torch.zeros(size // 4) for _ in range(dist.get_world_size())] if name == "all_gather" else []
        for call in range(5 + max(7, min(200, (1 << 26) // size))):
            if name in ("broadcast", "reduce"):  # ranks that only send or only receive would not wait for each other
                dist.barrier()
            began = time.perf_counter()
            CALLS[name](dist, tensor, all_of)
            if call >= 5:
                times.append(time.perf_counter() - began)
        slowest = torch.tensor([statistics.median(times)], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        medians[size] = 1e6 * slowest.item()
    if dist.get_rank() == 0:
        print(json.dumps(medians), flush=True)
    dist.destroy_process_group()


def run(command, enable):
    """What rank 0 has said in its last line."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "DDL_ENABLE": enable})
    return json.loads(done.stdout.splitlines()[-1])


def ddlrun(options):
    if "h0" in " ".join(options):  # the virtual cluster: gloo itself takes the address of the host's name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "r0")
    interface = ["-x", "GLOO_SOCKET_IFNAME"] if "GLOO_SOCKET_IFNAME" in os.environ else []
    return [f"{HERE}/../build/release/bin/ddlrun", "-s", *interface, "-x", "DDL_ENABLE", "-x", "OMP_NUM_THREADS",
            *(options or ["-np", "2"])]


def alternate(command, rounds):
    """By whether the engine is on."""
    runs = {enable: [] for enable in "01"}
    for number in range(rounds):
        for enable in in_turn("01", number):
            runs[enable].append(run(command, enable))
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="All other options are ddlrun's.")
    parser.add_argument("--call", choices=CALLS, default="all_reduce", help="(default %(default)s)")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default %(default)s)")
    parser.add_argument("--max", type=int, default=SIZES[-1], help="largest size in bytes (default %(default)s)")
    options, of_ddlrun = parser.parse_known_args()
    largest = 4 if options.call == "barrier" else options.max
    command = [*ddlrun(of_ddlrun), options.python, os.path.realpath(__file__), "--work", options.call, str(largest)]
    runs = alternate(command, options.rounds)
    print("|     bytes | gloo (us) | engine (us) | ratio |\n|---:|---:|---:|---:|")
    for size in runs["0"][0]:
        gloo, engine = (statistics.median(one[size] for one in runs[enable]) for enable in "01")
        print(f"| {int(size):9} | {gloo:9.1f} | {engine:11.1f} | {gloo / engine:5.2f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]))
    else:
        main()
