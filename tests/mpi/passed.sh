#!/usr/bin/env bash
# passed.sh DDLRUN PROGRAM: each call that passed is in the report once, with its bytes, though few are timed and told
# when they are made.
set -u
ddlrun=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
timeout 60 "$ddlrun" -np 2 --report "$work/report.json" "$program" >"$work/log" 2>&1 ||
  { echo "exit $?" >&2; cat "$work/log" >&2; exit 1; }
python3 - "$work/report.json" <<'P'
import json, sys
with open(sys.argv[1]) as file:
    collectives = {one["name"]: one for one in json.load(file)["collectives"]}
for name, calls, bytes_of_a_call in (("MPI_Reduce", 2000, 12), ("MPI_Allreduce", 500, 8)):
    original = collectives[name]["original"]
    print(name, original)
    assert [(one["calls"], one["bytes"]) for one in original] == [(calls, calls * bytes_of_a_call)], name
    assert original[0]["seconds"] > 0, name
assert collectives["MPI_Bcast"]["engine"]["calls"] == 20, "calls without elements"
P
