#!/bin/sh
# ddlrun with the real mpirun: ddlrun_test.sh DDLRUN FOLDER_OF_TEST_PROGRAMS FOLDER_OF_MACHINES. Every check prints one line only when it fails.
ddlrun=$1 programs=$2 machines=$3
work=$(mktemp -d /tmp/ddlrun-test-XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
mark=300.$$  # an odd number of seconds, to find our own sleepers again
failures=0

"$ddlrun" -v -np 1 true >probe.out 2>&1
if grep -q "no mpirun is on PATH\|is not Open MPI" probe.out; then
  echo "skipped: no mpirun of Open MPI here"
  exit 77
fi

fail() {
  failures=$((failures + 1))
  echo "FAILED: $1"
  sed 's/^/    /' out err 2>/dev/null | head -20
}

# run CODE words...: runs ddlrun with the words; its streams are in out and err.
run() {
  want=$1
  shift
  timeout 60 "$ddlrun" "$@" >out 2>err </dev/null
  got=$?
  [ $got -eq "$want" ] || fail "exit code $got instead of $want: ddlrun $*"
}

# refused CODE TEXT words...: one error line with TEXT, and nothing on standard output.
refused() {
  text=$2
  code=$1
  shift 2
  run "$code" "$@"
  [ "$(grep -c '^ddlrun: error:' err)" = 1 ] || fail "not exactly one error line: ddlrun $*"
  [ "$(wc -l <err)" = 1 ] || fail "more than one line: ddlrun $*"
  [ ! -s out ] || fail "something on standard output: ddlrun $*"
  grep -q -e "$text" err || fail "no '$text' in the message: ddlrun $*"
}

# ---- the program's own exit code, output, input ----------------------------------------------------------------
run 0 -np 2 sh -c 'echo rank $RANK of $WORLD_SIZE, here $LOCAL_RANK of $LOCAL_WORLD_SIZE'
[ "$(sort out)" = "rank 0 of 2, here 0 of 2
rank 1 of 2, here 1 of 2" ] || fail "the rank variables"
(
  export RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_PORT=29999
  run 0 -v -np 2 sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_PORT'
  [ "$(sort out)" = "0/2 0/2 29999
1/2 1/2 29999" ] || fail "rank variables that another job left"
  [ "$(grep -c 'found in the environment: WORLD_SIZE=1 becomes 2, .*MASTER_PORT=29999 stays' err)" = 1 ] ||
    fail "-v does not say what another job left"
  [ $failures = 0 ]
) || failures=$((failures + 1))
run 5 -np 2 sh -c 'exit 5'
run 139 -np 1 sh -c 'kill -SEGV $$'
# As a daemon may start it; timeout would undo that.
sh -c 'trap "" CHLD; exec "$@"' sh "$ddlrun" -np 1 sh -c 'exit 5' >out 2>err </dev/null
[ $? = 5 ] || fail "the exit code where SIGCHLD is ignored"
run 0 -np 1 -H localhost, true
run 0 -np 1 true :
TMPDIR=$work/nowhere run 0 -v -np 1 true
grep -q '^ddlrun: engine: not used, because nothing that true started' err || fail "a TMPDIR that is not there"
: >empty && printf '\177ELF of another machine' >foreign && printf 'exit 5\n' >script && chmod +x empty foreign script
run 126 -np 1 ./empty
run 126 -np 1 ./foreign
run 5 -np 1 ./script
run 0 -np 2 sh -c '[ -n "$MASTER_ADDR" ] && [ "$MASTER_PORT" -ge 10000 ] && [ "$MASTER_PORT" -lt 32000 ]'
printf 'one\ntwo\n' | "$ddlrun" -np 2 sh -c '[ $RANK = 0 ] && cat; exit 0' >out 2>err
[ "$(cat out)" = "one
two" ] || fail "standard input goes to rank 0"
run 0 -np 1 printf '%s|' 'a b' '' "it's" '$HOME' --np 7
[ "$(cat out)" = "a b||it's|\$HOME|--np|7|" ] || fail "arguments arrive unchanged"
mkdir sub
printf '#!/bin/sh\necho found in $(basename "$PWD")\n' >sub/local-program
chmod +x sub/local-program
run 0 -wdir "$work/sub" -np 1 local-program
[ "$(cat out)" = "found in sub" ] || fail "a program in the working directory"
mkdir -p real/inner && ln -s real/inner link
printf '#!/bin/sh\necho $0\n' >real/named && chmod +x real/named
for name in ./real/named link/../named; do
  run 0 -np 1 $name
  [ "$(cat out)" = $name ] || fail "a script is not called as the user wrote it"
done
run 0 -np 1 sh -c 'echo first' : -np 1 -x WORD=second sh -c 'echo $WORD'
[ "$(sort out)" = "first
second" ] || fail "several programs"

# ---- mpirun's options are passed on ----------------------------------------------------------------------------
run 0 --bind-to none --map-by slot -wdir /tmp -x "A=b c;d" --mca btl self,vader,tcp -np 2 sh -c 'echo "$PWD $A"'
[ "$(sort -u out)" = "/tmp b c;d" ] || fail "options of mpirun"
run 0 -tag-output -np 1 echo hello
grep -q 'stdout>:hello' out || fail "-tag-output"
run 0 --mpiarg "-x B='x y'" -np 1 sh -c 'echo "$B"'
[ "$(cat out)" = "x y" ] || fail "--mpiarg"
run 0 -np 1 nproc
[ "$(cat out)" = "$(nproc)" ] || fail "a rank is squeezed onto $(cat out) of $(nproc) cores"

# ---- what the ranks get ----------------------------------------------------------------------------------------
shim=$(dirname "$(dirname "$ddlrun")")/lib/libddl_shim.so
run 0 -np 1 sh -c 'echo "$LD_PRELOAD"'
if [ -e "$shim" ]; then
  [ "$(cat out)" = "$shim" ] || fail "the shim is not preloaded"
else
  [ "$(grep -c 'libddl_shim.so is missing' err)" = 1 ] || fail "no warning about the missing shim"
fi
run 0 -m b:1 -np 1 sh -c 'echo "$DDL_OPTIONS"'
[ "$(cat out)" = "-mode b:1" ] || fail "-m"

# ---- GPUs and NCCL ---------------------------------------------------------------------------------------------
(
  unset CUDA_VISIBLE_DEVICES
  run 0 --accelerators 2 -v -np 2 sh -c 'echo "${CUDA_VISIBLE_DEVICES-unset}"'
  [ "$(sort -u out)" = unset ] || fail "CUDA_VISIBLE_DEVICES is set"
  for list in '2,0' ''; do
    export CUDA_VISIBLE_DEVICES="$list"
    run 0 --accelerators 2 -v -np 2 sh -c 'echo "<$CUDA_VISIBLE_DEVICES>"'
    [ "$(sort -u out)" = "<$list>" ] || fail "CUDA_VISIBLE_DEVICES=$list is changed"
  done
  [ $failures = 0 ]
) || failures=$((failures + 1))
run 0 --accelerators 3 sh -c 'echo $RANK'
[ "$(sort out | tr '\n' ' ')" = "0 1 2 " ] || fail "--accelerators alone"
run 0 --accelerators 3 -H localhost sh -c 'echo $RANK'
[ "$(sort out | tr '\n' ' ')" = "0 1 2 " ] || fail "--accelerators and -H without slots"
run 0 --accelerators 3 -H localhost:2 sh -c 'echo $RANK'
[ "$(sort out | tr '\n' ' ')" = "0 1 " ] || fail "--accelerators and -H with slots"
printf 'localhost slots=4\n' >hosts
run 0 --accelerators 3 --hostfile hosts sh -c 'echo $RANK'
[ "$(sort out | tr '\n' ' ')" = "0 1 2 " ] || fail "--accelerators and a hostfile"
run 0 --dry-run --accelerators 3 true
grep -q '^accelerators  3 on each host, with a rank for each$' out || fail "--accelerators in --dry-run"
grep -q '^+ mpirun .*-np 3 ' out || fail "the ranks of --accelerators in --dry-run"
if [ -x "$(dirname "$ddlrun")/ddl-probe" ]; then
  # Only the ranks' side is told of the described machine: mpirun would bind to its cores.
  unset CUDA_VISIBLE_DEVICES
  gpus="-x HWLOC_XMLFILE=$machines/four_gpus_nvlink.xml"
  run 0 $gpus -v -np 5 true
  [ "$(grep -c 'ddl-exec: 5 ranks share 4 GPUs on host .*: the engine serves' err)" = 1 ] || fail "shared GPUs, -v"
  run 0 $gpus --accelerators 5 true
  [ "$(grep -c '5 ranks share 4 GPUs' err)" = 1 ] || fail "shared GPUs, --accelerators"
  run 0 $gpus -np 5 "$programs/launcher_nccl_outside"
  [ "$(grep -c '5 ranks share 4 GPUs' err)" = 1 ] || fail "shared GPUs, a program that calls NCCL"
  run 0 $gpus -np 5 true
  [ ! -s err ] || fail "a program without GPUs is told of them"
  run 0 $gpus --accelerators 4 true
  [ ! -s err ] || fail "a GPU for each rank is told"
  HWLOC_XMLFILE=$machines/four_gpus_nvlink.xml run 0 --dry-run -np 5 true
  grep -q '^GPUs          5 ranks share 4 GPUs' out || fail "shared GPUs in --dry-run"
fi
run 0 -np 2 "$programs/launcher_nccl_inside"
[ "$(grep -c '^ddlrun: warning: .*launcher_nccl_inside contains NCCL .*USE_SYSTEM_NCCL=1$' err)" = 1 ] ||
  fail "NCCL inside a program is not named once"
for kind in outside stripped; do
  run 0 -np 2 "$programs/launcher_nccl_$kind"
  ! grep -q 'contains NCCL' err || fail "NCCL is said to be inside launcher_nccl_$kind"
done
run 0 -np 2 "$programs/launcher_mpi_inside"
[ "$(grep -c '^ddlrun: warning: .*launcher_mpi_inside contains MPI .*libmpi.so$' err)" = 1 ] ||
  fail "MPI inside a program is not named once"
[ "$(wc -l <err)" = 1 ] || fail "more than one line about MPI inside a program"
run 0 -np 2 "$programs/launcher_mpi_tool"
[ ! -s err ] || fail "a tool's functions are taken for MPI"
refused 2 '--accelerators 0' --accelerators 0 true
refused 2 '--accelerators x' --accelerators x -np 1 true

# ---- binding ---------------------------------------------------------------------------------------------------
# A rank that is bound says so as mpirun says it, which MPI_Init asks for; others do not.
say='echo "bound: $OMPI_MCA_orte_bound_at_launch"'
run 0 --report-bindings -np 1 sh -c "$say"
grep -q 'rank 0 on .* is bound to CPUs' err && [ "$(cat out)" = "bound: 1" ] || fail "a bound rank is not named so"
run 0 --bind-to none -np 1 sh -c "$say"
[ "$(cat out)" = "bound: " ] || fail "an unbound rank is named bound"

# ---- looking ---------------------------------------------------------------------------------------------------
run 0 --dry-run --bind-to none -np 2 sh -c 'touch started'
[ ! -e started ] || fail "--dry-run started the program"
[ "$(grep -c '^+ mpirun --bind-to none -np 2 .*ddl-exec .*-- sh -c .touch started.$' out)" = 1 ] || fail "--dry-run"
sed -n 's/^+ //p' out >again.sh
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh ./again.sh >out 2>err
[ -e started ] || fail "the printed command does not work in a shell"
run 0 --version
run 0 --help
[ "$(wc -l <out)" -le 80 ] || fail "--help is too long"
run 0 --help-env=markdown
run 0 --compare -np 1 sh -c 'echo check: 42'
grep -q 'the same: check: 42' out && grep -q '^ratio ' out || fail "--compare"
run 4 --compare -np 1 sh -c 'exit 4'
run 0 --report "$work/report.json" -np 1 true
grep -q 'no report was written' err || fail "a program without MPI and --report"

refused 2 'cannot be read' --hostfile /dev/zero true
mkdir folder
run 0 --topology=folder/t.svg true
[ -s folder/t.svg ] || fail "--topology=FILE.svg"
ln -s /dev/full folder/full.svg
refused 2 'No space left on device' --topology=folder/full.svg

# ---- bad input -------------------------------------------------------------------------------------------------
refused 2 "invalid dim size=12 usr_size=8 dim\[0\]=4 dim\[1\]=3" -np 8 -m b:4x3 true
refused 2 "invalid dim size=12 usr_size=6 dim\[0\]=4 dim\[1\]=3 .*fits: 2x3, 3x2, 6" -np 6 -H h0:2,h1:1,h2:3 -m b:4x3 true
refused 2 "dump_iter takes a number" -np 2 -ddlarg "-dump_iter x" true
refused 2 'oversubscribe' --overscribe -np 1 true
refused 2 '-np 0' -np 0 true
refused 2 '-np x' -np x true
refused 2 'no program' -np 2
refused 2 'h1:x' -H h1:x true
refused 2 "','" -H , true
refused 2 'h1::2' -H h1::2 true
refused 2 'cannot be read' --hostfile /nonexistent/hosts true
refused 2 '0|1' -x DDL_ENABLE=maybe true
refused 2 '3 hosts' -nodes 3 true
DDL_REPORT=/nonexistent/r.json refused 2 'report /nonexistent/r.json cannot be written' -np 1 true
refused 2 'tuning cache /nonexistent/t cannot be written' -x DDL_TUNE_CACHE=/nonexistent/t -np 1 true
refused 3 'the job is not started: .*not found' -np 1 no-such-program
(
  unset OMPI_MCA_rmaps_base_oversubscribe
  refused 2 '4096 ranks of true are more than the .* slots of this machine' -np 4096 true
  refused 2 '3 ranks of sh are more than the 2 slots of -H' -np 3 -H localhost:2 sh -c true
  [ $failures = 0 ]
) || failures=$((failures + 1))
echo 'print(1)' >script.py
refused 3 'write python3 script.py?' -np 1 script.py
DDL_VERBOSE=9 refused 2 'allowed: 0..3' -np 1 true
refused 2 'option of another launcher; .*-H' --nnodes 2 true
run 0 -n 2 -genv A 'x y' sh -c 'echo "$A"'
[ "$(sort -u out)" = "x y" ] || fail "-genv"
run 0 -ppn 2 sh -c 'echo $RANK'
[ "$(sort out | tr '\n' ' ')" = "0 1 " ] || fail "-ppn"
printf -- '-np 1 sh -c "echo one $RANK"\n-np 1 echo two\n' >apps
run 0 --app apps
[ "$(sort out | cut -c1-3 | tr '\n' ' ')" = "one two " ] || fail "--app"
printf 'localhost:2\n' >hosts
run 0 -f hosts -np 2 sh -c 'echo $RANK'
[ "$(sort out | tr '\n' ' ')" = "0 1 " ] || fail "localhost:2 in a hostfile"
SLURM_JOB_NODELIST='n[1-2]' run 0 -np 1 true
[ "$(grep -c 'no Slurm job' err)" = 1 ] || fail "a Slurm node list without a job"
run 3 -np 1 sh -c 'exit 3'
! grep -q '^ddlrun' err || fail "a program's exit code 3 looks like ours"
refused 3 'nosuchhost.invalid' -H nosuchhost.invalid:1 -np 1 true
DDL_ENABLE=maybe refused 2 'DDL_ENABLE=maybe' -np 1 true
PATH=/nonexistent "$ddlrun" -np 1 true >out 2>err
[ $? = 3 ] && grep -q 'no mpirun is on PATH' err || fail "no mpirun on PATH"
mkdir other
printf '#!/bin/sh\necho HYDRA build details:\n' >other/mpirun
chmod +x other/mpirun
PATH=$work/other "$ddlrun" -np 1 true >out 2>err
[ $? = 3 ] && grep -q 'not Open MPI' err || fail "another MPI's mpirun"
PATH=$work/other:$PATH "$ddlrun" -np 1 true >out 2>err || [ -z "$(command -v mpirun.openmpi)" ] ||
  fail "mpirun.openmpi is not taken in place of another MPI's mpirun"
(
  export DDL_STAGING_BITES=1
  run 0 -np 1 true
  [ "$(grep -c 'did you mean DDL_STAGING_BYTES' err)" = 1 ]
) || fail "an unknown variable warns with the nearest"

# ---- nothing is left behind ------------------------------------------------------------------------------------
"$ddlrun" -np 2 sh -c "sleep $mark" >out 2>err &
launcher=$!
sleep 1.5
kill -TERM $launcher
wait $launcher
[ $? -ne 0 ] || fail "a terminated job looks like success"
"$ddlrun" --report "$work/r.json" -np 2 sh -c "sleep $mark" >out 2>err &
launcher=$!
sleep 1.5
kill -KILL $launcher
wait $launcher 2>/dev/null
left=1
for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
  left=$(ps -eo args | grep -c "[s]leep $mark")
  [ "$left" = 0 ] && break
  sleep 0.5
done
[ "$left" = 0 ] || fail "$left processes were left running"

[ $failures = 0 ] && echo "all good"
[ $failures = 0 ]
