#!/bin/sh
# replay.sh DDLRUN DDL_BENCH MODELS: the gradient lists that ddl-bench --replay knows, lists of one's own, wrong ones.
ddlrun=$1 bench=$2 models=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
fail() { echo "FAILED: $*"; head -30 "$work/out" "$work/err"; exit 1; }
run() { timeout 100 "$@" >"$work/out" 2>"$work/err"; }
says() { grep -q "$1" "$work/out" || fail "no '$1'"; }

# The published numbers of tensors and parameters.
run "$models/make_models.py" --check "$models" || fail "the lists are not what make_models.py makes"
while read -r name tensors elements; do
  found=$(awk '!/^#/ {tensors += $2 > 0; all += $2} END {print tensors, all}' "$models/$name.txt")
  [ "$found" = "$tensors $elements" ] || fail "$name has $found and not $tensors $elements"
done <<LISTS
alexnet 16 60965224
bert-large 391 335141888
googlenet 128 13378280
resnet50 161 25557032
vgg16 32 138357544
LISTS

# Ours: computing alone, an odd number, one behind which nothing is computed, one that is cut into segments.
cat >"$work/list" <<LIST
# a comment

forward 0 300
	last 1 50.5
bias 1001 0
first 300000 200
LIST
replay() { run "$@" "$bench" --replay "$work/list" -i 3 -x 1 $options || fail "exit $? with '$options'"; }
for options in "" "--blocking --inplace" --inplace --sleep "--compute-ms 0" "--dtype int64 --reduce max"; do
  replay "$mpirun" --oversubscribe -np 2
  says "^# replay .*: 3 tensors, 301002 elements; i\{0,1\}allreduce .*, 2 ranks on 1 host: "
  says "^ *step  *[0-9]* *301002 *3 "
  says "^ *computing alone *0 *0 *3 "
  says "^ *all-reduces alone "
  says "^hidden "
  says "^check: .*list 3 tensors 48 results 0 wrong$"
  replay "$ddlrun" --oversubscribe -np 2
  says "^check: .*list 3 tensors 48 results 0 wrong$"
done
options=
replay "$ddlrun" --oversubscribe -np 3 -x DDL_FAKE_HOSTS=2,1
says "^check: .*list 3 tensors 72 results 0 wrong$"
# Each tensor contributes something else, so that a rounded sum is another one: what is not right is told.
run "$ddlrun" --oversubscribe -np 3 -x DDL_FAKE_HOSTS=2,1 -x DDL_WIRE_TYPE=int8 "$bench" --replay "$work/list" && fail "wrong sums are a success"
options="--tolerance 0.05"
replay "$ddlrun" --oversubscribe -np 3 -x DDL_FAKE_HOSTS=2,1 -x DDL_WIRE_TYPE=int8

run "$mpirun" --oversubscribe -np 2 "$bench" --replay "$work/list" --compute-ms 20 -i 2 --json - || fail "exit $?"
python3 -c 'import json, sys
read = json.load(sys.stdin)
assert read["tensors"] == 3 and read["bytes"] == 4 * 301002 and read["wrong"] == 0, read
parts = read["parts"]
assert parts["step"]["median_us"] > 0 and parts["computing alone"]["median_us"] >= 10e3, read' <"$work/out" || fail "--json -"
run "$mpirun" --oversubscribe -np 2 "$bench" --replay googlenet --compute-ms 0 -i 1 -x 0 || fail "exit $?"
says "^# replay googlenet: 128 tensors, 13378280 elements"

run "$ddlrun" --oversubscribe --compare -np 2 -x DDL_FAKE_HOSTS=1,1 "$bench" --replay "$work/list" -i 3 || fail "exit $?"
says "^ *1204008  *[0-9.]*  *[0-9.]*  *[0-9.]*  step$"
says "^sent between hosts *not counted *[0-9.]* MB$"

wrong() { # a line of the message, then the content of the file
  expected=$1 content=$2
  printf "$content" >"$work/wrong"
  run $start "$bench" --replay "$work/wrong" && fail "'$content' is accepted"
  [ "$(grep -c "^ddl-bench: error: --replay: $work/wrong$expected" "$work/err")" = 1 ] || fail "'$content' is not told"
  [ "$(grep -c "^ddl-bench: error" "$work/err")" = 1 ] || fail "not one error line for '$content'"
}
start="$mpirun --oversubscribe -np 2"
wrong ": there is no tensor" ""
start=
wrong ": there is no tensor" "a 0 5\n"
wrong ":1: a line is NAME" "a 1\n"
wrong ":2: a line is NAME" "# x\na 1 2 3\n"
wrong ":1: '-1' is not a number" "a -1 2\n"
wrong ":1: '3000000000' is not a number" "a 3000000000 2\n"
wrong ":1: '1.5' is not a number" "a 1.5 2\n"
wrong ":1: 'x' is not a time" "a 1 x\n"
wrong ":1: 'nan' is not a time" "a 1 nan\n"
wrong ":1: '-2' is not a time" "a 1 -2\n"
wrong ":1: '2ms' is not a time" "a 1 2ms\n"
for name in nosuch /nosuch/file /tmp; do
  run "$bench" --replay $name && fail "$name is accepted"
  grep -q "^ddl-bench: error: .*'$name' is neither .*alexnet, bert-large, googlenet, resnet50, vgg16)" "$work/err" || fail "$name is not told"
done
for options in --blocking "--compute-ms 3" "--replay x --op bcast" "--replay x --min 8" "--replay x --compute-ms -1"; do
  run "$bench" $options && fail "$options is accepted"
  [ "$(grep -c '^ddl-bench: error' "$work/err")" = 1 ] || fail "not one error line for $options"
done
echo ok
