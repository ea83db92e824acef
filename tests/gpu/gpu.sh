#!/usr/bin/env bash
# gpu.sh CASE LIB_DIR PROGRAM_DIR CLIENT_DIR: NCCL programs on a real GPU, which their ranks share unless a case says so.
# Exit code 77, skipped: no GPU, or not what the case needs. Needs nothing but the built programs, and where a case says so
# PyTorch, CuPy, NCCL or compute-sanitizer.
set -uo pipefail
case_name=$1 lib=$2 programs=$3 clients=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; tail -n 60 "$work"/out* "$work"/err* 2>/dev/null; exit 1; }
# Of who started this: programs hear it too, being of the same group (--foreground), and what they said so far is shown.
trap 'fail "not done in time"' TERM

compgen -G '/dev/nvidia[0-9]*' >/dev/null || skip "no GPU here (/dev/nvidia*)"
# The driver itself, and not the test double beside the test programs: as a program without any library path finds it.
driver=$(env -u LD_PRELOAD python3 - <<'END' 2>/dev/null
import ctypes
ctypes.CDLL("libcuda.so.1")
print(next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line))
END
) || driver=""
[ -n "$driver" ] || skip "no CUDA driver (libcuda.so.1)"
# A rank's streams must not wait behind each other's (docs/nccl.md); the cases have up to eighteen in a process.
export CUDA_DEVICE_MAX_CONNECTIONS=32 DDL_VERBOSE=1

client() {
  DDL_VERBOSE=1 LD_PRELOAD="$lib/libddl_shim.so $driver" timeout --foreground 300 "$programs/nccl_plugin_host" \
    "$clients/libnccl_stream_gpu.so" "$@" >"$work/out" 2>"$work/err" || fail "$*: exit $?"
}
# Where the last client's all-reduces were done: what is meant for the GPU must not pass by luck on the host.
on() { grep -q "all-reduces on the $1" "$work/err" || fail "not on the $1: $(grep -o 'all-reduces on the .*' "$work/err" | head -n 1)"; }
bits() {  # RANKS HOW FILE
  client "$1" "$2" bits
  grep '^bits' "$work/out" | sort -u >"$3" || fail "$*: no results"
}
has_python() { python3 -c "import $1" 2>/dev/null || skip "python3 has no $1"; }
limits() { timeout --foreground 200 "$programs/gpu_limits" "$@" >"$work/out" 2>"$work/err" || fail "limits $*: exit $?"; grep '^limits' "$work/out"; }
nccl() { python3 -c 'import glob, nvidia.nccl as n; print(glob.glob(list(n.__path__)[0] + "/lib/libnccl.so.2")[0])' 2>/dev/null; }
# Ranks of a Python program, of which all must end well; $preload is the shim, or nothing.
ranks_of() {  # RANKS SCRIPT [ARGUMENT...]
  local size=$1 rank status=0 started=()
  shift
  export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + (RANDOM + $$) % 10000)) WORLD_SIZE=$size
  for ((rank = 0; rank < size; ++rank)); do
    RANK=$rank LOCAL_RANK=$rank LD_PRELOAD=$preload timeout --foreground "${ranks_time:-200}" python3 "$@" >"$work/out.$rank" 2>"$work/err.$rank" &
    started+=($!)
  done
  for rank in "${started[@]}"; do wait "$rank" || status=$?; done
  cat "$work"/out.[0-9]* >"$work/out"
  cat "$work"/err.[0-9]* >"$work/err"
  rm -f "$work"/out.[0-9]* "$work"/err.[0-9]*
  return $status
}

measured() {  # WHAT RANKS: by PyTorch with us
  preload=$lib/libddl_shim.so ranks_of "$2" "$here/measure.py" $1 || fail "$1 with $2 ranks: exit $?"
  grep '^torch' "$work/out"
}

case $case_name in
  cases)
    for how in "2 processes" "4 processes"; do client $how cases; on GPU; done
    # What a program's first use of a kernel waits for may be another thread's rank.
    export CUDA_MODULE_LOADING=EAGER
    client 3 threads cases; on GPU
    ;;
  bits)
    # Processes have small calls done by the host, unless MPS runs; threads do not.
    export CUDA_MODULE_LOADING=EAGER
    for ranks in 2 3 4; do
      bits $ranks threads "$work/gpu"; on GPU
      bits $ranks processes "$work/both"; on GPU
      DDL_GPU_STAGING_BYTES=64k bits $ranks threads "$work/chunks"; on GPU
      DDL_GPU_STAGING_BYTES=0 bits $ranks processes "$work/host"; on host
      diff "$work/gpu" "$work/host" || fail "other bits on the GPU than on the host"
      diff "$work/gpu" "$work/both" || fail "other bits where small calls are on the host"
      diff "$work/gpu" "$work/chunks" || fail "other bits in small chunks"
    done
    ;;
  accuracy) client 2 processes accuracy; on GPU; grep '^accuracy' "$work/out" ;;
  faults)
    for what in dead_peer dead_amid mismatch mismatch_of_scales aborted leaves; do
      echo "== $what"
      client 2 processes $what; on GPU
    done
    ;;
  one_by_one)
    # Kernels are launched one by one, and there are many chunks.
    bits 2 processes "$work/free"; on GPU
    CUDA_LAUNCH_BLOCKING=1 DDL_GPU_STAGING_BYTES=64k bits 2 processes "$work/one_by_one"; on GPU
    diff "$work/free" "$work/one_by_one" || fail "other bits"
    ;;
  sanitizer)
    command -v compute-sanitizer >/dev/null || skip "no compute-sanitizer"
    DDL_VERBOSE=1 timeout --foreground 500 compute-sanitizer --target-processes all --error-exitcode 9 \
      env LD_PRELOAD="$lib/libddl_shim.so $driver" "$programs/nccl_plugin_host" "$clients/libnccl_stream_gpu.so" \
      2 processes accuracy >"$work/out" 2>"$work/err" || fail "exit $?"
    on GPU
    grep 'ERROR SUMMARY' "$work/out"
    ;;
  limits) for what in kernels hand_overs copies launches; do limits $what; done ;;
  measure)
    for ranks in 2 4; do
      DDL_TEST_BYTES=1073741824 client $ranks processes measure; on GPU
      grep '^measured' "$work/out"
    done
    ;;
  measure_host)
    for ranks in 2 4; do
      DDL_GPU_STAGING_BYTES=0 client $ranks processes measure; on host
      grep '^measured' "$work/out" | sed 's/^measured:/measured by way of the host:/'
    done
    ;;
  staging)  # which size of chunks is best
    for staging in 4m 8m 16m 32m 64m 128m 256m; do
      DDL_GPU_STAGING_BYTES=$staging client 2 processes measure
      sed -n "s/^measured: \\(2 ranks, [0-9]\\{8,\\} bytes\\)/staging of $staging: \\1/p" "$work/out"
    done
    ;;
  mps)
    command -v nvidia-cuda-mps-control >/dev/null || skip "no MPS (nvidia-cuda-mps-control)"
    # It gives its clients so many connections together: with 32 for each the fourth gets no context.
    export CUDA_DEVICE_MAX_CONNECTIONS=8
    export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
    mkdir "$work/pipe" "$work/log"
    nvidia-cuda-mps-control -d || fail "MPS does not start"
    trap 'echo quit | nvidia-cuda-mps-control >/dev/null; rm -rf "$work"' EXIT
    for ranks in 2 4; do
      client $ranks processes measure; on GPU
      grep '^measured' "$work/out"
    done
    has_python torch
    for ranks in 2 4; do measured steps $ranks; done
    limits hand_overs
    client 3 processes cases; on GPU
    ;;
  overhead)
    nccl=$(nccl) && [ -n "$nccl" ] || skip "no NCCL (the Python package nvidia-nccl)"
    DDL_TEST_ORIGINAL=$(python3 - "$nccl" <<'END'
import ctypes, sys
at = ctypes.cast(ctypes.CDLL(sys.argv[1]).ncclAllReduce, ctypes.c_void_p).value
path = next(line.split()[-1] for line in open("/proc/self/maps") if "libnccl.so" in line)
base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if line.rstrip().endswith(path))
print(f"{at - base:x} {path}")
END
)
    export DDL_TEST_ORIGINAL
    for turn in 1 2 3; do
      LD_PRELOAD="$lib/libddl_shim.so $nccl $driver" timeout --foreground 300 "$programs/nccl_plugin_host" "$clients/libnccl_stream_gpu.so" \
        1 processes overhead >"$work/out" 2>"$work/err" || fail "one rank: exit $?"
      grep '^overhead' "$work/out"
    done
    ;;
  ddp)
    has_python torch
    preload="" ranks_of 1 "$here/ddp.py" || fail "one process: exit $?"
    grep '^loss' "$work/out" >"$work/one"
    for ranks in 2 4; do
      preload=$lib/libddl_shim.so ranks_of $ranks "$here/ddp.py" || fail "$ranks ranks: exit $?"
      grep '^loss' "$work/out" >"$work/several"
      echo "$ranks ranks: $("$here/same_losses.py" "$work/one" "$work/several")" || fail "other losses with $ranks ranks"
    done
    ;;
  refused)  # what NCCL alone says of two ranks on one GPU
    has_python torch
    preload="" ranks_time=60 ranks_of 2 "$here/ddp.py" && fail "NCCL itself serves two ranks on one GPU"
    grep -h -o -m 1 'Duplicate GPU detected.*' "$work/out" "$work/err" || fail "NCCL refuses for another reason"
    ;;
  collectives)
    has_python torch
    for ranks in 1 2 4; do
      preload=$lib/libddl_shim.so ranks_of $ranks "$here/collectives.py" || fail "$ranks ranks: exit $?"
      grep '^collectives' "$work/out"
    done
    ;;
  steps)
    has_python torch
    for ranks in 2 4; do measured steps $ranks; done
    for ranks in 2 4; do DDL_GPU_STAGING_BYTES=0 measured steps $ranks | sed 's/^torch:/torch, by way of the host:/' || exit 1; done
    preload="" ranks_of 1 "$here/measure.py" steps && grep '^torch' "$work/out" || fail "one rank alone"
    preload="" ranks_of 2 "$here/measure.py" steps gloo && grep '^torch' "$work/out" | sed 's/^torch:/torch, gloo:/' || fail "2 ranks with gloo"
    ;;
  behind)
    has_python torch
    for ranks in 2 4; do measured behind $ranks; done
    ;;
  sweep)
    has_python torch
    for ranks in 2 4; do
      measured "sweep nccl" $ranks
      preload="" ranks_of $ranks "$here/measure.py" sweep gloo && grep '^torch' "$work/out" || fail "$ranks ranks with gloo"
    done
    ;;
  mpi)
    has_python cupy
    has_python mpi4py
    command -v mpirun >/dev/null || skip "no mpirun"
    LD_PRELOAD="" PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe DDL_VERBOSE=1 timeout --foreground 200 mpirun --allow-run-as-root -n 2 \
      -x "LD_PRELOAD=$lib/libddl_shim.so" -x "LD_LIBRARY_PATH=$(dirname "$(dirname "$(command -v mpirun)")")/lib" -x DDL_VERBOSE python3 "$here/mpi_device.py" >"$work/out" 2>"$work/err" </dev/null || fail "exit $?"
    grep '^mpi' "$work/out"
    ddlrun=$programs/ddlrun
    [ -x "$ddlrun" ] || ddlrun=$programs/../../bin/ddlrun
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout --foreground 100 "$ddlrun" -np 2 python3 "$here/mpi_device.py" \
      >"$work/out" 2>"$work/err" </dev/null || fail "ddlrun: exit $?"
    grep -h 'mpi: \|more ranks than' "$work/out" "$work/err" | sed 's/^/ddlrun: /'
    ;;
  graph) for ranks in 1 2 3; do client $ranks processes graphs; done ;;
  torch_graph)
    has_python torch
    preload="" ranks_of 1 "$here/graph.py" && grep '^graph' "$work/out" || fail "one rank, NCCL alone"
    for ranks in 1 2; do
      preload=$lib/libddl_shim.so ranks_of $ranks "$here/graph.py" && grep '^graph' "$work/out" || fail "$ranks ranks with us"
    done
    ;;
  cupy)
    has_python cupy
    LD_PRELOAD=$lib/libddl_shim.so timeout --foreground 300 python3 "$here/cupy_client.py" >"$work/out" 2>"$work/err" || fail "exit $?"
    grep '^cupy' "$work/out"
    ;;
  *) fail "no such case" ;;
esac
echo "ok: $case_name"
