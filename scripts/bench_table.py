"""Measures and prints the table of docs/performance.md; see bench.sh.

A work is a machine (this one, or virtual hosts), a number of ranks and some sizes. Every contestant runs ddl-bench
over them, one after the other, several times; a figure is the median over the runs of the median that a run reports.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

GOODPUT = """
import socket, subprocess, sys, time
address, agent_host, total = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = ("import socket; s = socket.create_server(('%s', 7777)); print('ready', flush=True); c = s.accept()[0]\\n"
          "n = 0\\nwhile n < %d:\\n    got = len(c.recv(1 << 20))\\n    n += got\\n    assert got\\nc.sendall(b'x')" % (address, total))
there = subprocess.Popen(["vcluster-agent", agent_host, "python3", "-c", "'" + server.replace("'", "'\\"'\\"'") + "'"],
                         stdout=subprocess.PIPE, text=True)
there.stdout.readline()
link = socket.create_connection((address, 7777))
block = b"x" * (1 << 20)
began = time.time()
for _ in range(total >> 20):
    link.sendall(block)
link.recv(1)
print(total / (time.time() - began))
"""


@dataclass
class Work:
    title: str
    ranks: int
    sizes: list            # (from, to) of the runs of ddl-bench, and how many of them a repetition has
    rows: list             # (label, from, to, target in words)
    peers: list
    hosts: list = field(default_factory=list)  # ranks of each virtual host
    rates: list = field(default_factory=list)  # of the rails
    ours: list = field(default_factory=list)   # options for mpirun and ddlrun alike


KIB, MIB = 1 << 10, 1 << 20
WIRE = [("<= 16 KiB", 0, 16 * KIB, ">= 1.0 x"), ("64 - 256 KiB", 64 * KIB, 256 * KIB, ">= 1.0 x"),
        ("1 MiB", MIB, MIB, "<= 1.15 limit"), ("16 MiB", 16 * MIB, 16 * MIB, "<= 1.08 limit, >= 1.5 x")]
# Short runs are repeated more often: what the kernel puts on which core differs from one to the next.
SMALL = (4, 16 * KIB, 3)
WORKS = [
    Work("2 ranks, one host", 2, [SMALL, (64 * KIB, 256 * MIB, 1)],
         [("<= 16 KiB", 0, 16 * KIB, ">= 1.0 x"), ("64 KiB - 1 MiB", 64 * KIB, MIB, ">= 1.5 x"),
          ("4 MiB", 4 * MIB, 4 * MIB, ">= 1.25 x"), ("16 MiB", 16 * MIB, 16 * MIB, ">= 1.6 x"),
          ("64 MiB", 64 * MIB, 64 * MIB, ">= 2.5 x, <= 1.75 copies"),
          ("256 MiB", 256 * MIB, 256 * MIB, ">= 2.5 x, <= 1.75 copies")],
         ["Open MPI", "MPICH", "copy"]),
    Work("4 ranks, one host", 4, [SMALL, (64 * KIB, 16 * MIB, 1)], [("all sizes", 0, 16 * MIB, ">= 1.2 x")], ["Open MPI, yielding"],
         ours=["--oversubscribe"]),
    Work("4 hosts x 2, 1 Gbit/s", 8, [SMALL, (64 * KIB, 16 * MIB, 1)], WIRE, ["Open MPI", "Open MPI, HAN"], [2] * 4, ["1gbit"]),
    Work("4 hosts x 2, 1 + 1 Gbit/s", 8, [(16 * MIB, 16 * MIB, 1)],
         [("16 MiB", 16 * MIB, 16 * MIB, "<= 1.12 limit")], ["Open MPI"], [2] * 4, ["1gbit", "1gbit"]),
    Work("4 hosts x 2, 1 + 0.5 Gbit/s", 8, [(16 * MIB, 16 * MIB, 1)],
         [("16 MiB", 16 * MIB, 16 * MIB, "<= 1.15 limit")], ["Open MPI"], [2] * 4, ["1gbit", "500mbit"]),
    Work("2 + 1 + 3 ranks, 1 + 1 Gbit/s", 6, [(16 * MIB, 16 * MIB, 1)],
         [("16 MiB", 16 * MIB, 16 * MIB, "<= 1.15 limit")], ["Open MPI"], [2, 1, 3], ["1gbit", "1gbit"]),
    Work("4 hosts x 2, unshaped", 8, [(16 * MIB, 16 * MIB, 1)], [("16 MiB", 16 * MIB, 16 * MIB, ">= 1.3 x")],
         ["Open MPI", "Open MPI, HAN"], [2] * 4, ["none"]),
]


def placement(work):
    """The options that say how many ranks there are, and where."""
    hosts = ["-H", ",".join(f"h{i}:{n}" for i, n in enumerate(work.hosts))] if work.hosts else []
    return ["-np", str(work.ranks), *hosts]


def run_script(work, lines):
    """Runs bash lines on this machine, or on the first of the work's virtual hosts."""
    command = ["bash", "-c", "\n".join(lines)]
    if work.hosts:
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        command = [f"{here}/tests/cluster/vcluster", "--hosts", str(len(work.hosts)), "--rails", str(len(work.rates)),
                   "--rate", ",".join(work.rates), "--", *command]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise RuntimeError("virtual hosts cannot be made here" if code == 77 else f"failed with {code}")


def in_turn(contestants, run):
    """Each run begins with another of them: whoever comes later may find the machine slower."""
    contestants = list(contestants)
    first = run % len(contestants)
    return contestants[first:] + contestants[:first]


def medians(path):
    """{bytes: median us} that ddl-bench left in a file."""
    with open(path) as file:
        return {row["bytes"]: row["median_us"] for row in json.load(file)["results"]}


def openmpi():
    return shutil.which("mpirun.openmpi") or shutil.which("mpirun")


def mpich(files):
    """The words that start ddl-bench under MPICH, built there into that folder; None where MPICH is not installed."""
    start = shutil.which("mpirun.mpich")
    if not start or not shutil.which("mpicxx.mpich"):
        return None
    folder = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/examples/ddl_bench"
    sources = [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(".cpp")]
    subprocess.run(["mpicxx.mpich", "-std=c++20", "-O2", "-DFMT_HEADER_ONLY", *sources, "-o", f"{files}/ddl-bench-mpich"],
                   check=True)
    return [start, f"{files}/ddl-bench-mpich"]


class Bench:
    def __init__(self, options):
        self.options = options
        self.bin = os.path.abspath(f"{options.build}/bin")
        self.openmpi = openmpi()
        self.files = tempfile.mkdtemp(prefix="ddl-bench-")
        self.mpich = mpich(self.files)

    def command(self, who, work):
        ranks = placement(work)
        plain = [self.openmpi, *work.ours, *ranks]
        bench = [f"{self.bin}/ddl-bench"]
        return {"ddlrun": [f"{self.bin}/ddlrun", "-s", *work.ours, *ranks, *bench],
                "Open MPI": plain + bench,
                "Open MPI, HAN": [self.openmpi, "--mca", "coll_han_priority", "100", *ranks, *bench],
                "Open MPI, yielding": [self.openmpi, "--mca", "mpi_yield_when_idle", "1", *work.ours, *ranks, *bench],
                "MPICH": [self.mpich[0], "-np", str(work.ranks), *self.mpich[1:]] if self.mpich else [],
                "copy": plain + bench + ["--op", "copy"]}[who]

    def contestants(self, work):
        return [who for who in work.peers if who != "MPICH" or self.mpich] + ["ddlrun"]

    def measure(self, work):
        """{contestant: {bytes: median us}}, and the goodput of all rails together in bytes per second."""
        script, goodput = ["set -e"], f"{self.files}/goodput"
        if work.hosts:
            with open(f"{self.files}/goodput.py", "w") as file:
                file.write(GOODPUT)
            script.append(f": >{goodput}")
            for rail in range(len(work.rates)):
                script.append(f"python3 {self.files}/goodput.py 10.77.{rail}.2 h1 {64 * MIB} >>{goodput}")
        runs = [(j, least, most, rep * times + again) for rep in range(self.options.reps)
                for j, (least, most, times) in enumerate(work.sizes) for again in range(times)]
        for j, least, most, run in runs:
            for i, who in in_turn(enumerate(self.contestants(work)), run):
                words = self.command(who, work) + ["--min", str(least), "--max", str(most), "--factor", "4",
                                                   "--json", f"{self.files}/{i}.{j}.{run}"]
                script.append(" ".join(f"'{word}'" for word in words) + f" >{self.files}/log 2>&1 || "
                              f"{{ tail -5 {self.files}/log >&2; exit 1; }}")
        run_script(work, script)
        times = {}
        for i, who in enumerate(self.contestants(work)):
            found = {}
            for j, _, _, run in runs:
                for size, median in medians(f"{self.files}/{i}.{j}.{run}").items():
                    found.setdefault(size, []).append(median)
            times[who] = {size: statistics.median(runs) for size, runs in found.items()}
        rate = 0.0
        if work.hosts:
            with open(goodput) as file:
                rate = sum(float(line) for line in file)
        return times, rate


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def report(work, times, rate):
    ours = times["ddlrun"]
    rivals = [who for who in times if who not in ("ddlrun", "copy")]
    for label, least, most, target in work.rows:
        sizes = [size for size in sorted(ours) if least <= size <= most]
        ratios = [min(times[who][size] for who in rivals) / ours[size] for size in sizes]
        line = f"| {work.title} | {label} | {geometric_mean(ratios):.2f}"
        line += f" ({min(ratios):.2f} - {max(ratios):.2f})" if len(sizes) > 1 else ""
        limit = "-"
        if rate and work.rates != ["none"]:
            hosts = len(work.hosts)
            over = [ours[size] / (2 * (hosts - 1) / hosts * size / rate * 1e6) for size in sizes]
            limit = f"{over[-1]:.3f} x wire" if len(sizes) == 1 else "-"
        if "copy" in times:
            limit = f"{ours[sizes[-1]] / times['copy'][sizes[-1]]:.2f} x copies" if len(sizes) == 1 else "-"
        print(f"{line} | {limit} | {target} |", flush=True)


def details(work, times, rate):
    goodput = f"; plain TCP {rate / 1e6:.1f} MB/s over all rails" if rate else ""
    print(f"\n{work.title}: median microseconds{goodput}\n")
    print("| bytes | " + " | ".join(times) + " |\n|" + "---:|" * (len(times) + 1))
    for size in sorted(times["ddlrun"]):
        print(f"| {size} | " + " | ".join(f"{times[who].get(size, float('nan')):.1f}" for who in times) + " |")


def option_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--reps", type=int, default=3)
    return parser


def parse_options():
    return option_parser().parse_args()


def main():
    options = parse_options()
    bench = Bench(options)
    done = []
    print("| work | size | best peer / ours, geometric mean (range) | ours / limit | target |\n|---|---|---|---|---|")
    for work in WORKS:
        if options.only not in work.title:
            continue
        try:
            times, rate = bench.measure(work)
        except RuntimeError as error:
            print(f"| {work.title} | - | not measured: {error} | - | - |", flush=True)
            continue
        done.append((work, times, rate))
        report(work, times, rate)
    for work, times, rate in done:
        details(work, times, rate)
    shutil.rmtree(bench.files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
