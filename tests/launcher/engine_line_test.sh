#!/bin/sh
# engine_line_test.sh DDLRUN DDL_BENCH SOURCES: the line about the engine at the end of a run, and --compare.
ddlrun=$1 bench=$2 sources=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
failures=0
fail() {
  failures=$((failures + 1))
  echo "FAILED: $1"
  sed 's/^/    /' out err 2>/dev/null | tail -25
}
# line CODE TEXT words...: ddlrun with the words ends with one line about the engine that has TEXT.
line() {
  want=$1 text=$2
  shift 2
  timeout 60 "$ddlrun" "$@" >out 2>err </dev/null
  got=$?
  [ $got -eq "$want" ] || fail "exit code $got instead of $want: ddlrun $*"
  [ "$(grep -c '^ddlrun: engine: ' err)" = 1 ] || fail "not one line about the engine: ddlrun $*"
  grep -q "^ddlrun: engine: $text" err || fail "no '$text': ddlrun $*"
}

line 0 '[0-9]* of 300 MPI_Allreduce calls per rank, [0-9.]* k*B, [0-9.]* [um]*s; original: [0-9]* measured; and [0-9]* of [0-9]* calls of [0-9]* other collectives$' -v -np 2 "$bench" -m 4
line 0 '[0-9]* of 300 MPI_Allreduce' --report r.json -np 2 "$bench" -m 4
[ "$(grep -c 'report written to' err)" = 1 ] || fail "the report is not named"
line 0 'not used, because DDL_ENABLE=0$' -v -x DDL_ENABLE=0 -np 2 "$bench" -m 4
line 0 '[0-9.]* of [0-9.]* MPI_Bcast calls per rank' -v -np 2 "$bench" -m 64k:64k --op bcast
line 0 'not used, because nothing that true started used MPI' -v -np 2 true
line 0 'not used, because LD_PRELOAD was taken away before ddl-bench started' -v -np 2 env -u LD_PRELOAD "$bench" -m 1m
if mpif90 -o fortran "$sources/fortran.f90" >fortran.log 2>&1; then
  line 0 '1 of 1 MPI_Allreduce calls per rank' -v -np 2 ./fortran
  grep -q 'warning' err && fail "a Fortran program is warned of"
else
  echo "not tried: no mpif90"
fi
if cc -static -o static -x c - 2>/dev/null <<'C'
int main(void) { return 0; }
C
then line 0 'not used, because ./static is statically linked' -v -np 1 ./static; fi
# Memory that the shared memory of ranks would take where a process may map little.
if mpicc -o large -x c - <<'C'
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int one = 1, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  void* much = malloc(800ul << 20);
  MPI_Finalize();
  return sum != 2 || !much;
}
C
then
  (
    ulimit -v 1500000
    line 0 '1 of 1 MPI_Allreduce calls per rank' -v -np 2 ./large
    [ $failures = 0 ]
  ) || failures=$((failures + 1))
fi
if /usr/bin/python3 -c 'import mpi4py' 2>/dev/null; then
  line 0 "[0-9]* of [0-9]* MPI_[A-Za-z]* calls per rank, .*; no MPI_Allreduce was called: mpi4py's lowercase" -v -np 2 /usr/bin/python3 -c 'from mpi4py import MPI
MPI.COMM_WORLD.allreduce({"a": 1}, op=lambda a, b: a)'
else
  echo "not tried: no mpi4py"
fi

line 0 '[0-9]* of 300 MPI_Allreduce' --report - -np 2 "$bench" -m 4
grep -q '^--- report$' out && grep -q '^2 ranks on 1 host: .* x2; with the engine; ' out &&
  grep -q '^MPI_Allreduce  *the engine  *[0-9]* ' out && grep -q ' original: measured ' out || fail "--report - prints no table"
[ ! -e ./- ] || fail "--report - makes a file"

# What a rank leaves that is killed while it writes.
for how in '--report r.json' '-x DDL_REPORT=r.json'; do
  timeout 60 "$ddlrun" $how -np 1 sh -c 'echo half >"$DDL_REPORT.ddl-$$"; echo more >"$DDL_REPORT.1"; kill -9 $$' >out 2>err </dev/null
  ls r.json.ddl-* >out 2>/dev/null && fail "an unfinished report is left behind: $how"
  [ -e r.json.1 ] || fail "a file of the program's is gone: $how"
done

# A report that goes to a terminal, which is not read back.
script -qec "timeout 60 $ddlrun -np 2 --report /dev/tty $bench -m 4" /dev/null </dev/null >out 2>err || fail "a report to a terminal: exit $?"
grep -q '^ddlrun: engine: not known here, the report went to /dev/tty' out && grep -q '"MPI_Allreduce"' out || fail "a report to a terminal"

# A job that dies, and one that is interrupted, with what it had done until then.
line 137 '[0-9]* of [0-9]* MPI_Allreduce calls of rank 0, .*; the job died (signal 9), up to 2 s before that' --report dead.json \
  -np 2 sh -c 'n=$RANK; "$@" & sleep 4; [ $n = 1 ] && kill -9 $!; wait $!' sh "$bench" -m 64k:64k -i 1000000
grep -q '"complete": false' dead.json || fail "no partial report"
: >out # what stands there shows the rank's start below
timeout 60 "$ddlrun" -v -np 2 "$bench" -m 64k:64k -i 1000000 >out 2>err &
launcher=$!
for _ in $(seq 100); do grep -q 'median us' out && break; sleep 0.1; done
kill -INT "$(ps -o pid= --ppid $launcher)"
wait $launcher
grep -q '^ddlrun: engine: .*the job was interrupted (signal 2)' err || fail "an interrupted job is not told as that"
mkdir tmp
TMPDIR=$work/tmp line 5 'not used, because nothing that sh started was seen to use MPI, NCCL or gloo; the job failed (exit code 5)' -v -np 1 sh -c 'exit 5'
ls -d tmp/ddlrun-* >out 2>/dev/null && fail "a report of our own is left behind"

# Both ways, side by side.
timeout 100 "$ddlrun" --compare -np 2 "$bench" -m 4k -f 32 >out 2>err </dev/null || fail "--compare: exit $?"
for text in '^--- comparison, medians of 3 and 4 runs' '^wall time  *[0-9.]* s  *[0-9.]* s  *[0-9.]*$' '^  without the start ' \
  '^  in all-reduces ' '^ratio  *[0-9]' '^ *4096  *[0-9.]*  *[0-9.]*  *[0-9.]*$' '^check line    the same: check: 3 sizes'; do
  grep -q -e "$text" out || fail "--compare prints no '$text'"
done
grep -q '^ddlrun: engine: .* of 900 MPI_Allreduce' err || fail "--compare does not say what the engine did"
timeout 100 "$ddlrun" --compare -np 2 sh -c 'echo "check: $RANK of $WORLD_SIZE" >>ranks' >out 2>err </dev/null || fail "--compare"
[ "$(sort -u ranks)" = "check: 0 of 2
check: 1 of 2" ] || fail "the plain side lacks RANK and WORLD_SIZE"
timeout 60 "$ddlrun" --compare -np 1 sleep 30 >out 2>err </dev/null &
launcher=$!
sleep 2
kill -INT "$(ps -o pid= --ppid $launcher)"
wait $launcher
[ $? -ne 0 ] && grep -q 'the comparison was interrupted (signal 2)' err || fail "--compare takes an interrupt for a failure"

[ $failures = 0 ] && echo "all good"
[ $failures = 0 ]
