#!/usr/bin/env python3
"""fused_check.py REPORT [CLASS...]: the report says that all-reduces of these classes were fused, several in a batch, and
counts them under that plan; without classes, that none were."""
import json
import sys

report = json.load(open(sys.argv[1]))
fused = {one["class"]: one for one in report["fused"] if one["collective"] == "ncclAllReduce"}
print(json.dumps(fused))
missing = [name for name in sys.argv[2:] if name not in fused]
if missing or (len(sys.argv) == 2 and fused):
    sys.exit(f"not fused: {missing}; fused: {sorted(fused)}")
if any(one["calls"] < 2 * one["batches"] for one in fused.values()):
    sys.exit("a batch of one call")
calls = sum(one["calls"] for one in report["algorithms"] if one["plan"] == "fused: staged by the host")
if calls != sum(one["calls"] for one in fused.values()):
    sys.exit(f"{calls} calls by a plan that is fused")
