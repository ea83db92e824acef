#!/usr/bin/python3
"""The table at the end of scripts/demo.sh, computed from the files the runs left in a folder.

Exit code 1 if a result is wrong: accuracy, weights beyond their bound, ranks that disagree, an all-reduce that was
wrong, or calls that the engine should have served and did not. Being slow is not wrong, but is said.
"""
import json
import multiprocessing
import pathlib
import statistics
import sys
import time

import numpy

UNKNOWN = "not reported"
GIGABIT_PAYLOAD = 119.5e6  # bytes per second that a 1 Gbit/s link carries beside the headers
REQUIRED_ACCURACY = 0.95
BURST = 1 << 20  # the shaper of a virtual link lets short messages pass at once
HOSTS = 4  # virtual ones, with two ranks each


def load(path):
    """The JSON document, or {} if there is none: a missing key then reads as "not reported"."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


class Table:
    """Prints rows and remembers what was slower and what was wrong."""

    def __init__(self):
        self.slower, self.wrong, self.section = [], [], ""

    def head(self, title):
        self.section = title
        print(f"\n{title}\n{'':36}{'Open MPI':>12}{'ddlrun':>12}{'ratio':>8}")

    def row(self, name, plain, engine, note=""):
        print(f"  {name:34}{plain:>12}{engine:>12}{'':8}  {note}".rstrip())

    def times(self, name, plain, engine, note=""):
        """Seconds; ratio > 1: ddlrun is faster."""
        if not plain or not engine:
            return self.row(name, UNKNOWN, UNKNOWN)
        ratio = plain / engine
        if ratio < 1:
            self.slower.append(f"{self.section}: {name}, ratio {ratio:.2f}")
        print(f"  {name:34}{duration(plain):>12}{duration(engine):>12}{ratio:8.2f}  {note}".rstrip())
        return None

    def line(self, name, text):
        print(f"  {name:34}{text}")

    def require(self, condition, what):
        if not condition:
            self.wrong.append(f"{self.section}: {what}")


def duration(seconds):
    return f"{1e6 * seconds:.0f} us" if seconds < 1e-3 else f"{1e3 * seconds:.1f} ms"


def size(number):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:g} {unit}"
    return f"{number} B"


def largest_difference(a, b):
    return float(numpy.max(numpy.abs(numpy.asarray(a, dtype=float) - numpy.asarray(b, dtype=float))))


def weights(folder, name):
    path = folder / f"{name}.npy"
    return numpy.load(path) if path.exists() else None


# ---- training ---------------------------------------------------------------------------------------------------


def training_results(table, folder, place, needs_accuracy):
    plain, engine = load(folder / f"{place}.plain.json"), load(folder / f"{place}.engine.json")
    if not plain or not engine:
        table.require(False, "the training left no results")
        return
    table.row("test accuracy", f"{100 * plain['accuracy']:.2f} %", f"{100 * engine['accuracy']:.2f} %",
              "(few steps)" if not needs_accuracy else f"(required: {100 * REQUIRED_ACCURACY:.0f} %)")
    if needs_accuracy:
        table.require(engine["accuracy"] >= REQUIRED_ACCURACY, "the test accuracy is too low")
    table.row("loss, first and last step", f"{plain['losses'][0]:.4f}", f"{engine['losses'][0]:.4f}")
    table.row("", f"{plain['losses'][-1]:.4f}", f"{engine['losses'][-1]:.4f}")
    table.line("largest loss difference", f"{largest_difference(plain['losses'], engine['losses']):.2g} "
               f"over {len(plain['losses'])} steps")
    weight_difference(table, folder, place, engine)
    same = plain["same_weights_on_all_ranks"] and engine["same_weights_on_all_ranks"]
    table.line("weights on all ranks", "the same bits" if same else "DIFFERENT")
    table.require(same, "the ranks ended with different weights")
    table.times("time per step", plain["step_seconds"], engine["step_seconds"], "median")
    table.times("in all-reduce, per step", plain["communication_seconds"], engine["communication_seconds"],
                "median, waiting for slower ranks included")
    table.times("  on the last rank to arrive", plain["transfer_seconds"], engine["transfer_seconds"],
                "median, waits for nobody")


def weight_difference(table, folder, place, engine):
    a, b = weights(folder, f"{place}.plain"), weights(folder, f"{place}.engine")
    bound = engine["reordering_bound"]
    if a is None or b is None:
        table.line("largest weight difference", UNKNOWN)
        table.require(False, "no weights to compare")
        return
    difference = largest_difference(a, b)
    reason = "a+b = b+a" if bound == 0 else "float32 sums in another order, to first order"
    table.line("largest weight difference", f"{difference:.2g}, bound {bound:.2g} ({reason})")
    table.require(difference <= bound, f"weights differ by {difference:.2g}, more than {bound:.2g}")


# ---- the report of ddlrun ---------------------------------------------------------------------------------------


def report_results(table, folder, place):
    report = load(folder / f"{place}.report.json")
    if not report:
        table.line("report", UNKNOWN)
        table.require(False, "ddlrun left no report")
        return
    served = 0
    for collective in report.get("collectives", []):
        engine, original = collective.get("engine", {}), collective.get("original", [])
        served += engine.get("calls", 0)
        reasons = ", ".join(f"{o.get('calls', 0)} {o.get('reason', '')}".strip() for o in original) or "0"
        table.line(f"{collective.get('name', '?')} calls", f"{engine.get('calls', 0)} by the engine "
                   f"({engine.get('bytes', 0) / 1e6:.1f} MB), by the original: {reasons}")
    if not report.get("engine", True):
        table.line("engine", f"off: {report.get('reason', UNKNOWN)}")
    table.require(served > 0, "the engine served no call")
    for algorithm in report.get("algorithms", []):
        table.line(f"plan up to {size(algorithm.get('bytes_up_to', 0))}", f"{algorithm.get('plan', UNKNOWN)}, "
                   f"{algorithm.get('calls', UNKNOWN)} calls")
    rail_results(table, folder, place, report.get("rails", []))
    table.line("staging memory, all ranks", f"{report['staging_bytes'] / 1e6:.1f} MB" if "staging_bytes" in report
               else UNKNOWN)


def rail_results(table, folder, place, rails):
    for rail in rails:
        sent, predicted = rail.get("bytes_sent"), rail.get("bytes_predicted")
        table.line(f"rail {rail.get('name', '?')}", f"the engine sent {megabytes(sent)}, the plan says "
                   f"{megabytes(predicted)}" + (f" ({100 * (sent / predicted - 1):+.2f} %)" if sent and predicted else ""))
        if sent and predicted:
            table.require(abs(sent / predicted - 1) <= 0.04, "the rails carried something else than the plan says")
    if not rails:
        table.line("rails", "none used" if place == "host" else UNKNOWN)
    seen = {way: interface_bytes(folder / f"{place}.{way}.bytes.json") for way in ("plain", "engine")}
    if any(seen.values()):
        training = load(folder / f"{place}.engine.json")
        least = 2 * (HOSTS - 1) * training.get("gradient_bytes", 0) * training.get("steps", 0)
        table.row("sent by all interfaces", megabytes(seen["plain"]), megabytes(seen["engine"]),
                  f"all steps, headers and start-up; a ring's gradients alone: {megabytes(least)}")


def interface_bytes(path):
    """What the virtual interfaces counted from outside, or None."""
    return sum(rail["tx"] for host in load(path).values() for rail in host.values()) or None


def megabytes(number):
    return UNKNOWN if number is None else f"{number / 1e6:.1f} MB"


# ---- all-reduce alone -------------------------------------------------------------------------------------------


def bench_medians(table, folder, place, way):
    """{bytes: seconds}, the best round's median."""
    best = {}
    for path in sorted(folder.glob(f"bench.{place}.{way}.*.json")):
        for row in load(path).get("results", []):
            table.require(row.get("wrong", 0) == 0, f"{row['wrong'] if 'wrong' in row else ''} wrong results ({way})")
            seconds = row["median_us"] * 1e-6
            best[row["bytes"]] = min(seconds, best.get(row["bytes"], seconds))
    return best


def bench_results(table, folder, place, limit, limit_name):
    plain, engine = (bench_medians(table, folder, place, way) for way in ("plain", "engine"))
    table.require(plain and engine, "ddl-bench left no results")
    for number in sorted(plain.keys() & engine.keys()):
        least = limit(number)
        table.times(f"all-reduce of {size(number)}", plain[number], engine[number],
                    f"median; {limit_name} {duration(least)}" +
                    (" (a burst may pass faster)" if place == "wire" and number < BURST else ""))


def copy_loop(number, barrier, times):
    """Both processes copy at once, as two ranks do."""
    source, target = numpy.ones(number, dtype=numpy.uint8), numpy.zeros(number, dtype=numpy.uint8)
    for _ in range(21):
        barrier.wait()
        start = time.perf_counter()
        numpy.copyto(target, source)
        times.put(time.perf_counter() - start)


def memcpy_seconds(number):
    barrier, times = multiprocessing.Barrier(2), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=copy_loop, args=(number, barrier, times)) for _ in range(2)]
    for worker in workers:
        worker.start()
    measured = [times.get(timeout=60) for _ in range(42)]
    for worker in workers:
        worker.join()
    return statistics.median(measured)


def wire_seconds(number, hosts=HOSTS, rails=1):
    return 2 * (hosts - 1) / hosts * number / (GIGABIT_PAYLOAD * rails)


# ---- all of it --------------------------------------------------------------------------------------------------


def conclude(table, folder):
    print("\nWhere ddlrun loses (ratio < 1)")
    for line in table.slower or ["nowhere in this run"]:
        print(f"  {line}")
    print("\nFiles")
    for path in sorted(folder.iterdir()):
        if path.suffix == ".svg" or path.name.endswith("report.json"):
            print(f"  {path}")
    if table.wrong:
        print("\nWRONG")
        for line in table.wrong:
            print(f"  {line}")
        return 1
    print("\nall results are right")
    return 0


def main():
    if len(sys.argv) != 2:
        print("usage: demo_table.py FOLDER", file=sys.stderr)
        return 2
    folder, table = pathlib.Path(sys.argv[1]), Table()
    table.head("This machine, 2 ranks")
    training_results(table, folder, "host", needs_accuracy=True)
    report_results(table, folder, "host")
    bench_results(table, folder, "host", memcpy_seconds, "copying as much takes")
    if (folder / "wire.plain.json").exists():
        table.head("4 virtual hosts x 2 ranks, one 1 Gbit/s rail")
        training_results(table, folder, "wire", needs_accuracy=False)
        report_results(table, folder, "wire")
        bench_results(table, folder, "wire", wire_seconds, "limit of the wire")
    else:
        print("\n4 virtual hosts: left out, they cannot be made here")
    return conclude(table, folder)


if __name__ == "__main__":
    sys.exit(main())
