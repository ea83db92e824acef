#!/usr/bin/python3
"""Rails of different speed get shares that fit, in jobs that know but one kind of collective.

  unequal_rails_test.py BUILD_FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
# r1 carries a sixth of what both can, and a half of what is shared evenly, as the first few calls are.
MOST_ON_R1 = 0.33
CALLS = "20"


def share_of_r1(operation, size, mode):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([f"{HERE}/vcluster", "--hosts", "2", "--rails", "2", "--rate", "1gbit,200mbit", "--print-bytes",
                        file.name, "--", f"{BUILD}/bin/ddlrun", "-np", "3", "-H", "h0:1,h1:2",
                        "-x", f"DDL_OPTIONS=-mode {mode}", f"{BUILD}/bin/ddl-bench",
                        "--op", operation, "--sizes", f"{size}:{size}", "--iters", CALLS, "--warmup", "0"],
                       check=True, stdout=sys.stderr, timeout=100)
        carried = {rail: sum(ways.values()) for rail, ways in json.load(file)["h0"].items()}
    return carried["r1"] / (carried["r0"] + carried["r1"])


class UnequalRailsTest(unittest.TestCase):
    def test_each_kind_of_large_call_finds_out_how_fast_they_are(self):
        for operation, size, mode in (("bcast", "4m", "p"), ("reduce", "4m", "p"), ("allgather", "1m", "p"),
                                      ("alltoall", "1m", "p"), ("bcast", "4m", "r"), ("allgather", "1m", "b")):
            with self.subTest(operation=operation, mode=mode):
                self.assertLess(share_of_r1(operation, size, mode), MOST_ON_R1)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    if subprocess.run([f"{HERE}/vcluster", "--check"], check=False).returncode == 77:
        sys.exit(77)
    unittest.main(verbosity=2)
