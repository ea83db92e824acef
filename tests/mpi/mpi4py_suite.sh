#!/bin/bash
# mpi4py_suite.sh [SHIM]: mpi4py's own tests of collectives, communicators, requests and what surrounds them must give
# the same result, test by test and rank by rank, with the shim preloaded as without. PYTHON and MPIRUN may name others
# than the system's, as of another Open MPI. Slow, and needs the network: the tests are those of the installed mpi4py's
# version, fetched with pip into a temporary folder. One line per difference, then a summary.
# Exit code: 0 the same, 1 a difference, 77 cannot run here.
set -uo pipefail
shim=$(realpath -m "${1:-$(dirname "$0")/../../build/release/lib/libddl_shim.so}")
python=${PYTHON:-/usr/bin/python3}
mpirun=${MPIRUN:-$(command -v mpirun.openmpi || command -v mpirun)}
modules='^test_(cco_|comm|group|g?request|attributes|op$|threads|environ|status|errhandler|exceptions|datatype|info|session)'
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1

cannot() { echo "mpi4py_suite: skipped: $1"; exit 77; }

[ -n "$mpirun" ] || cannot "no mpirun here"
[ -f "$shim" ] || cannot "no shim at $shim; build it or name it"
version=$("$python" -c 'import mpi4py; print(mpi4py.__version__)' 2>/dev/null) || cannot "$python has no mpi4py"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fetched=
for pip in "$python -m pip" pip3 pip; do
  # shellcheck disable=SC2086  # the first of them is three words
  timeout 180 $pip download -q --no-deps --no-binary :all: --retries 1 --timeout 20 -d "$work" "mpi4py==$version" \
    >>"$work/pip.log" 2>&1 && { fetched=yes; break; }
done
[ -n "$fetched" ] || cannot "pip cannot fetch mpi4py $version: $(grep . "$work/pip.log" | tail -n 1)"
mkdir "$work/source" && tar -xf "$work/mpi4py-$version".tar.* -C "$work/source" --strip-components=1 || exit 1

# Writes `rank:test outcome` as the tests go, so that a hang or a crash leaves its name behind.
cat >"$work/outcomes.py" <<'PYTHON'
import os, pathlib, re, sys, unittest
tests, modules, folder = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, tests)
names = sorted(file.stem for file in pathlib.Path(tests).glob('test_*.py') if re.search(modules, file.stem))
from mpi4py import MPI
rank = MPI.COMM_WORLD.Get_rank()
log = open(os.path.join(folder, 'rank%d' % rank), 'w', buffering=1)

def say(test, outcome):
    log.write('%d:%s %s\n' % (rank, test.replace(' ', '_'), outcome))

class Outcomes(unittest.TextTestResult):
    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error: say(test.id(), 'failed')

def also_say(method, outcome):
    original = getattr(unittest.TextTestResult, method)
    def wrapped(self, test, *rest):
        original(self, test, *rest)
        say(test.id(), outcome)
    setattr(Outcomes, method, wrapped)

for method, outcome in (('startTest', 'unfinished'), ('addSuccess', 'passed'), ('addFailure', 'failed'),
                        ('addError', 'error'), ('addSkip', 'skipped'), ('addExpectedFailure', 'failed_as_expected'),
                        ('addUnexpectedSuccess', 'passed_unexpectedly')):
    also_say(method, outcome)
unittest.TextTestRunner(verbosity=0, resultclass=Outcomes).run(unittest.defaultTestLoader.loadTestsFromNames(names))
say('all', 'finished')
PYTHON

run() {  # name ranks [mpirun options...]: leaves $work/name.outcomes, the last word on each test, sorted
  local folder="$work/$1" ranks=$2
  mkdir "$folder"
  timeout -k 10 600 "$mpirun" --oversubscribe -np "$ranks" "${@:3}" "$python" "$work/outcomes.py" "$work/source/test" \
    "$modules" "$folder" >"$folder.log" 2>&1 </dev/null
  cat "$folder"/rank* 2>/dev/null | awk '{ last[$1] = $2 } END { for (test in last) print test, last[test] }' |
    LC_ALL=C sort >"$folder.outcomes"
}

count() { awk -v outcome="$2" '$2 == outcome && $1 !~ /:all$/ { n++ } END { print n + 0 }' "$work/$1.outcomes"; }

engine_calls() {
  "$python" - "$1" 2>/dev/null <<'PYTHON' || echo 0
import json, sys
print(sum(one["engine"]["calls"] for one in json.load(open(sys.argv[1]))["collectives"] if "engine" in one))
PYTHON
}

result=0
compare() {  # name ranks plain-run [mpirun options...]
  local name=$1 ranks=$2 plain=$3 differences calls
  run "$name" "$ranks" -x "LD_PRELOAD=$shim" -x "DDL_REPORT=$work/$name.json" "${@:4}"
  LC_ALL=C join -a 1 -a 2 -e absent -o 0,1.2,2.2 "$work/$plain.outcomes" "$work/$name.outcomes" |
    awk -v name="$name" '$3 == "absent" { missing++; next }  # what came after a crash or a hang
      $2 != $3 { print "difference: " name ": rank " $1 ": plain " $2 ", shim " $3 }
      END { if (missing) print "difference: " name ": " missing " tests were never reached with the shim" }' \
      >"$work/$name.differences"
  cat "$work/$name.differences"
  differences=$(wc -l <"$work/$name.differences")
  calls=$(engine_calls "$work/$name.json")
  echo "$name: plain $(count "$plain" passed) passed, $(count "$plain" skipped) skipped;" \
    "shim $(count "$name" passed) passed, $(count "$name" skipped) skipped; $differences differences;" \
    "$calls calls in the engine"
  [ "$differences" -eq 0 ] || result=1
  [ "$calls" -gt 0 ] || { echo "$name: the engine saw no call, so this compared nothing"; result=1; }
  [ "$(grep -c ':all finished$' "$work/$plain.outcomes")" -eq "$ranks" ] ||
    { echo "$plain: did not finish without the shim either:"; tail -n 5 "$work/$plain.log"; result=1; }
}

for ranks in 2 3; do
  run "plain_np$ranks" "$ranks"
  compare "np$ranks" "$ranks" "plain_np$ranks"
done
compare np3_hosts_1+2 3 plain_np3 -x DDL_FAKE_HOSTS=1,2
[ $result -eq 0 ] && echo "mpi4py $version: the same with and without the shim"
exit $result
