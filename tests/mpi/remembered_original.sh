#!/usr/bin/env bash
# remembered_original.sh DDLRUN PROGRAM: small calls of which the tuning cache says that the original is faster, barriers
# in between that stay the engine's, four ranks on fewer cores; some ranks would have to pack for the engine.
set -u
ddlrun=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# job WORD...: PROGRAM with these words for ddlrun.
job() {
  timeout 60 "$ddlrun" -np 4 --oversubscribe -x DDL_TUNE_CACHE="$work/cache" "$@" "$program" >"$work/log" 2>&1 ||
    { echo "exit $?" >&2; cat "$work/log" >&2; exit 1; }
}
job
python3 - "$work/cache" <<'P'
import json, sys
with open(sys.argv[1]) as file:
    cache = json.load(file)
for entries in cache["machines"].values():
    for i, entry in enumerate(entries):
        if "kind" in entry:  # no all-reduce, thus no barrier
            entries[i] = {key: entry[key] for key in ("grid", "bytes_up_to", "us", "rails")} | {"original": True}
with open(sys.argv[1], "w") as file:
    json.dump(cache, file)
P
job --report "$work/report.json"
grep -q 'faster than the engine, by measurement' "$work/report.json" || { echo "the cache was of no use" >&2; exit 1; }
tail -1 "$work/log"
