#!/usr/bin/env bash
# native.sh LIB_DIR PROGRAM_DIR TEST_LIB_DIR: NCCL programs whose ranks share a real GPU, served by the engine: right numbers,
# the same bits on the GPU as on the host, and how long 256 MiB take. Where there is no GPU: exit code 77, skipped.
set -u
lib=$1 programs=$2 clients=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -e /dev/nvidia0 ] || { echo "skipped: no GPU here (/dev/nvidia0)"; exit 77; }
# The driver itself, and not the test double beside the test programs.
driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.*=> //p' | head -n 1)
[ -n "$driver" ] || { echo "skipped: no CUDA driver (libcuda.so.1)"; exit 77; }

client() {
  DDL_VERBOSE=1 LD_PRELOAD="$lib/libddl_shim.so $driver" timeout 600 "$programs/nccl_plugin_host" \
    "$clients/libnccl_native_gpu.so" "$@" >"$work/out" 2>"$work/err" ||
    { echo "FAILED: $*: exit $?"; tail -n 30 "$work/out" "$work/err"; exit 1; }
  grep -o 'all-reduces on the .*' "$work/err" | head -n 1
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1
for how in "2 processes" "4 processes" "3 threads"; do
  echo "== cases, $how"
  client $how cases
done
for ranks in 2 3; do
  echo "== $ranks processes: the same bits on the GPU and on the host"
  client $ranks processes bits
  grep '^bits' "$work/out" | sort -u >"$work/gpu"
  DDL_GPU_STAGING_BYTES=0 client $ranks processes bits
  grep '^bits' "$work/out" | sort -u >"$work/host"
  diff "$work/gpu" "$work/host" >"$work/diff" || { echo "FAILED: other bits"; head -n 20 "$work/diff"; exit 1; }
done
echo "== against float64"
client 2 processes accuracy && grep '^accuracy' "$work/out"
for staging in 33554432 268435456 0; do
  echo "== 256 MiB, staging of $staging bytes"
  DDL_GPU_STAGING_BYTES=$staging client 2 processes measure && grep '^measured' "$work/out"
done
DDL_GPU_STAGING_BYTES=268435456 client 2 threads measure && grep '^measured' "$work/out"
echo ok
