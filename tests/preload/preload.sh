#!/usr/bin/env bash
# preload.sh CASE LIB_DIR PROGRAM_DIR: one case of how the preloaded shim behaves in other people's processes.
set -u
case_name=$1 lib=$2 programs=$3
shim=$lib/libddl_shim.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=$(command -v mpirun.openmpi || command -v mpirun)

fail() { echo "FAILED: $*"; [ -f "$work/log" ] && cat "$work/log"; exit 1; }
# job RANKS command...: runs it with a time limit, everything in $work/log
job() { local n=$1; shift; timeout 60 "$mpirun" --oversubscribe -np "$n" "$@" >"$work/log" 2>&1; }
preloaded() { local n=$1; shift; job "$n" -x LD_PRELOAD="$shim" -x DDL_REPORT="$work/report.json" "$@"; }
engine_calls() { python3 - "$work/report.json" <<'P'
import json, sys
print(sum(c["engine"]["calls"] for c in json.load(open(sys.argv[1]))["collectives"] if "llreduce" in c["name"]))
P
}
# engine_calls: all-reduces that the engine did.
# plugin_on_engine HOST WORDS...: two ranks are right, and the engine did their all-reduce.
plugin_on_engine() {
  rm -f "$work/report.json"
  preloaded 2 "$@" || fail "$*: exit $?"
  [ "$(engine_calls)" = 2 ] || fail "$*: the engine did $(engine_calls) calls"
}
nonblocking_calls() { python3 - "$work/report.json" <<'P'
import json, sys
print(sum(c["engine"]["calls"] for c in json.load(open(sys.argv[1]))["collectives"] if c["name"] == "MPI_Iallreduce"))
P
}
# served CALLS [NAMES]: all ranks together are reported to have made so many all-reduces, many on the engine (the first
# twenty of each size; then, on a busy machine, the original may be measured to be faster), and nothing else but calls of
# these names.
served() { python3 - "$work/report.json" "$@" <<'P' || fail "other calls are reported"
import json, sys
names = {c["name"] for c in json.load(open(sys.argv[1]))["collectives"]}
collectives = [c for c in json.load(open(sys.argv[1]))["collectives"] if "llreduce" in c["name"]]
engine = sum(c["engine"]["calls"] for c in collectives)
calls = engine + sum(o["calls"] for c in collectives for o in c["original"])
if calls != int(sys.argv[2]) or engine < calls / 6 or not names <= {"MPI_Allreduce", "MPI_Iallreduce", *sys.argv[3:]}:
    sys.exit(f"{engine} of {calls} calls, of {names}")
P
}
host=$programs/preload_plugin_host plugins=$programs/../lib
python=/usr/bin/python3 # Debian's, a program that is not position-independent
warnings() { grep -c '^ddl: warning' "$work/log"; }

case $case_name in
  exports)
    got=$(nm -D --defined-only "$shim" | awk '{print $3}' | grep -vE '^(P?MPIX?_|nccl|_ZN4gloo[0-9](allreduce|broadcast|reduce|allgather|barrier)E|TFE_EnableCollectiveOps$)'); [ "$(echo $got)" = 'PMIx_Initialized PMIx_Put dlopen dlsym' ] || fail "shim exports $got"
    for name in $(grep -oE '^DDL_(PERSISTENT_|LATE_)?HOOK\(MPIX?_[A-Za-z_]+' "$(dirname "$0")/../../interpose/mpi/hooks.def" | cut -d'(' -f2); do
      [ "$(nm -D --defined-only "$shim" | grep -cE " T P?$name\$")" = 2 ] || fail "the shim has not both names of $name"
    done
    [ "$(nm -D --defined-only "$lib/libddl_mpi.so" | awk '{print $3}')" = ddl_mpi_front ] || fail "front exports more"
    [ "$(nm -D --defined-only "$lib/libddl_nccl.so" | awk '{print $3}')" = ddl_nccl_front ] || fail "NCCL front exports more"
    [ "$(nm -D --defined-only "$lib/libddl_gloo.so" | awk '{print $3}')" = ddl_gloo_front ] || fail "gloo front exports more"
    readelf -d "$lib/libddl_nccl.so" | grep NEEDED | grep -E 'cuda|nccl|mpi|pmix|ucp' && fail "the NCCL front needs more than it may"
    readelf -d "$lib/libddl.so" | grep NEEDED | grep -E 'mpi|pmix|uc[ps]' && fail "the engine brings a PMIx or a UCX along"
    api=$(grep -oE '^DDL_API .*\<ddl_[a-z_]+\(' "$(dirname "$0")/../../core/api/ddl.h" | grep -oE 'ddl_[a-z_]+\($' | tr -d '(')
    got=$(nm -D --defined-only "$lib/libddl.so" | awk '{print $3}' | sort)
    [ "$got" = "$(printf '%s\n' ddl_engine $api | sort)" ] || fail "the engine exports $got"
    needed=$(readelf -d "$shim" | awk '/NEEDED/{print $NF}' | tr -d '[]'); [ "$needed" = libc.so.6 ] || fail "shim needs $needed"
    # Exceptions of gloo's, and of a program's MPI error handlers, pass through the fronts: the unwinder is that of the process.
    for one in "$lib"/libddl*.so; do
      needed=$(readelf -d "$one" | grep NEEDED | grep -oE 'libstdc[^]]*|libgcc[^]]*')
      [ "$needed" = "$([[ $one == */libddl_@(gloo|mpi).so ]] && echo libgcc_s.so.1)" ] || fail "$one needs $needed"
    done
    ;;
  inert)
    for command in "/bin/true" "ls /" "sh -c 'echo hello'" "python3 -c 'import math; print(math.pi)'" \
      "python3 -c 'import ctypes; c = ctypes.CDLL(None); print(c.abs(-3), hasattr(c, \"ncclNone\"))'"; do
      plain=$(bash -c "$command" 2>&1)
      with=$(LD_PRELOAD=$shim bash -c "$command" 2>&1)
      [ "$plain" = "$with" ] || fail "'$command' prints something else: $with"
    done
    LD_PRELOAD=$shim cat /proc/self/maps | grep -E 'libddl_mpi|libddl\.so|libmpi|libucp|libpmix' && fail "a plain process loads more"
    ;;
  outside_a_job)
    LD_PRELOAD=$shim DDL_VERBOSE=1 timeout 30 "$programs/preload_client" sums >"$work/log" 2>&1 || fail "exit $?"
    ;;
  sums)
    preloaded 3 "$programs/preload_client" sums || fail "exit $?"
    [ "$(engine_calls)" -gt 0 ] || fail "the engine did nothing"
    preloaded 3 -x DDL_ENABLE=0 "$programs/preload_client" sums || fail "switched off: exit $?"
    [ "$(warnings)" = 0 ] || fail "switched off: warnings"
    ;;
  children)
    preloaded 2 "$programs/preload_client" children || fail "exit $?"
    [ "$(warnings)" = 0 ] || fail "warnings"
    ;;
  signals)
    for wire in tcp ucx; do
      preloaded 2 -x DDL_FAKE_HOSTS=1,1 -x DDL_WIRE=$wire "$programs/preload_client" signals || fail "$wire: exit $?"
    done
    ;;
  local_plugin)
    plugin_on_engine "$host" "$plugins/libpreload_plugin.so" local
    plugin_on_engine "$host" "$plugins/libpreload_plugin_table.so" local
    ;;
  pmpi_plugin)
    plugin_on_engine "$host" "$plugins/libpreload_plugin_pmpi.so" local
    plugin_on_engine "$host" "$plugins/libpreload_plugin_pmpi.so" deep
    ;;
  deep_plugin)
    # What a library needs the flag for stays: its own symbols before the program's.
    for kind in plugin plugin_now plugin_table; do
      plugin_on_engine "$host" "$plugins/libpreload_$kind.so" deep
      plugin_on_engine "$host" "$plugins/libpreload_$kind.so" deep_lazy
    done
    preloaded 2 -x DDL_ENABLE=0 "$host" "$plugins/libpreload_plugin.so" deep || fail "switched off: exit $?"
    LD_PRELOAD=$shim timeout 30 "$host" "$plugins/libpreload_plugin_now.so" deep >"$work/log" 2>&1 || fail "outside a job: exit $?"
    ;;
  deep_from_python)
    # A library of Python's, itself loaded with RTLD_LOCAL, is the one that calls dlopen.
    plugin_on_engine "$python" -c "import ctypes, os, sys
plugin = ctypes.CDLL('$plugins/libpreload_plugin_now.so', os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
sys.exit(plugin.run_plugin(2))"
    if "$python" -c "import mpi4py" 2>/dev/null; then
      plugin_on_engine "$python" -c "import os, sys
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
os.environ['BEFORE'] = 'MPI_Init'  # without us Open MPI does not survive this
from mpi4py import MPI
os.environ['BEFORE'] = 'MPI_Finalize' * 100
os.environ['AND_ONE'] = 'more'
assert MPI.COMM_WORLD.allreduce(1) == 2  # pickled
from array import array
out = array('f', [0] * 1000)
MPI.COMM_WORLD.Allreduce(array('f', [2] * 1000), out)
assert out[999] == 4"
    fi
    ;;
  runpath)
    # Found by nobody but the caller of dlopen.
    for how in local deep; do
      job 2 "$host" libpreload_plugin.so $how && fail "$how: it is found without RUNPATH"
      job 2 "${host}_runpath" libpreload_plugin.so $how || fail "$how, without us: exit $?"
      plugin_on_engine "${host}_runpath" libpreload_plugin.so $how
    done
    ;;
  by_hand)
    plugin_on_engine "$host" by_hand local
    plugin_on_engine "$host" by_hand deep
    plugin_on_engine "$host" by_hand local P
    plugin_on_engine "$host" by_hand deep P
    preloaded 2 -x DDL_ENABLE=0 "$host" by_hand local || fail "switched off: exit $?"
    ;;
  name_space)
    # Not served: a preloaded library is in the first name space alone. As without us.
    job 2 "$host" "$plugins/libpreload_plugin.so" space; plain=$?
    preloaded 2 "$host" "$plugins/libpreload_plugin.so" space
    [ $? = $plain ] || fail "exit code not $plain"
    [ "$(warnings)" = 0 ] || fail "warnings"
    ;;
  collective_files)
    # ROMIO's own calls of PMPI functions are not the program's.
    for names in mpi file; do
      preloaded 2 --mca io ^ompio "$programs/preload_calls" $names $([ $names = file ] && echo "$work/data") || fail "exit $?"
      served 210
      [ "$names" = mpi ] || [ "$(stat -c %s "$work/data")" = 8000 ] || fail "the file has another size"
    done
    ;;
  profiler_*)
    profiler=$plugins/libpreload_profiler.so report="-x DDL_REPORT=$work/report.json"
    # told CALLS: each of two ranks' profiling libraries has seen so many.
    told() { [ "$(grep -c "^profiler: $1\$" "$work/log")" = 2 ] || fail "the profiling library saw not $1 calls of each rank"; }
    case $case_name in
      profiler_before)
        for names in mpi pmpi; do
          job 2 $report -x LD_PRELOAD="$profiler:$shim" "$programs/preload_calls" $names || fail "$names: exit $?"
          served 210
          [ $names = pmpi ] || told 105
        done
        ;;
      profiler_behind)
        # It sees what the original does, once.
        job 2 $report -x LD_PRELOAD="$shim:$profiler" "$programs/preload_calls" mpi || fail "exit $?"
        served 210
        told $((105 - $(engine_calls) / 2))
        job 2 $report -x LD_PRELOAD="$shim:$profiler" "$programs/preload_calls" pmpi || fail "exit $?"
        served 210
        grep -q '^profiler' "$work/log" && fail "a call by its PMPI name went through the profiling library"
        ;;
      profiler_of_fortran)
        fortran=$programs/fortran_use_mpi
        [ -x "$fortran" ] || { echo "skipped: no Fortran compiler"; exit 77; }
        for preload in "$profiler:$shim" "$shim:$profiler"; do
          job 2 $report -x LD_PRELOAD="$preload" "$fortran" || fail "$preload: exit $?"
          calls=$(grep -oE 'all-reduces of each rank: [0-9]+' "$work/log" | grep -oE '[0-9]+')
          served $((2 * calls)) MPI_{Bcast,Reduce,Barrier} \
            MPI_{Allgather,Alltoall,Gather,Scatter}{,v} MPI_Iallgatherv MPI_Reduce_scatter{,_block}
          told $((calls - $(nonblocking_calls) / 2))
        done
        ;;
    esac
    ;;
  other_mpi)
    # Its calls have handles that are not Open MPI's: left alone, with a line.
    job 2 "$programs/preload_other_mpi_client" || fail "without us: exit $?"
    preloaded 2 "$programs/preload_other_mpi_client" || fail "exit $?"
    [ "$(warnings)" = 1 ] && grep -q 'not Open MPI' "$work/log" || fail "not one clear line"
    ;;
  unserved)
    # tells LINES WORDS FILE CALL: both ranks get 7 from the call, and so many lines are said, with these words.
    tells() {
      timeout 60 "$lib/../bin/ddlrun" $options -np 2 "$python" -c "import ctypes, sys
library = ctypes.CDLL('$plugins/unserved/$3')
sys.exit($4 != 7)" >"$work/log" 2>&1 || fail "$3: exit $?"
      [ "$(warnings)" = "$1" ] && [ "$(wc -l <"$work/log")" = "$1" ] || fail "$3: not $1 lines"
      [ "$1" = 0 ] || grep -qE "^ddl: warning: .*$2" "$work/log" || fail "$3: other words"
    }
    lightgbm='library["LGBM_NetworkInit"](b"h0:1,h1:1", 12400, 120, 2)' xgboost='library.XGCommunicatorInit(b"{}")'
    for options in "" "-x DDL_ENABLE=0"; do
      lines=1; [ -z "$options" ] || lines=0
      tells $lines 'LightGBM.*sockets' lib_lightgbm.so "$lightgbm"
      tells $lines 'LightGBM.*sockets' lib_lightgbm.so "$lightgbm + $lightgbm - 7"
      tells $lines 'XGBoost.*sockets' libxgboost.so "$xgboost"
      tells $lines 'TensorFlow.*Horovod' _pywrap_tfe.so 'library.begin()'
      tells $lines 'libjax_common.so contains NCCL .*libnccl.so.2' libjax_common.so 'library.begin()'
    done
    # The library alone says nothing, nor does an NCCL that we see.
    options=""
    for one in lib_lightgbm.so libxgboost.so _pywrap_tfe.so libjax_common.so; do tells 0 - $one 7; done
    tells 0 - libnccl.so.2 'library.begin()'
    ;;
  processes_*)
    # What a training script starts beside its all-reduces: a data loader's workers, other programs.
    IFS=_ read -r _ over how <<<"$case_name"
    "$python" -W ignore -c "import torch.distributed as d, mpi4py; assert d.is_gloo_available()" 2>/dev/null ||
      { echo "skipped: no PyTorch or mpi4py"; exit 77; }
    # Starting an interpreter may take long; that somebody waits is not what is asked here.
    script() {
      timeout 55 "$lib/../bin/ddlrun" --report "$work/report.json" -x PYTHONWARNINGS=ignore -x DDL_STALL_WARN=0 -np 2 "$python" \
        "$(dirname "$0")/processes.py" $over $how >"$work/log" 2>&1
    }
    # Now and then a forked child waits for ever in Python's own PyOS_AfterFork_Child (3.11): a thread of PyTorch's was making
    # its Python state, and so held the list of these, when it was forked. Not twice in a row.
    script || { [ $? = 124 ] && [ $how = fork ] && script; } || fail "exit $?"
    [ "$(grep -vEc '^ddlrun: (report written|engine: )' "$work/log")" = 2 ] && [ "$(grep -c 'is right$' "$work/log")" = 2 ] || fail "other lines"
    [ "$(engine_calls)" -ge 4 ] || fail "the engine did $(engine_calls) calls"
    grep -q '"original":\[{' <(tr -d ' \n' <"$work/report.json") && fail "calls went to the original"
    ;;
  missing_*)
    # Rank 1 (or 0) finds an installation with a part missing, as on a host where it was not copied.
    mkdir "$work/partial"; cp "$lib"/libddl_shim.so "$lib"/libddl_mpi.so "$lib"/libddl.so "$work/partial"
    lame=1; case $case_name in
      missing_engine) rm "$work/partial/libddl.so" ;;
      missing_engine_on_rank_0) rm "$work/partial/libddl.so"; lame=0 ;;
      missing_front) rm "$work/partial/libddl_mpi.so" ;;
      missing_shim) rm "$work/partial/libddl_shim.so" ;;
    esac
    cat >"$work/wrap" <<W
#!/bin/sh
dir=$lib; [ "\$OMPI_COMM_WORLD_RANK" = $lame ] && dir=$work/partial
[ -f \$dir/libddl_shim.so ] && export LD_PRELOAD=\$dir/libddl_shim.so
exec "\$@"
W
    chmod +x "$work/wrap"
    job 3 "$work/wrap" "$programs/preload_client" sums || fail "exit $?"
    [ "$(warnings)" = 1 ] || fail "$(warnings) warnings instead of one"
    ;;
  mismatch)
    preloaded 2 "$programs/preload_client" mismatch && fail "a wrong program succeeded"
    [ $? = 124 ] && fail "it hangs"
    grep -q 'all-reduce of 100[01] float32' "$work/log" || fail "the message does not name the call"
    ;;
  garbage_variable)
    job 2 -x LD_PRELOAD="$shim" -x DDL_STAGING_BYTES=lots "$programs/preload_client" sums || fail "exit $?"
    [ "$(warnings)" = 1 ] && grep -q 'DDL_STAGING_BYTES=lots' "$work/log" || fail "not one clear warning"
    ;;
  tune_cache)
    # Whatever the name leads to: one line, a right job, and nothing left of it.
    head -c 16000000 /dev/zero | tr '\0' x >"$work/large"
    echo '{"ddl_tuning": 1, "machines": 7}' >"$work/foreign"
    for cache in "$work/large" "$work/foreign" "$work" /proc/self/mem; do
      preloaded 2 -x DDL_TUNE_CACHE="$cache" "$programs/preload_client" sums || fail "exit $? with $cache"
      [ "$(warnings)" = 1 ] && grep -q "the tuning cache $cache is ignored (" "$work/log" || fail "not one line about $cache"
    done
    preloaded 2 -x DDL_TUNE_CACHE="$work/new" "$programs/preload_client" sums || fail "exit $?"
    [ "$(warnings)" = 0 ] || fail "a new cache is warned of"
    ;;
  full_disk)
    preloaded 2 -x DDL_REPORT=/dev/full "$programs/preload_client" sums || fail "exit $?"
    [ "$(grep -c '^ddl: error: .*cannot write the report to /dev/full (No space left on device)' "$work/log")" = 1 ] || fail "not one error line"
    ;;
  little_staging)
    preloaded 4 -x DDL_STAGING_BYTES=64k "$programs/preload_client" sums || fail "exit $?"
    ;;
  device_pointers)
    preloaded 3 -x LD_LIBRARY_PATH="$programs/../lib" "$programs/preload_device_client" || fail "exit $?"
    [ "$(engine_calls)" = 15 ] || fail "engine calls: $(engine_calls)"
    preloaded 3 -x LD_LIBRARY_PATH="$programs/../lib" "$programs/preload_device_client" often || fail "exit $?"
    grep -q 'measured against the engine' "$work/report.json" || fail "MPI was not tried"
    grep -q '"MPI_Bcast"' "$work/report.json" || fail "no broadcast is counted"
    ;;
  device_pointers_refused)
    job 2 -x LD_PRELOAD="$programs/../lib/libpreload_hide_progress.so:$shim" -x LD_LIBRARY_PATH="$programs/../lib" \
      "$programs/preload_device_client" refused || fail "exit $?"
    [ "$(grep -c '^ddl: error: .*MPI_Iallreduce has a buffer in device memory' "$work/log")" = 2 ] &&
      [ "$(grep -c '^ddl: error' "$work/log")" = 2 ] || fail "not one clear line of each rank"
    ;;
  *) fail "no such case" ;;
esac
echo "ok: $case_name"
