#!/usr/bin/env bash
# nccl.sh CASE LIB_DIR PROGRAM_DIR TEST_LIB_DIR: NCCL programs on a test double of libnccl, plain and with the shim.
set -u
case_name=$1 lib=$2 programs=$3 doubles=$4
here=$(cd "$(dirname "$0")" && pwd)
shim=$lib/libddl_shim.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
report=$work/report.json

fail() { echo "FAILED: $*"; tail -n 50 "$work"/*.out "$work"/*.err 2>/dev/null; exit 1; }
plain() { timeout 550 "$@" >"$work/plain.out" 2>"$work/plain.err"; }
preloaded() { DDL_REPORT=$report LD_PRELOAD=$shim timeout 550 "$@" >"$work/ours.out" 2>"$work/ours.err"; }
results() { grep -v '^tally' "$1" | sort; }
# alike command...: both runs succeed and print the same.
alike() {
  plain "$@" || fail "the plain run: exit $?"
  preloaded "$@" || fail "the preloaded run: exit $?"
  [ -s "$work/plain.out" ] && diff <(results "$work/plain.out") <(results "$work/ours.out") || fail "other results"
  [ -s "$work/ours.err" ] && fail "the preloaded run says something"
}
# For programs that load NCCL: without the libcuda beside it.
with_nccl_alone() { mkdir "$work/nccl"; cp -L "$doubles/libnccl.so.2" "$work/nccl"; export LD_LIBRARY_PATH=$work/nccl; }
counted() { "$here/tally_check.py" "$work/ours.out" "$report" original || fail "wrong counts"; }

case $case_name in
  processes) alike "$programs/nccl_client" 3 processes; counted ;;
  one_rank) alike "$programs/nccl_client" 1 processes; counted ;;
  threads) alike "$programs/nccl_client" 4 threads; counted ;;
  one_thread) alike "$programs/nccl_client" 3 all; counted ;;
  nonblocking) preloaded "$programs/nccl_client" 1 late || fail "exit $?"; counted ;;
  duplicate)
    alike "$programs/nccl_client" 2 duplicate
    grep -q "Duplicate GPU detected" "$work/ours.out" || fail "another reason"
    ;;
  version)
    export FAKE_NCCL_VERSION=21805
    alike "$programs/nccl_client" 1 version
    [ "$(grep -c '^version 21805$' "$work/ours.out")" = 2 ] || fail "another version"
    ;;
  dlopened)
    # The program asks dlsym for every function, by libnccl's own handle.
    with_nccl_alone
    alike "$programs/nccl_client_dlopened" 3 processes
    counted
    alike "$programs/nccl_client_dlopened" 3 all
    counted
    ;;
  dlopened_off)
    with_nccl_alone; export DDL_ENABLE=0
    alike "$programs/nccl_client_dlopened" 3 processes
    [ -e "$report" ] && fail "counted what is not ours to see"
    ;;
  lookups)
    mkdir "$work/copy"; cp -L "$doubles/libnccl.so.2" "$work/copy"
    plain "$programs/nccl_lookup" unseen "$doubles/libnccl.so.2" "$work/copy/libnccl.so.2" || fail "without us: exit $?"
    preloaded "$programs/nccl_lookup" seen "$doubles/libnccl.so.2" "$work/copy/libnccl.so.2" || fail "exit $?"
    preloaded "$programs/nccl_lookup" late "$doubles/libnccl.so.2" "$work/copy/libnccl.so.2" || fail "late: exit $?"
    DDL_ENABLE=0 preloaded "$programs/nccl_lookup" unseen "$doubles/libnccl.so.2" "$work/copy/libnccl.so.2" ||
      fail "switched off: exit $?"
    ;;
  traced)
    # Other preloaded libraries that ask for the next in line, before and behind us: everybody has a turn.
    ours=$shim one=$doubles/libnccl_tracer_one.so other=$doubles/libnccl_tracer_other.so
    for shim in $one:$ours:$other $one:$other:$ours $ours:$one:$other; do
      rm -rf "$work/traced"; mkdir "$work/traced"
      TRACER_FILES=$work/traced alike "$programs/nccl_client" 3 all
      counted
      wanted=$(awk '/^tally ncclAllReduce /{print $3}' "$work/ours.out")
      [ "$(cat "$work/traced/one" "$work/traced/other" | tr '\n' ' ')" = "$wanted $wanted " ] || fail "passed by: $shim"
    done
    ;;
  traced_dlopened)
    # Who asks libnccl itself goes past others. With some of NCCL's functions only we would do harm, so we let all go.
    with_nccl_alone
    ours=$shim tracer=$doubles/libnccl_tracer_one.so
    shim=$tracer:$ours alike "$programs/nccl_client_dlopened" 3 all
    counted
    rm "$report"
    shim=$ours:$tracer alike "$programs/nccl_client_dlopened" 3 all
    [ -e "$report" ] && fail "counted some of the functions"
    ;;
  deep_plugin)
    export PLUGIN_DEEPBIND=1
    alike "$programs/nccl_plugin_host" "$doubles/libnccl_client_plugin.so" 2 threads
    counted
    ;;
  local_plugin)
    alike "$programs/nccl_plugin_host" "$doubles/libnccl_client_plugin.so" 2 threads
    counted
    ;;
  untouched)
    LD_PRELOAD=$shim cat /proc/self/maps | grep -E 'libddl_nccl|libnccl|libcuda' && fail "a plain process loads more"
    LD_PRELOAD=$shim:$doubles/libnccl.so.2 cat /proc/self/maps | grep -E 'libddl_nccl' &&
      fail "a process that does not call NCCL loads the front"
    ;;
  no_nccl)
    preloaded "$programs/nccl_plugin_host" "$doubles/libnccl_orphan.so" || fail "exit $?"
    [ "$(grep -c 'ddl: error: ' "$work/ours.err")" = 1 ] && grep -q 'no NCCL library is loaded' "$work/ours.err" ||
      fail "not one clear line"
    grep -q '^version: 0 22809$' "$work/ours.out" || fail "no version"
    grep -q '^comm: system error' "$work/ours.out" || fail "no result the program can read"
    ;;
  no_nccl_no_front)
    mkdir "$work/alone"; cp "$shim" "$work/alone"
    LD_PRELOAD=$work/alone/libddl_shim.so timeout 60 "$programs/nccl_plugin_host" "$doubles/libnccl_orphan.so" >"$work/ours.out" 2>"$work/ours.err"
    [ $? = 127 ] || fail "it did not end as the loader would have ended it"
    grep -q 'no NCCL library in this process defines ncclGetVersion' "$work/ours.err" || fail "no message"
    ;;
  no_front)
    mkdir "$work/alone"; cp "$shim" "$work/alone"; shim=$work/alone/libddl_shim.so
    preloaded "$programs/nccl_client" 2 threads || fail "exit $?"
    [ "$(grep -c '^ddl: warning' "$work/ours.err")" = 1 ] || fail "not one warning"
    ;;
  with_mpi | with_mpi_leaves)
    mode=destroys; [ "$case_name" = with_mpi_leaves ] && mode=leaves
    timeout 550 "$mpirun" --oversubscribe -np 3 -x LD_PRELOAD="$shim" -x DDL_REPORT="$report" \
      "$programs/nccl_with_mpi" $mode >"$work/ours.out" 2>"$work/ours.err" || fail "exit $?"
    python3 - "$report" <<'P' || fail "wrong counts"
import json, sys
report = json.load(open(sys.argv[1]))
routes = {one["name"]: one for one in report["collectives"]}
assert routes["MPI_Allreduce"]["engine"]["calls"] > 0, routes
assert routes["ncclAllReduce"]["original"][0]["calls"] == 5, routes
assert routes["ncclAllReduce"]["original"][0]["bytes"] == 5 * 800, routes
assert report["ranks"] == 3 and report["nccl"]["largest"] == 3, report
P
    ;;
  stale_report)
    # What an earlier job left there is not added to.
    for run in 1 2; do preloaded "$programs/nccl_client" 2 processes || fail "run $run: exit $?"; done
    counted
    ;;
  killed)
    preloaded "$programs/nccl_client" 1 killed
    [ $? -eq 137 ] || fail "it was not killed"
    python3 - "$report" <<'P' || fail "wrong counts"
import json, sys
report = json.load(open(sys.argv[1]))
assert not report["complete"] and report["collectives"][0]["original"][0]["calls"] > 0, report
P
    ;;
  garbage_variable)
    DDL_STAGING_BYTES=lots preloaded "$programs/nccl_client" 2 threads || fail "exit $?"
    [ "$(grep -c '^ddl: warning' "$work/ours.err")" = 1 ] && grep -q 'DDL_STAGING_BYTES=lots' "$work/ours.err" ||
      fail "not one clear warning"
    ;;
  *) fail "no such case" ;;
esac
echo "ok: $case_name"
