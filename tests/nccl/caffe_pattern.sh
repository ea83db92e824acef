#!/usr/bin/env bash
# caffe_pattern.sh engine|original RANKS GPUS LIB_DIR PROGRAM_DIR: examples/02_caffe_pattern with the shim, on test
# doubles of libcuda and libnccl. It trains right, and the calls of every rank are counted for whom they went to.
set -u
route=$1 ranks=$2 gpus=$3 lib=$4 programs=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work"/*; exit 1; }

export FAKE_CUDA_DEVICES=$gpus DDL_REPORT=$work/report.json
LD_PRELOAD=$lib/libddl_shim.so timeout 550 "$programs/caffe_pattern" "$ranks" >"$work/out" 2>"$work/err" ||
  fail "exit $?"
cat "$work/out"
grep -q "^$ranks ranks, .*: ok$" "$work/out" || fail "no verdict"
[ -s "$work/err" ] && fail "it says something"
if [ "$route" = engine ]; then # as NCCL refuses it
  DDL_ENABLE=0 LD_PRELOAD= timeout 550 "$programs/caffe_pattern" "$ranks" >"$work/out" 2>"$work/err" &&
    fail "it runs on one GPU without us"
  grep -q "Duplicate GPU detected" "$work/err" || fail "another reason"
fi
python3 - "$route" "$ranks" "$DDL_REPORT" <<'PYTHON' || fail "wrong counts"
import json, sys

route, ranks = sys.argv[1], int(sys.argv[2])
layers, iterations = 3, 60
calls = {}
for one in json.load(open(sys.argv[3]))["collectives"]:
    routes = [one["engine"]] if route == "engine" else one["original"]
    if one["name"].startswith("nccl"):
        calls[one["name"]] = sum(r["calls"] for r in routes)
expected = {"ncclBroadcast": ranks * layers, "ncclAllReduce": ranks * layers * iterations}
print(calls)
sys.exit(calls != expected)
PYTHON
