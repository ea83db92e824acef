#!/usr/bin/env bash
# stream.sh CASE LIB_DIR PROGRAM_DIR TEST_LIB_DIR: NCCL programs whose ranks are all on one GPU, on test doubles of
# libcuda and libnccl, served by the engine.
set -u
case_name=$1 lib=$2 programs=$3 doubles=$4
here=$(cd "$(dirname "$0")" && pwd)
shim=$lib/libddl_shim.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$work/report.json

fail() { echo "FAILED: $*"; tail -n 50 "$work"/ours.*; exit 1; }
ours() { DDL_REPORT=$report LD_PRELOAD=$shim timeout 550 "$@" >"$work/ours.out" 2>"$work/ours.err"; }
client() { ours "$programs/nccl_stream_client" "$@" || fail "$*: exit $?"; }
orphan() { ours "$programs/nccl_plugin_host" "$doubles/libnccl_stream_orphan.so" "$@" || fail "$*: exit $?"; }
counted() { "$here/../tally_check.py" "$work/ours.out" "$report" engine || fail "wrong counts"; }
# Every rank says once, in one line, what it was not able to do; and nothing else.
says_of_each() { # RANKS WHAT
  [ "$(grep -c '^ddl: error: ' "$work/ours.err")" = "$1" ] && [ "$(grep -c "$2" "$work/ours.err")" = "$1" ] ||
    fail "not one clear line of $1 ranks"
}
# Where all-reduces are done, as the engine says it.
on_gpu() {
  if grep -q 'this build has no device kernels' "$work/ours.err"; then echo "skipped: no device kernels"; exit 77; fi
  grep -q ': all-reduces on the GPU' "$work/ours.err" || fail "not on the GPU"
  grep -q ': all-reduces on the host' "$work/ours.err" && fail "not all on the GPU"
}
# Where the report has all-reduces of less than so many bytes, and where all others: names, comma between them.
reported() { # BYTES BELOW FROM
  python3 - "$report" "$@" <<'END' || fail "the report has all-reduces elsewhere"
import json, sys
plans = [set(), set()]
for one in json.load(open(sys.argv[1]))["algorithms"]:
    if one["collective"] == "ncclAllReduce": plans[one["bytes_up_to"] >= int(sys.argv[2])].add(one["plan"])
right = [set(filter(None, names.split(","))) for names in sys.argv[3:]]
sys.exit(plans != right and f"{plans}")
END
}
on_host() { # BECAUSE
  if grep -q 'this build has no device kernels' "$work/ours.err"; then echo "skipped: no device kernels"; exit 77; fi
  grep -q ": all-reduces on the host, because $1" "$work/ours.err" || fail "not on the host, or for another reason"
  grep -q ': all-reduces on the GPU' "$work/ours.err" && fail "on the GPU"
}
# The same lines from every rank, and so the same bits.
bits() { # RANKS HOW FILE
  client "$1" "$2" bits
  grep '^bits' "$work/ours.out" | sort | uniq -c >"$3"
  awk -v ranks="$1" '$1 != ranks { bad = 1 } END { exit bad || NR != 200 }' "$3" || fail "not the same bits on all ranks"
}
both_ways() { for staging in 33554432 0; do DDL_GPU_STAGING_BYTES=$staging "$@"; done; }
# What has become one, or that nothing has.
fused_are() { # 0|1
  classes=()
  [ "$1" = 1 ] && for type in int32 float32 float16 int64; do
    for op in sum prod min max average "sum of multiples"; do classes+=("$type, $op"); done
  done
  "$here/fused_check.py" "$report" "${classes[@]}" || fail "something else was fused"
}
silent() { [ -s "$work/ours.err" ] && fail "it says something"; }

case $case_name in
  alone) orphan 1 processes cases; counted ;;
  two_processes) client 2 processes cases; counted ;;
  forked) client 3 processes forked; counted ;;
  four_processes) client 4 processes cases; counted ;;
  threads)
    client 4 threads cases; counted
    grep -q 'being captured into a graph (ranks 0 and 1 are in one process' "$work/ours.err" || fail "a capture is not refused"
    ;;
  init_all) client 3 all cases; counted ;;
  group) client 3 group cases; counted ;;
  without_nccl) DDL_TEST_NEWER_NCCL=1 orphan 3 processes cases; counted ;;
  dlopened)
    export LD_LIBRARY_PATH=$doubles
    for how in processes threads; do
      ours "$programs/nccl_stream_dlopened" 3 $how cases || fail "$how: exit $?"
      counted
    done
    ;;
  refused_without_us)
    shim="" ours "$programs/nccl_stream_client" 2 all cases && fail "the plain run works"
    grep -q "Duplicate GPU detected" "$work/ours.err" || fail "another reason"
    ;;
  nonblocking)
    for how in one_by_one one_by_one_in_group; do
      client 3 $how cases; counted
      # Every rank has a GPU: the handles stand for communicators of NCCL's.
      FAKE_CUDA_DEVICES=3 DDL_VERBOSE=1 client 3 $how apart
      grep -q "a communicator of 3 ranks: NCCL's" "$work/ours.err" || fail "no setup"
      "$here/../tally_check.py" "$work/ours.out" "$report" original || fail "wrong counts"
    done
    DDL_TIMEOUT=2 ours "$programs/nccl_stream_client" 2 one_thread unmade || fail "exit $?"
    [ "$(grep -c 'ncclCommCount names a communicator that is not made' "$work/ours.err")" = 2 ] || fail "no clear line"
    [ "$(grep -c 'names a communicator that was destroyed' "$work/ours.err")" = 4 ] || fail "no clear line"
    grep -q '^last: .*rank 1 of 2 did not come within 2 s' "$work/ours.out" || fail "no last error"
    ;;
  late)
    export DDL_TIMEOUT=3
    client 3 processes late
    says_of_each 2 'cannot create a communicator: rank 2 of 3 did not come within 3 s'
    grep -q '^last: .*rank 2 of 3 did not come' "$work/ours.out" || fail "no last error"
    ;;
  dead_peer)
    dead() { client 3 processes "$1"; says_of_each 2 'ncclAllReduce failed: rank 2 \(of the job \)\?is gone'; }
    both_ways dead dead_peer
    both_ways dead dead_amid
    ;;
  mismatch)
    mismatched() { client 2 processes "$1"; says_of_each 2 'do not make the same call'; }
    both_ways mismatched mismatch
    both_ways mismatched mismatch_of_the_last_chunk
    both_ways mismatched mismatch_of_scales
    for hosts in 2 1,1; do
      DDL_FAKE_HOSTS=$hosts DDL_WIRE=tcp client 2 processes mismatch_of_a_message
      says_of_each 2 'do not make the same call'
    done
    ;;
  on_gpu)
    export DDL_VERBOSE=1 DDL_GPU_STAGING_BYTES=1m  # several chunks for the largest
    for ranks in 2 3 4; do client $ranks processes cases; on_gpu; done
    client 3 threads cases; on_gpu
    client 2 all cases; on_gpu
    client 3 group cases; on_gpu
    DDL_TEST_BYTES=300000 client 2 processes measure; reported 262144 'on the GPU' 'on the GPU'
    # Some of the calls on the host, because the GPU would have to change between processes; but not between threads.
    export FAKE_CUDA_TIME_SLICES=1
    client 3 processes cases; on_gpu
    grep -q 'those of less than 393216 bytes on the host' "$work/ours.err" || fail "small calls are not on the host"
    client 3 threads cases; on_gpu
    grep -q 'those of less than' "$work/ours.err" && fail "small calls are on the host"
    DDL_TEST_BYTES=300000 client 2 processes measure; reported 262144 'staged by the host' 'on the GPU'
    ;;
  on_host)
    export DDL_VERBOSE=1 DDL_GPU_STAGING_BYTES=0
    client 4 processes cases; on_host 'rank 0: DDL_GPU_STAGING_BYTES is 0'
    client 3 threads cases; counted; on_host 'rank 0: DDL_GPU_STAGING_BYTES is 0'
    DDL_GPU_HOST_THREADS=3 client 3 processes cases; counted
    DDL_GPU_HOST_THREADS=4 client 2 threads cases; counted
    ;;
  kernels_refused)
    export DDL_VERBOSE=1
    FAKE_CUDA_KERNELS=no_binary client 2 processes cases; on_host 'rank 0: .*CUDA_ERROR_NO_BINARY_FOR_GPU.*driver'
    FAKE_CUDA_KERNELS=new_ptx client 2 threads cases; on_host 'rank 0: .*CUDA_ERROR_UNSUPPORTED_PTX_VERSION.*driver'
    client 2 processes kernels_of_one; on_host 'rank 1: .*CUDA_ERROR_NO_BINARY_FOR_GPU'
    ;;
  accuracy)
    client 3 processes accuracy
    [ "$(grep -c '^accuracy' "$work/ours.out")" = 3 ] || fail "not all types"
    DDL_TEST_BYTES=1000000 client 2 processes measure
    grep -q '^measured: 2 ranks' "$work/ours.out" || fail "no measurement"
    ;;
  same_bits)
    export DDL_VERBOSE=1
    for ranks in 2 3 4; do
      for how in processes threads; do
        DDL_GPU_STAGING_BYTES=64k bits $ranks $how "$work/gpu"; on_gpu
        DDL_GPU_STAGING_BYTES=0 bits $ranks $how "$work/host"; on_host 'rank 0'
        DDL_GPU_STAGING_BYTES=0 DDL_GPU_HOST_THREADS=3 bits $ranks $how "$work/threads"
        diff "$work/host" "$work/threads" || fail "other bits by several threads"
        diff "$work/gpu" "$work/host" || fail "other bits on the GPU than on the host"
        FAKE_CUDA_TIME_SLICES=1 bits $ranks $how "$work/both"; on_gpu
        diff "$work/both" "$work/host" || fail "other bits where some calls are on the host"
      done
    done
    ;;
  graphs)
    for ranks in 1 2 3 4; do both_ways orphan $ranks processes graphs; counted; done
    DDL_FAKE_HOSTS=2,1 DDL_WIRE=tcp client 3 processes graphs; counted
    DDL_VERBOSE=1 client 2 processes graphs; on_gpu
    reported 1 '' 'on the GPU,staged by the host'  # the latter what is captured
    ;;
  kept_waiting)
    # By a driver that has no room, or that launches kernels one by one as debuggers do: calls have many chunks.
    export DDL_VERBOSE=1 DDL_GPU_STAGING_BYTES=64k
    bits 3 processes "$work/free"; on_gpu
    for hindrance in FAKE_CUDA_QUEUE=8 CUDA_LAUNCH_BLOCKING=1; do
      export "${hindrance?}"
      bits 3 processes "$work/hindered"; on_gpu
      diff "$work/free" "$work/hindered" || fail "other bits with $hindrance"
      client 3 processes dead_peer
      says_of_each 2 'ncclAllReduce failed: rank 2 \(of the job \)\?is gone'
      unset "${hindrance%=*}"
    done
    FAKE_CUDA_QUEUE=8 DDL_GPU_STAGING_BYTES=0 bits 3 processes "$work/hindered"; on_host 'rank 0'
    diff "$work/free" "$work/hindered" || fail "other bits on the host"
    ;;
  same_stream)
    client 3 threads same_stream
    grep -q 'is on a stream that another rank of this process uses' "$work/ours.err" || fail "another reason"
    ;;
  aborted | leaves)
    quietly() { client 3 "$1" "$case_name"; silent; }
    both_ways quietly processes
    both_ways quietly threads
    ;;
  two_hosts)
    export DDL_FAKE_HOSTS=2,1 DDL_WIRE=tcp
    client 3 processes cases; counted
    ;;
  host_functions)
    export FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS=1
    client 2 processes cases; counted
    ;;
  host_functions_and_threads)
    export FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS=1
    ours "$programs/nccl_stream_client" 2 threads cases && fail "it works"
    grep -q 'ranks 0 and 1 are in one process' "$work/ours.err" || fail "another reason"
    ;;
  fused)
    # On the host alone, and on two pretended hosts; once each by itself.
    export DDL_GPU_STAGING_BYTES=0
    one_host() { "$@"; }
    two_hosts() { DDL_FAKE_HOSTS=2,1 DDL_WIRE=tcp "$@"; }
    for where in one_host two_hosts; do
      [ $where = one_host ] && ways="processes threads" || ways=processes
      $where client 3 processes fused; counted
      fused_are 0
      for how in $ways; do
        DDL_LAZY_BYTES=1m $where client 3 $how fused; counted
        fused_are 1
        DDL_LAZY_BYTES=1m $where client 3 $how cases; counted
      done
      DDL_LAZY_BYTES=1m DDL_DETERMINISTIC=1 $where client 3 processes fused; counted
      fused_are 0
    done
    # There a program that uses several communicators in orders of its own may hang, fused or not (docs/nccl.md).
    FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS=1 DDL_LAZY_BYTES=1m client 2 processes cases; counted
    DDL_LAZY_BYTES=1m client 2 group cases; counted
    DDL_LAZY_BYTES=1m client 3 processes graphs; counted
    DDL_LAZY_BYTES=1m client 2 processes fused_mismatch
    says_of_each 2 'do not make the same call'
    # What the GPU does stays as it is.
    DDL_GPU_STAGING_BYTES=1m DDL_LAZY_BYTES=1m client 3 processes fused; counted
    # Rounded where whole numbers are exact; in 8 bits they are not.
    DDL_FAKE_HOSTS=2,1 DDL_WIRE=tcp DDL_WIRE_TYPE=bfloat16 DDL_WIRE_TYPE_FROM=800 DDL_LAZY_BYTES=1m client 3 processes fused
    "$here/fused_check.py" "$report" 'float32, sum, bfloat16 between hosts' || fail "nothing fused that travels narrower"
    ;;
  fused_allocations)
    # Without a report, which has to count. Each by itself would take as much as are under way at once, which varies.
    DDL_LAZY_BYTES=1m DDL_GPU_STAGING_BYTES=0 LD_PRELOAD="$shim $doubles/liballocations.so" \
      timeout 550 "$programs/nccl_stream_client" 3 processes fused_allocations >"$work/ours.out" 2>"$work/ours.err" ||
      fail "exit $?"
    silent
    ;;
  apart)
    # Every rank has a GPU: all meet at our rendezvous, and NCCL serves them.
    export FAKE_CUDA_DEVICES=3
    for how in processes threads all group; do
      timeout 550 "$programs/nccl_stream_client" 3 $how apart >"$work/plain.out" 2>&1 || fail "plain $how: exit $?"
      DDL_VERBOSE=1 client 3 $how apart
      [ $how = all ] || grep -q "a communicator of 3 ranks: NCCL's" "$work/ours.err" || fail "no setup"
      "$here/../tally_check.py" "$work/ours.out" "$report" original || fail "wrong counts"
    done
    ;;
  off)
    DDL_ENABLE=0 ours "$programs/nccl_stream_client" 2 all cases && fail "it works"
    grep -q "Duplicate GPU detected" "$work/ours.err" || fail "another reason"
    ;;
  *) fail "no such case" ;;
esac
echo "ok: $case_name"
