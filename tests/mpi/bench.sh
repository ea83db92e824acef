#!/bin/sh
# bench.sh DDLRUN DDL_BENCH: what ddl-bench takes and prints, without and with the engine.
ddlrun=$1 bench=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
fail() { echo "FAILED: $*"; head -20 "$work/out" "$work/err"; exit 1; }
run() { timeout 60 "$@" >"$work/out" 2>"$work/err"; }
sizes() { awk '$1 ~ /^[0-9]+$/ {printf "%s ", $1}' "$work/out"; }

run "$mpirun" --oversubscribe -np 2 "$bench" --min 6 --max 64 || fail "exit $?"
[ "$(sizes)" = "8 16 32 64 " ] || fail "--min 6 gives $(sizes)"
grep -q "^# allreduce float32, sum, 2 ranks on 1 host: .* x2$" "$work/out" || fail "no hosts in the head"
grep -q "^# library Open MPI v.*, engine off$" "$work/out" || fail "no library in the head"
grep -q "median us *avg us *min us" "$work/out" || fail "no average beside the median"
run "$mpirun" --oversubscribe -np 2 "$bench" -m 4:1k -f 16 || fail "exit $?"
[ "$(sizes)" = "4 64 1024 " ] || fail "-m 4:1k gives $(sizes)"
run "$ddlrun" --oversubscribe -np 2 "$bench" -m 4 --json - || fail "exit $?"
python3 -c 'import json, sys
read = json.load(sys.stdin)
row = read["results"][0]
assert read["engine"] is True and read["hosts"].startswith("1 host: ") and read["library"].startswith("Open MPI"), read
assert row["bytes"] == 4 and row["min_us"] <= row["avg_us"] <= row["max_us"], row' <"$work/out" || fail "--json -"
grep -q "^check: 1 sizes" "$work/err" || fail "no table beside --json -"
run "$bench" --json /dev/full -m 4 && fail "a full disk is a success"
grep -q "cannot write '/dev/full'" "$work/err" || fail "a full disk is not told"
for wrong in "-m 4:x" "-m 4:8:16" "-m 8:4" "--min 5 --max 7" "-m :"; do
  run "$bench" $wrong && fail "$wrong is accepted"
  [ "$(grep -c '^ddl-bench: error' "$work/err")" = 1 ] || fail "not one error line for $wrong"
done
echo ok
