"""Measures and prints the table of the other collectives in docs/performance.md; see bench.sh --collectives.

Each collective runs in a job of its own, Open MPI and ddlrun one after the other, several times. A figure is the
geometric mean, over the sizes of a group, of Open MPI's time by ours; each time is the median of the runs' medians.
"""
import os
import shlex
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field

from bench_table import KIB, MIB, geometric_mean, medians, openmpi, option_parser, placement, run_script

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


YIELDING = ["--bind-to", "core", "--mca", "mpi_yield_when_idle", "1"]
WORKS = [
    Work("2 ranks, one host", 2, 4, ["--bind-to", "core"], 16 * MIB),
    Work("4 hosts x 2, 1 Gbit/s", 8, 16, YIELDING, MIB, [2] * 4, ["1gbit"]),
    Work("2 + 1 + 3 ranks, 1 + 1 Gbit/s", 6, 16, YIELDING, MIB, [2, 1, 3], ["1gbit", "1gbit"]),
]


def measure(work, op, options, files):
    """{who: {bytes: us}}"""
    contestants = {"Open MPI": [openmpi()], "ddlrun": [os.path.abspath(f"{options.build}/bin/ddlrun"), "-s"]}
    most = 4 * MIB if work.hosts else 16 * MIB
    sizes = ["-b", "4", "-e", str(most if op in WHOLE else min(most, work.most_of_blocks)), "-f", str(work.factor)]
    lines, results = ["set -e"], []
    for _ in range(options.reps):
        for who, start in contestants.items():
            results.append((who, f"{files}/{len(results)}"))
            words = [*start, *placement(work), *work.words, os.path.abspath(f"{options.build}/bin/ddl-bench"), "--op", op, *sizes,
                     "--json", results[-1][1]]
            lines.append(f"{shlex.join(words)} >{files}/log 2>&1 || {{ tail -5 {files}/log >&2; exit 1; }}")
    run_script(work, lines)
    found = {who: {} for who in contestants}
    for who, path in results:
        for size, median in medians(path).items():
            found[who].setdefault(size, []).append(median)
    return {who: {size: statistics.median(runs) for size, runs in sizes.items()} for who, sizes in found.items()}


def row(op, times):
    theirs, ours = times["Open MPI"], times["ddlrun"]
    cells = [op]
    for _, least, most in GROUPS:
        ratios = [theirs[size] / ours[size] for size in sorted(ours) if least <= size <= most]
        cells.append(f"{geometric_mean(ratios):.2f} ({min(ratios):.2f})" if ratios else "-")
    return f"| {' | '.join(cells)} |"


def main():
    parser = option_parser()
    parser.add_argument("--ops", type=lambda text: text.split(","), default=[*WHOLE, *BLOCKS, "barrier"])
    options = parser.parse_args()
    for work in WORKS:
        if options.only not in work.title:
            continue
        print(f"\n{work.title}: Open MPI / ours, geometric mean (least)\n\n| |{'|'.join(f' {name} ' for name, *_ in GROUPS)}|")
        print(f"|---|{'---:|' * len(GROUPS)}", flush=True)
        files = tempfile.mkdtemp(prefix="ddl-bench-")
        try:
            for op in options.ops:
                print(row(op, measure(work, op, options, files)), flush=True)
        except RuntimeError as error:
            print(f"| not measured: {error} |", flush=True)
        finally:
            shutil.rmtree(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
