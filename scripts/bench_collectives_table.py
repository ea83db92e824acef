"""Measures and prints the table of the other collectives in docs/performance.md; see bench.sh --collectives.

Each collective runs in a job of its own, Open MPI, on one host MPICH where it is installed, and ddlrun one after the
other, several times. A figure is the geometric mean, over the sizes of a group, of the better peer's time by ours; each
time is the median of the runs' medians.
"""
import os
import shlex
import statistics
import sys
import tempfile
from dataclasses import dataclass, field

from bench_table import KIB, MIB, geometric_mean, in_turn, medians, mpich, openmpi, option_parser, placement, run_script

WHOLE = ["bcast", "reduce"]  # a size is that of the buffer; of the others, of a block
BLOCKS = ["allgather", "reduce_scatter", "alltoall", "gather", "scatter", "allgatherv", "alltoallv", "gatherv", "scatterv"]
GROUPS = [("<= 16 KiB", 0, 16 * KIB), ("64 KiB - 2 MiB", 64 * KIB, 2 * MIB), (">= 4 MiB", 4 * MIB, 1 << 40)]


@dataclass
class Work:
    title: str
    ranks: int
    factor: int
    words: list                                # for mpirun and ddlrun alike
    most_of_blocks: int
    hosts: list = field(default_factory=list)  # ranks of each virtual host
    rates: list = field(default_factory=list)  # of the rails


YIELDING = ["--mca", "mpi_yield_when_idle", "1"]
WARM_UP = 60  # calls before the timed ones: about as many as the engine tries its ways with
WORKS = [
    Work("2 ranks, one host", 2, 4, [], 16 * MIB),
    Work("4 ranks, one host", 4, 16, ["--oversubscribe", *YIELDING], MIB),
    Work("4 hosts x 2, 1 Gbit/s", 8, 16, YIELDING, MIB, [2] * 4, ["1gbit"]),
    Work("2 + 1 + 3 ranks, 1 + 1 Gbit/s", 6, 16, YIELDING, MIB, [2, 1, 3], ["1gbit", "1gbit"]),
]


def measure(work, op, options, files):
    """{who: {bytes: us}}"""
    fits = max(work.hosts or [work.ranks]) <= os.cpu_count()
    like_mpirun = [*placement(work), "--bind-to", "core" if fits else "none", *work.words,
                   os.path.abspath(f"{options.build}/bin/ddl-bench")]
    contestants = {"Open MPI": [openmpi(), *like_mpirun],
                   "ddlrun": [os.path.abspath(f"{options.build}/bin/ddlrun"), "-s", *like_mpirun]}
    if options.mpich and fits and not work.hosts:  # it never yields
        start, bench = options.mpich
        contestants["MPICH"] = [start, *placement(work), "-bind-to", "core", bench]
    most = 4 * MIB if work.hosts else 16 * MIB
    sizes = ["-b", "4", "-e", str(most if op in WHOLE else min(most, work.most_of_blocks)), "-f", str(work.factor),
             "-x", str(WARM_UP)]
    lines, results = ["set -e"], []
    for rep in range(options.reps):
        for who, start in in_turn(contestants.items(), rep):
            results.append((who, f"{files}/{len(results)}"))
            words = [*start, "--op", op, *sizes, "--json", results[-1][1]]
            lines.append(f"{shlex.join(words)} >{files}/log 2>&1 || {{ tail -5 {files}/log >&2; exit 1; }}")
    run_script(work, lines)
    found = {who: {} for who in contestants}
    for who, path in results:
        for size, median in medians(path).items():
            found[who].setdefault(size, []).append(median)
    return {who: {size: statistics.median(runs) for size, runs in sizes.items()} for who, sizes in found.items()}


def details(times):
    for size in times["ddlrun"]:
        print(f"  {size} bytes: " + ", ".join(f"{who} {times_of[size]:.2f} us" for who, times_of in times.items()), flush=True)


def row(op, times):
    ours = times["ddlrun"]
    theirs = {size: min(times_of[size] for who, times_of in times.items() if who != "ddlrun") for size in ours}
    cells = [op]
    for _, least, most in GROUPS:
        ratios = [theirs[size] / ours[size] for size in sorted(ours) if least <= size <= most]
        cells.append(f"{geometric_mean(ratios):.2f} ({min(ratios):.2f})" if ratios else "-")
    return f"| {' | '.join(cells)} |"


def main():
    parser = option_parser()
    parser.add_argument("--ops", type=lambda text: text.split(","), default=[*WHOLE, *BLOCKS, "barrier"])
    parser.add_argument("--details", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddl-bench-") as files:
        options.mpich = mpich(files)
        for work in WORKS:
            if options.only not in work.title:
                continue
            print(f"\n{work.title}: the better peer / ours, geometric mean (least)\n\n| |{'|'.join(f' {name} ' for name, *_ in GROUPS)}|")
            print(f"|---|{'---:|' * len(GROUPS)}", flush=True)
            try:
                for op in options.ops:
                    times = measure(work, op, options, files)
                    print(row(op, times), flush=True)
                    if options.details:
                        details(times)
            except RuntimeError as error:
                print(f"| not measured: {error} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
