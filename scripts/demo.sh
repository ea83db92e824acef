#!/bin/bash
# Installs what is needed, builds, and trains a PyTorch job that knows nothing of ddlrun: under plain mpirun and under
# ddlrun, on this machine and, where virtual hosts can be made, on four of them. Ends with a table of what was measured.
#
#   scripts/demo.sh                the whole demo, at most ten minutes
#   scripts/demo.sh --build DIR    with what is built in DIR; installs and builds nothing
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

build=
case ${1:-} in
  "") ;;
  --build) build=${2:?--build needs a folder} ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
esac

say() { printf '\n== [%d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

say "1/6 install and build"
if [ -z "$build" ]; then
  scripts/install_deps.sh
  build=build/release
  cmake --preset release -Wno-dev
  cmake --build --preset release -j "$(nproc)"
fi

out=$build/demo
rm -rf "$out"
mkdir -p "$out"
ddlrun=$build/bin/ddlrun
bench=$build/bin/ddl-bench
vcluster=(tests/cluster/vcluster --hosts 4 --rails 1 --rate 1gbit)
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
if [ "$(id -u)" -eq 0 ]; then  # Open MPI asks root twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

train() {  # name of the result files, steps, the command that starts the ranks
  local name=$1 steps=$2
  shift 2
  "$@" /usr/bin/python3 examples/01_train_digits/train_digits.py --steps "$steps" --json "$out/$name.json" \
    --weights "$out/$name.npy"
}

# The same options for both ways. Virtual hosts share the cores of this machine: nobody is bound, and a rank that
# waits yields.
here=(-np 2)
[ "$(nproc)" -ge 2 ] || here+=(--oversubscribe)
wire=(-np 8 -H h0:2,h1:2,h2:2,h3:2 --bind-to none --mca mpi_yield_when_idle 1)

say "2/6 topology and rings"
"$ddlrun" --topology
"$ddlrun" --topology="$out/topology.svg"

say "3/6 train on this machine, 2 ranks: plain mpirun"
train host.plain 200 "$mpirun" "${here[@]}"
say "    the same under ddlrun"
train host.engine 200 "$ddlrun" --report "$out/host.report.json" "${here[@]}"

can_wire=0
tests/cluster/vcluster --check || can_wire=$?
if [ "$can_wire" -eq 0 ]; then
  say "4/6 train on 4 virtual hosts x 2 ranks, 1 Gbit/s: plain mpirun (a few steps: the wire is slow)"
  train wire.plain 25 "${vcluster[@]}" --print-bytes "$out/wire.plain.bytes.json" -- "$mpirun" "${wire[@]}"
  say "    the same under ddlrun"
  train wire.engine 25 "${vcluster[@]}" --print-bytes "$out/wire.engine.bytes.json" -- \
    "$ddlrun" --report "$out/wire.report.json" "${wire[@]}"
  "${vcluster[@]}" -- "$ddlrun" -H h0:2,h1:2,h2:2,h3:2 --topology="$out/wire.topology.svg"
else
  say "4/6 no virtual hosts here: this part is left out"
fi

say "5/6 all-reduce alone, 64 KiB and 16 MiB"
sizes=(--min 64k --max 16m --factor 256)
for round in 1 2; do  # in turns, so that a slow minute of the machine hits both
  "$mpirun" "${here[@]}" "$bench" "${sizes[@]}" --json "$out/bench.host.plain.$round.json"
  "$ddlrun" "${here[@]}" "$bench" "${sizes[@]}" --json "$out/bench.host.engine.$round.json"
done
if [ "$can_wire" -eq 0 ]; then
  "${vcluster[@]}" -- "$mpirun" "${wire[@]}" "$bench" "${sizes[@]}" --iters 10 --json "$out/bench.wire.plain.1.json"
  "${vcluster[@]}" -- "$ddlrun" "${wire[@]}" "$bench" "${sizes[@]}" --iters 10 --json "$out/bench.wire.engine.1.json"
fi

say "6/6 what was measured"
/usr/bin/python3 scripts/demo_table.py "$out"
say "done"
