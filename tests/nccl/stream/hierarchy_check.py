#!/usr/bin/env python3
"""hierarchy_check.py TRACE REPORT OUTPUT [EXTENT...]: the calls that the double of libnccl got are those of plans in such
dimensions, as many as the report says, and the report counts what the client called. Without extents: no plan at all."""
import collections
import json
import sys

MOST_CTAS = 16
trace, report, output = sys.argv[1:4]
extents = [int(word) for word in sys.argv[4:]]

# What the client called, and what the report made of it.
tallied = {}
for line in open(output):
    words = line.split()
    if words[:1] == ["tally"]:
        tallied[words[1]] = (int(words[2]), int(words[3]))
counted, planned, reasons = {}, 0, collections.Counter()
for one in json.load(open(report))["collectives"]:
    routes = one["original"] + [one["engine"]]
    counted[one["name"]] = (sum(r["calls"] for r in routes), sum(r["bytes"] for r in routes))
    planned += one["engine"]["calls"]
    for route in one["original"]:
        reasons[route["reason"]] += route["calls"]
assert counted == tallied, (counted, tallied)

# Calls of smaller communicators by dimension (the number of the split) and verb; only of those that we split, whose
# CTAs are capped. A rank of the program's own splits has no cap.
capped, calls, names = {}, collections.Counter(), collections.defaultdict(set)
for line in open(trace):
    name, rank, size, verb, number = line.split()[:5]
    if verb == "split" and int(number) == MOST_CTAS:
        capped[name] = int(size)
for line in open(trace):
    name, rank, size, verb = line.split()[:4]
    parts = name.split(".")
    if len(parts) != 3 or parts[0] not in capped or verb == "split":
        continue
    dimension = int(parts[1])
    if dimension < len(extents):
        calls[dimension, verb] += 1
        names[dimension].add((name, int(rank), int(size)))
print("planned", planned, "flat", dict(reasons), "calls", dict(calls))
if not extents:
    assert planned == 0 and not calls and set(reasons) == {"left to NCCL"}, reasons
    sys.exit(0)

assert planned >= 50, planned
for why in ("small, or of eight-bit floats", "operation", "several calls in a group", "captured into a graph"):
    assert reasons[why] > 0, (why, reasons)
last = len(extents) - 1
segments = calls[last, "all_reduce"]
for dimension, extent in enumerate(extents):
    assert {size for _, _, size in names[dimension]} == {extent}, names[dimension]
    verbs = {verb: n for (d, verb), n in calls.items() if d == dimension}
    expected = {"all_reduce": segments} if dimension == last else {"reduce_scatter": segments, "all_gather": segments}
    assert verbs == expected, (dimension, verbs, expected)
ranks = 1
for extent in extents:
    ranks *= extent
assert segments % ranks == 0 and segments // ranks > planned, (segments, planned)  # calls have several segments
