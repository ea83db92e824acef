"""Measures and prints what surrounds the blocking all-reduce; see bench_calls.sh.

A job is a machine (this one, or virtual hosts), a number of ranks and some runs of ddl-bench-calls. The contestants do a
run one after the other, several times; a figure is the median over the times.
"""
import json
import os
import shlex
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field

from bench_table import in_turn, openmpi, option_parser, placement, run_script

LIMIT_S = 300  # of a run; who hangs or fails leaves cells empty


@dataclass
class Job:
    title: str
    ranks: int
    runs: list                                 # of ddl-bench-calls, each: items, then options
    hosts: list = field(default_factory=list)  # ranks of each virtual host
    rates: list = field(default_factory=list)  # of the rails
    cores: list = field(default_factory=list)  # of each rank, where hosts with one rank share this machine's


FIRST = 3 * [[["first"], "--sizes", size] for size in ("4k", "64k", "1m")]  # short, and every process differs
CALLS = [[["blocking", "nonblocking", "zero", "communicators"]], *FIRST, [["threads"]], [["outstanding"]]]
JOBS = [
    Job("2 ranks, one host", 2, [*CALLS, [["overlap-sleep", "overlap-compute", "processor"]]]),
    Job("4 hosts x 2, 1 Gbit/s", 8, [*CALLS, [["overlap-sleep", "processor"]]], [2] * 4, ["1gbit"]),
    Job("2 hosts x 1, a core each, 1 Gbit/s", 2, [[["overlap-compute"]]], [1] * 2, ["1gbit"], [0, 1]),
]


def chosen_runs(job, items):
    """The words of each run, without the items that are not asked for."""
    runs = []
    for names, *words in job.runs:
        left = [name for name in names if not items or name in items]
        if left:
            runs.append(["--only", ",".join(left), *words])
    return runs


def contestants(options):
    """{who: the words that start a job}"""
    found = {"Open MPI": [openmpi()]}
    if options.base:
        found["before"] = [os.path.abspath(f"{options.base}/bin/ddlrun"), "-s"]
    return {**found, "ddlrun": [os.path.abspath(f"{options.build}/bin/ddlrun"), "-s"]}


def places(job, files):
    words = placement(job)
    if job.cores:
        with open(f"{files}/ranks", "w") as file:
            file.writelines(f"rank {rank}=h{rank} slot={core}\n" for rank, core in enumerate(job.cores))
        words += ["--rankfile", f"{files}/ranks"]
    return words


def rows_of(path):
    """{(item, what, bytes, unit): value} that ddl-bench-calls left in a file, if it did."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return {}
    with open(path) as file:
        rows = json.load(file)["results"]
    return {(row["item"], row["what"], row["bytes"], row["unit"]): row["value"] for row in rows}


def measure(job, options, files):
    """{who: {row: median}}"""
    program = os.path.abspath(f"{options.build}/bin/ddl-bench-calls")
    lines, results = [], []
    for rep in range(options.reps):
        for run in chosen_runs(job, options.items):
            for who, start in in_turn(contestants(options).items(), rep):
                result = f"{files}/{len(results)}"
                words = [*start, *places(job, files), program, *run, "--json", result]
                lines.append(f"timeout -k 5 {LIMIT_S} {shlex.join(words)} >{files}/log 2>&1 || "
                             f"{{ rm -f {result}; echo {shlex.quote(who)} failed: {shlex.join(run)}; tail -5 {files}/log; }} >&2")
                results.append((who, result))
    run_script(job, lines)
    found = {who: {} for who in contestants(options)}
    for who, result in results:
        for row, value in rows_of(result).items():
            found[who].setdefault(row, []).append(value)
    return {who: {row: statistics.median(values) for row, values in rows.items()} for who, rows in found.items()}


def number(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def ratio(row, theirs, ours):
    return f"{theirs / ours:.2f}" if theirs is not None and ours and row[-1] != "share" else "-"


def report(job, medians):
    ours, others = medians["ddlrun"], [who for who in medians if who != "ddlrun"]
    heads = ["item", "what", "bytes", *medians, "unit", *(f"{who} / ddlrun" for who in others)]
    print(f"\n{job.title}\n\n| {' | '.join(heads)} |\n|---|---|---:|{'---:|' * len(medians)}---|{'---:|' * len(others)}")
    for row in {row: None for who in medians for row in medians[who]}:
        item, what, size, unit = row
        cells = [item, what, str(size), *(number(medians[who].get(row)) for who in medians), unit,
                 *(ratio(row, medians[who].get(row), ours.get(row)) for who in others)]
        print(f"| {' | '.join(cells)} |", flush=True)


def parse():
    parser = option_parser()
    parser.add_argument("--base", default="")
    parser.add_argument("--items", type=lambda text: text.split(","), default=[])
    return parser.parse_args()


def main():
    options = parse()
    for job in JOBS:
        if options.only not in job.title or not chosen_runs(job, options.items):
            continue
        files = tempfile.mkdtemp(prefix="ddl-bench-")
        try:
            report(job, measure(job, options, files))
        except RuntimeError as error:
            print(f"\n{job.title}: not measured: {error}", flush=True)
        finally:
            shutil.rmtree(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
