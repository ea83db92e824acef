#!/bin/bash
# The table of docs/performance.md, measured here and now: all-reduce of float32, medians of alternating runs, against
# Open MPI and MPICH (where installed), beside the limit measured in the same run.
#
#   scripts/bench.sh                      builds, measures everything (about a quarter of an hour), prints the table
#   scripts/bench.sh --build DIR          with what is built in DIR
#   scripts/bench.sh ... --predictions    instead: what the cost model predicts beside what is measured
#   scripts/bench.sh ... --calls          instead: what surrounds the blocking all-reduce; see bench_calls.sh
#   scripts/bench.sh ... --collectives    instead: all other collectives; --ops bcast,reduce only these, --details each size
#   scripts/bench.sh ... --only TEXT      only the rows whose title contains TEXT; --reps N runs of each (3)
set -euo pipefail
cd "$(dirname "$0")/.."
build=
if [ "${1:-}" = --build ]; then
  build=${2:?--build needs a folder}
  shift 2
elif [ "${1:-}" = --help ]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 0
else
  scripts/install_deps.sh
  build=build/release
  cmake --preset release -Wno-dev
  cmake --build --preset release -j "$(nproc)"
fi
if [ "$(id -u)" -eq 0 ]; then  # Open MPI asks root twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
table=bench_table
case "${1:-}" in
  --predictions) table=bench_predictions; shift ;;
  --calls) table=bench_calls_table; shift ;;
  --collectives) table=bench_collectives_table; shift ;;
esac
exec python3 -B "scripts/$table.py" --build "$build" "$@"
