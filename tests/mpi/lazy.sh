#!/bin/bash
# What is fused stands in the report; ranks that are given different DDL_LAZY_BYTES are told once, and a bad one is said in a
# line.   lazy.sh DDLRUN PROGRAM PERSISTENT
set -u
ddlrun=$1 program=$2 persistent=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $1" >&2; sed 's/^/    /' "$folder/out" >&2; failed=1; }

fused() { # "calls batches", of all ranks, and "memory"
  python3 - "$folder/report" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
found = report["fused"]
print(sum(one["calls"] for one in found), sum(one["batches"] for one in found), report["fusion_bytes"])
P
}

run() { "$ddlrun" -np 2 --oversubscribe --report "$folder/report" "$@" "$program" >"$folder/out" 2>&1; }

run -x DDL_LAZY_BYTES=1m -x DDL_FAKE_HOSTS=1,1 || fail "between hosts"
read -r calls batches memory < <(fused)
((calls > 1000 && batches > 0 && calls > 4 * batches)) || fail "$calls calls fused into $batches"
((memory > 0)) || fail "the report does not say what memory that took"
"$ddlrun" --report - -np 2 --oversubscribe -x DDL_LAZY_BYTES=1m "$program" >"$folder/out" 2>&1 || fail "on one host"
grep -q '^fused, all ranks .*calls' "$folder/out" || fail "the table says nothing of it"

"$ddlrun" -np 2 --oversubscribe --report "$folder/report" -m b --ddlarg "-lazy_bytes 1m" "$program" >"$folder/out" 2>&1 || fail "by an option"
read -r calls batches memory < <(fused)
((batches > 0)) || fail "-lazy_bytes of DDL_OPTIONS has no effect"

# 2400 starts on each rank, a few of them by themselves.
run_persistent() { "$ddlrun" -np 3 --oversubscribe --report "$folder/report" "$@" "$persistent" --alone >"$folder/out" 2>&1; }
for hosts in 3 2,1; do
  run_persistent -x DDL_LAZY_BYTES=1m -x DDL_FAKE_HOSTS=$hosts || fail "persistent calls, hosts $hosts"
  read -r calls batches memory < <(fused)
  ((calls > 6000 && batches > 0 && calls > 10 * batches)) || fail "hosts $hosts: $calls starts fused into $batches"
done
run_persistent || fail "persistent calls, off"
[ "$(fused)" = "0 0 0" ] || fail "starts are fused though nobody asked for it"
run_persistent -x DDL_LAZY_BYTES=1m -x DDL_DETERMINISTIC=1 || fail "persistent calls, deterministic"
[ "$(fused)" = "0 0 0" ] || fail "starts are fused though bits would depend on it"

run || fail "off"
[ "$(fused)" = "0 0 0" ] || fail "something is fused though nobody asked for it"
run -x DDL_LAZY_BYTES=1m -x DDL_DETERMINISTIC=1 || fail "deterministic"
[ "$(fused)" = "0 0 0" ] || fail "something is fused though bits would depend on it"
[ "$(grep -c 'DDL_LAZY_BYTES has no effect with DDL_DETERMINISTIC=1' "$folder/out")" = 1 ] || fail "that is said once"

"$ddlrun" --oversubscribe --report "$folder/report" -np 1 -x DDL_LAZY_BYTES=1m "$program" : -np 1 "$program" >"$folder/out" 2>&1 ||
  fail "off on one rank"
[ "$(fused)" = "0 0 0" ] || fail "something is fused though one rank has it off"
[ "$(grep -c 'DDL_LAZY_BYTES is 0 on rank 1 and 1048576 on rank 0: no all-reduces are fused' "$folder/out")" = 1 ] ||
  fail "different numbers are said once"

run -x DDL_LAZY_BYTES=-5
[ "$(grep -c 'DDL_LAZY_BYTES' "$folder/out")" = 1 ] || fail "a bad number is said in one line"
cat "$folder/out"
exit $failed
