#!/usr/bin/python3
"""Trains two networks for ten seeds with each type that gradients may travel as, and with a tenth of them, and compares
their test accuracies.

compare.py [--ddlrun PROGRAM] [--seeds N] [--steps N] [--settings NAME...] [--networks NAME...]

The two ranks of this machine are taken for two hosts (DDL_FAKE_HOSTS=1,1), so that there is something between hosts;
nothing is measured (DDL_DETERMINISTIC=1), so that no call is left to gloo because it is faster.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
# A column each; exact is what the others are held against.
SETTINGS = {
    "exact": [],
    "bfloat16": ["DDL_WIRE_TYPE=bfloat16"],
    "int8": ["DDL_WIRE_TYPE=int8"],
    "a tenth": ["DDL_SPARSE=0.1"],
}
NETWORKS = ("mlp", "convolutional")


def job(options, network, setting):
    """{accuracies, same, sent}: the last in bytes between hosts."""
    with tempfile.TemporaryDirectory() as folder:
        words = [options.ddlrun, "-np", "2", "--report", f"{folder}/report", "-x", "DDL_FAKE_HOSTS=1,1",
                 "-x", "DDL_DETERMINISTIC=1"]
        for variable in SETTINGS[setting]:
            words += ["-x", variable]
        words += ["/usr/bin/python3", f"{HERE}/train.py", "--network", network, "--seeds", str(options.seeds), "--steps",
                  str(options.steps)]
        done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}compare.py: {' '.join(words)} ended with {done.returncode}")
        result = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        with open(f"{folder}/report", encoding="utf-8") as file:
            rails = json.load(file).get("rails", [])
    result["sent"] = sum(rail["bytes_predicted"] for rail in rails)
    return result


def percent(share):
    return f"{100 * share:.2f} %"


def row(name, values):
    print(f"{name:34}" + "".join(f"{value:>12}" for value in values), flush=True)


def compare(network, results):
    """Prints the table of a network; whether every setting is within the spread of the exact seeds."""
    exact = results["exact"]["accuracies"]
    spread = statistics.stdev(exact) if len(exact) > 1 else 0.0
    means = {name: statistics.mean(result["accuracies"]) for name, result in results.items()}
    within = {name: abs(mean - means["exact"]) <= spread for name, mean in means.items()}
    print(f"\n{network}, {len(exact)} seeds")
    row("", results)
    row("bytes between hosts, of exact", [f"{result['sent'] / results['exact']['sent']:.2f}" for result in results.values()])
    row("test accuracy, mean", [percent(mean) for mean in means.values()])
    row("  least", [percent(min(result["accuracies"])) for result in results.values()])
    row("  most", [percent(max(result["accuracies"])) for result in results.values()])
    row("mean against exact, points", [f"{100 * (mean - means['exact']):+.2f}" for mean in means.values()])
    row(f"within the spread of exact, {100 * spread:.2f}", ["yes" if one else "NO" for one in within.values()])
    row("weights on all ranks", ["the same" if result["same"] else "DIFFERENT" for result in results.values()])
    return all(within.values()) and all(result["same"] for result in results.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ddlrun", default="ddlrun", help="(default: that on PATH)")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    options = parser.parse_args()
    settings = ["exact"] + [name for name in options.settings if name != "exact"]
    good = [compare(network, {setting: job(options, network, setting) for setting in settings}) for network in options.networks]
    print("\nspread: standard deviation of the exact seeds")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
