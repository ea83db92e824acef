"""Prints what the cost model predicts (ddlrun --explain) beside what ddl-bench measures; see bench.sh.

Measured with DDL_DETERMINISTIC=1, so that the plan is the one the model chose and nothing is tuned. The model is told
neither this machine's memory nor the rates of its rails: it assumes what --explain prints.
"""
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench_table import KIB, MIB, Work, medians, parse_options, placement, run_script

WORKS = [
    Work("2 ranks, one host", 2, [(4 * KIB, 256 * MIB, 16)], [], []),
    Work("4 ranks, one host", 4, [(4 * KIB, 16 * MIB, 16)], [], [], ours=["--oversubscribe"]),
    Work("4 hosts x 2, 1 Gbit/s", 8, [(4 * KIB, 16 * MIB, 16)], [], [], [2] * 4, ["1gbit"]),
    Work("4 hosts x 2, 1 + 1 Gbit/s", 8, [(4 * KIB, 16 * MIB, 16)], [], [], [2] * 4, ["1gbit", "1gbit"]),
    Work("2 + 1 + 3 ranks, 1 + 1 Gbit/s", 6, [(4 * KIB, 16 * MIB, 16)], [], [], [2, 1, 3], ["1gbit", "1gbit"]),
]
UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "us": 1.0, "ms": 1e3, "s": 1e6}
LINE = re.compile(r"^ *([0-9.]+) (B|KiB|MiB)  (.*): ([0-9.e+]+) (us|ms|s)(,|$)")


def options_of(work):
    rails = ",".join(f"r{i}" for i in range(len(work.rates)))
    return [*work.ours, *placement(work), "-x", "DDL_DETERMINISTIC=1", *(["-x", f"DDL_RAILS={rails}"] if rails else [])]


def predicted(ddlrun, work):
    """{bytes: (us, plan)}"""
    said = subprocess.run([ddlrun, "--explain", *options_of(work)], check=True, capture_output=True, text=True).stdout
    found = {}
    for match in filter(None, map(LINE.match, said.splitlines())):
        size, unit, plan, time, time_unit, _ = match.groups()
        found[int(float(size) * UNITS[unit])] = (float(time) * UNITS[time_unit], plan)
    if not found:
        raise RuntimeError("ddlrun --explain predicts nothing")
    return found


def measured(bin_folder, work, reps, files):
    """{bytes: us}, medians over the runs."""
    least, most = work.sizes[0][0], work.sizes[-1][1]
    lines = ["set -e"]
    for run in range(reps):
        words = [f"{bin_folder}/ddlrun", "-s", *options_of(work), f"{bin_folder}/ddl-bench", "--min", least, "--max", most,
                 "--factor", 4, "--json", f"{files}/{run}"]
        lines.append(f"{shlex.join(map(str, words))} >{files}/log 2>&1 || {{ tail -5 {files}/log >&2; exit 1; }}")
    run_script(work, lines)
    runs = [medians(f"{files}/{run}") for run in range(reps)]
    return {size: statistics.median(run[size] for run in runs) for size in runs[0]}


def main():
    options = parse_options()
    bin_folder = os.path.abspath(f"{options.build}/bin")
    print("| work | bytes | predicted us | measured us | measured / predicted | plan |\n|---|---:|---:|---:|---:|---|")
    for work in WORKS:
        if options.only not in work.title:
            continue
        files = tempfile.mkdtemp(prefix="ddl-bench-")
        try:
            guess, fact = predicted(f"{bin_folder}/ddlrun", work), measured(bin_folder, work, options.reps, files)
            for size in sorted(guess.keys() & fact.keys()):
                time, plan = guess[size]
                print(f"| {work.title} | {size} | {time:.1f} | {fact[size]:.1f} | {fact[size] / time:.2f} | {plan} |",
                      flush=True)
        except RuntimeError as error:
            print(f"| {work.title} | - | - | not measured: {error} | - | - |", flush=True)
        finally:
            shutil.rmtree(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
