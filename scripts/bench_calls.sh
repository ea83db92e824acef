#!/bin/bash
# What surrounds the blocking all-reduce, measured here and now with ddl-bench-calls: nonblocking and outstanding calls,
# communicators that live shortly, first calls, overlap. Medians of alternating runs of Open MPI and ddlrun.
#
#   scripts/bench_calls.sh                      builds, measures everything (about a quarter of an hour), prints the tables
#   scripts/bench_calls.sh --build DIR          with what is built in DIR
#   scripts/bench_calls.sh ... --base PREFIX    beside another ddlrun, installed in PREFIX: before and after
#   scripts/bench_calls.sh ... --only TEXT      only the tables whose title contains TEXT; --reps N runs of each (3)
#   scripts/bench_calls.sh ... --items A,B      only these items of ddl-bench-calls
set -euo pipefail
if [ "${1:-}" = --help ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  exit 0
fi
build=()
if [ "${1:-}" = --build ]; then
  build=(--build "${2:?--build needs a folder}")
  shift 2
fi
exec "$(dirname "$0")/bench.sh" "${build[@]}" --calls "$@"
