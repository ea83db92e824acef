#!/usr/bin/env python3
"""Inside a virtual cluster, an NCCL program whose ranks are on several hosts, without an NCCL: served by the engine.

  on_hosts.py --ranks 2,1,2 [--bytes N] SHIM PROGRAMS DOUBLES [VARIABLE=VALUE...]

First all the client's cases, in which the results are compared; then all-reduces of N bytes, with the bytes that every
rail carries compared to those that have to be: 2 (H - 1)/H N per host of H and direction, the same share on each rail.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 0.04
CALLS = 30  # of the client's `measure`, for that many bytes
CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "cluster"


def run(options, what):
    """One process per rank; what rank 0 printed."""
    size, rank = sum(options.ranks), 0
    with tempfile.TemporaryDirectory() as work:
        started = []
        for host, ranks in enumerate(options.ranks):
            for _ in range(ranks):
                started.append(subprocess.Popen(
                    [CLUSTER / "vcluster-agent", f"h{host}", "env", f"LD_PRELOAD={options.shim}", *options.variables,
                     f"DDL_TEST_FROM={options.bytes}", f"DDL_TEST_BYTES={options.bytes}", f"{options.programs}/nccl_plugin_host",
                     f"{options.doubles}/libnccl_stream_orphan.so", str(size), f"rank:{rank}:{work}/board", what],
                    stdout=subprocess.PIPE, text=True))
                rank += 1
        printed = [one.communicate()[0] for one in started]
    if any(one.returncode for one in started):
        sys.exit(f"{what}: exit codes {[one.returncode for one in started]}")
    return printed[0]


def nic_bytes():
    return json.loads(subprocess.run([CLUSTER / "nic_bytes"], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], required=True)
    parser.add_argument("--bytes", type=int, default=4 << 20)
    parser.add_argument("shim")
    parser.add_argument("programs")
    parser.add_argument("doubles")
    parser.add_argument("variables", nargs="*")
    options = parser.parse_args()
    run(options, "cases")
    before = nic_bytes()
    print(run(options, "measure"), end="")
    after = nic_bytes()
    hosts = len(options.ranks)
    predicted = 2 * (hosts - 1) / hosts * options.bytes * CALLS / len(after["h0"])
    worst = 0.0
    for host in after:
        for rail in after[host]:
            for way in ("tx", "rx"):
                ratio = (after[host][rail][way] - before[host][rail][way]) / predicted
                worst = max(worst, abs(ratio - 1))
                print(f"{host} {rail} {way}: {ratio:.3f} of the bytes that have to be")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
