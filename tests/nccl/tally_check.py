#!/usr/bin/env python3
"""tally_check.py OUTPUT REPORT: the report counts what the client says it called, and nothing else."""
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
    if one["engine"]["calls"]:
        sys.exit(f"{one['name']}: the engine cannot have served it")
    for route in one["original"]:
        if route["reason"] != "companion mode is not built yet":
            sys.exit(f"{one['name']}: reason '{route['reason']}'")
    counted[one["name"]] = (sum(r["calls"] for r in one["original"]), sum(r["bytes"] for r in one["original"]))
if not tallied or counted != tallied:
    for name in sorted(set(tallied) | set(counted)):
        print(f"{name}: called {tallied.get(name)}, counted {counted.get(name)} (calls, bytes)")
    sys.exit(1)
if report["nccl"]["version"] != "2.28.9" or "libnccl.so.2" not in report["nccl"]["library"]:
    sys.exit(f"not the library in use: {report['nccl']}")
print(f"{len(counted)} collectives counted right")
