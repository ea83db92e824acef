"""Draws docs/allreduce.svg: all-reduce over sizes, Open MPI beside ddlrun, measured here and now with ddl-bench.

Two pictures side by side: two ranks of this machine, and, where virtual hosts can be made (root), four hosts of two ranks each over
1 Gbit/s. Every point is the median of the medians of some runs, which alternate.

  python3 scripts/plot_allreduce.py --build build/release [--reps 3] [--out docs/allreduce.svg]
"""
import argparse
import math
import os
import statistics
import sys
import tempfile

from bench_table import MIB, Work, in_turn, medians, openmpi, placement, run_script

WORKS = [Work("one host, 2 ranks", 2, [(4, 64 * MIB, 1)], [], []),
         Work("4 virtual hosts x 2 ranks, 1 Gbit/s", 8, [(4, 16 * MIB, 1)], [], [], [2] * 4, ["1gbit"])]
COLOURS = {"Open MPI": "#888888", "ddlrun": "#1565c0"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 440, 300, 58, 12, 46, 44


def measured(build, work, reps):
    """{who: {bytes: us}}"""
    found = {who: {} for who in COLOURS}
    with tempfile.TemporaryDirectory(prefix="ddl-plot-") as files:
        lines = ["set -e"]
        least, most, _ = work.sizes[0]
        for run in range(reps):
            for who in in_turn(COLOURS, run):
                start = [openmpi()] if who == "Open MPI" else [f"{build}/bin/ddlrun", "-s"]
                words = [*start, *placement(work), f"{build}/bin/ddl-bench", "--min", least, "--max", most, "--factor", 4,
                         "--json", f"{files}/{run}.{who.replace(' ', '')}"]
                lines.append(" ".join(f"'{word}'" for word in words) + f" >{files}/log 2>&1 || {{ tail -5 {files}/log >&2; exit 1; }}")
        run_script(work, lines)
        for who in COLOURS:
            runs = [medians(f"{files}/{run}.{who.replace(' ', '')}") for run in range(reps)]
            found[who] = {size: statistics.median(run[size] for run in runs) for size in runs[0]}
    return found


def size_text(size):
    for unit, name in ((MIB, "MiB"), (1024, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(us):
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if us >= unit:
            return f"{us / unit:g} {name}"
    return f"{us:g} us"


def text(x, y, words, anchor="middle", size=11, colour="#333333", bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{weight}>{words}</text>'


def panel(work, times, left):
    """The picture of one work, both axes logarithmic."""
    sizes = sorted(times["ddlrun"])
    values = [us for found in times.values() for us in found.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    span_x, span_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(size, us):
        return (left + LEFT + span_x * math.log2(size / sizes[0]) / math.log2(sizes[-1] / sizes[0]),
                TOP + span_y * (high - math.log10(us)) / (high - low))

    parts = [text(left + LEFT + span_x / 2, 18, work.title, size=13, bold=True)]
    for power in range(low, high + 1):
        _, y = at(sizes[0], 10 ** power)
        parts.append(f'<line x1="{left + LEFT}" y1="{y:.1f}" x2="{left + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(text(left + LEFT - 6, y + 4, time_text(10.0 ** power), "end"))
    for i, size in enumerate(sizes):
        if i % 3 == 0 or size == sizes[-1] and i % 3 == 2:
            x, _ = at(size, 1)
            parts.append(text(x, HEIGHT - BOTTOM + 17, size_text(size)))
    for who, found in times.items():
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(size, found[size]) for size in sizes))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[who]}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[who]}"/>'
                  for x, y in (at(size, found[size]) for size in sizes)]
    for i, who in enumerate(times):
        y = TOP - 10
        x = left + LEFT + 10 + 90 * i
        parts.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 18}" y2="{y - 4}" stroke="{COLOURS[who]}" stroke-width="2.5"/>')
        parts.append(text(x + 23, y, who, "start", colour=COLOURS[who], bold=True))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/allreduce.svg"))
    options = parser.parse_args()
    parts, panels = [], 0
    for work in WORKS:
        try:
            times = measured(os.path.abspath(options.build), work, options.reps)
        except RuntimeError as error:
            print(f"{work.title}: not measured: {error}", file=sys.stderr)
            continue
        parts += panel(work, times, panels * WIDTH)
        panels += 1
        for size in sorted(times["ddlrun"]):
            print(f"{work.title:<40}{size:>10}{times['Open MPI'][size]:>14.2f}{times['ddlrun'][size]:>14.2f} us")
    if panels == 0:
        return 1
    parts.append(text(panels * WIDTH / 2, HEIGHT - 8, "time of an all-reduce of float32, median; lower is better"))
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {panels * WIDTH} {HEIGHT}" '
                   'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
