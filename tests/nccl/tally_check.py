#!/usr/bin/env python3
"""tally_check.py OUTPUT REPORT original|engine: the report counts what the client says it called, and nothing else."""
import json
import sys

tallied = {}
for line in open(sys.argv[1]):
    words = line.split()
    if words[:1] == ["tally"]:
        tallied[words[1]] = (int(words[2]), int(words[3]))
report = json.load(open(sys.argv[2]))
counted = {}
for one in report["collectives"]:
    if not one["name"].startswith("nccl"):
        continue
    other = one["engine"]["calls"] if sys.argv[3] == "original" else len(one["original"])
    if other:
        sys.exit(f"{one['name']}: not all went to the {sys.argv[3]}: {one}")
    for route in one["original"]:
        if route["reason"] != "left to NCCL":
            sys.exit(f"{one['name']}: reason '{route['reason']}'")
    routes = one["original"] if sys.argv[3] == "original" else [one["engine"]]
    counted[one["name"]] = (sum(r["calls"] for r in routes), sum(r["bytes"] for r in routes))
if not tallied or counted != tallied:
    for name in sorted(set(tallied) | set(counted)):
        print(f"{name}: called {tallied.get(name)}, counted {counted.get(name)} (calls, bytes)")
    sys.exit(1)
if report["engine"] != (sys.argv[3] == "engine"):
    sys.exit(f"engine: {report['engine']}, reason '{report['reason']}'")
has_nccl = report["nccl"]["version"] == "2.28.9" and "libnccl.so.2" in report["nccl"]["library"]
if not has_nccl and sys.argv[3] == "original":
    sys.exit(f"not the library in use: {report['nccl']}")
print(f"{len(counted)} collectives counted right")
