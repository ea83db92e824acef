#!/bin/bash
# ddl.h as a program outside the tree meets it: from an installed prefix. `api.sh CASE BUILD_DIR SOURCE_DIR`
set -uo pipefail
case=$1 build=$2 source=$3
prefix=$build/tests/api-prefix client=$build/tests/api-prefix/client
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
fail() { echo "FAILED: $*"; [ -e "$work/log" ] && cat "$work/log"; exit 1; }
ddlrun() { timeout 100 "$prefix/bin/ddlrun" -s --oversubscribe "$@"; }
free_port() { "$source/tests/support/free_port"; }

# Runs `size` processes of a command as torchrun starts them, without MPI and PMIx; the exit code is the worst.
by_variables() {
  local size=$1 port=$2 worst=0 pids=() code
  shift 2
  for ((rank = size - 1; rank >= 0; --rank)); do
    RANK=$rank WORLD_SIZE=$size MASTER_ADDR=localhost MASTER_PORT=$port timeout 100 "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
    code=$?
    [ "$code" -gt "$worst" ] && worst=$code
  done
  return "$worst"
}

case $case in
  install)
    rm -rf "$prefix"
    cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || fail "does not install"
    cc -Wall -Wextra -Werror -std=c11 "$source"/tests/api/*.c -o "$client" $(pkg-config --cflags --libs ddl) \
      >"$work/log" 2>&1 || fail "pkg-config"
    for library in libddl.so libddl_shim.so libddl_mpi.so libddl_nccl.so; do
      [ -e "$prefix/lib/$library" ] || continue
      readelf -S "$prefix/lib/$library" | grep -qE '\.(symtab|debug_info)' && fail "$library is not stripped"
    done
    echo '#include <ddl.h>
      int main() { ddl_init_options options = DDL_INIT_OPTIONS; ddl_call call = DDL_CALL;
                   return options.size == 0 || call.size == 0; }' >"$work/in_cpp.cpp"
    c++ -Wall -Wextra -Werror -std=c++17 "$work/in_cpp.cpp" -o "$work/in_cpp" $(pkg-config --cflags --libs ddl) \
      >"$work/log" 2>&1 && "$work/in_cpp" || fail "C++"
    ;;
  ddlrun)
    for hosts in 4 2,1,1; do ddlrun -x DDL_FAKE_HOSTS=$hosts -np 4 "$client" job >"$work/log" 2>&1 || fail "$hosts: exit $?"; done
    ;;
  mpirun) timeout 100 mpirun --oversubscribe -np 3 "$client" job >"$work/log" 2>&1 || fail "exit $?" ;;
  variables)
    by_variables 3 "$(free_port)" "$client" job >"$work/log" 2>&1 || fail "exit $?"
    by_variables 1 "$(free_port)" "$client" job >"$work/log" 2>&1 || fail "one rank: exit $?"
    ;;
  gradients)
    ddlrun -x DDL_FAKE_HOSTS=2,2 -np 4 "$client" gradients in_part >"$work/log" 2>&1 || fail "two hosts: exit $?"
    ddlrun -np 3 "$client" gradients >"$work/log" 2>&1 || fail "one host: exit $?"
    by_variables 1 "$(free_port)" "$client" gradients >"$work/log" 2>&1 || fail "one rank: exit $?"
    ;;
  refusals) timeout 100 "$client" refusals >"$work/log" 2>&1 || fail "exit $?" ;;
  mismatch | lost_request | no_memory) ddlrun -np 2 "$client" "$case" >"$work/log" 2>&1 || fail "exit $?" ;;
  dead_peer)
    by_variables 3 "$(free_port)" "$client" dead_peer >"$work/log" 2>&1 || fail "exit $?"
    DDL_FAKE_HOSTS=2,1 by_variables 3 "$(free_port)" "$client" dead_peer >"$work/log" 2>&1 || fail "wire: exit $?"
    ;;
  launch_errors)
    refused() {  # words, variables...
      local words=$1 got
      shift
      got=$(env "$@" timeout 60 "$client" init 2>&1)
      [ $? -eq 13 ] && [[ $got == *$words* ]] && [ "$(wc -l <<<"$got")" = 1 ] || fail "'$*' says: $got"
    }
    refused "RANK is not set"
    refused "WORLD_SIZE is not set" RANK=0
    refused "MASTER_ADDR is not set" RANK=0 WORLD_SIZE=2
    refused "RANK=two is not a number" RANK=two WORLD_SIZE=2 MASTER_ADDR=localhost
    refused "rank 2 of 2" RANK=2 WORLD_SIZE=2 MASTER_ADDR=localhost
    refused "MASTER_PORT=99999" RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=99999
    refused "no.such.host.invalid" RANK=1 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid
    refused "DDL_STAGING_BYTES=lots" RANK=0 WORLD_SIZE=1 DDL_STAGING_BYTES=lots
    refused "DDL_ENABLE=0" RANK=0 WORLD_SIZE=1 DDL_ENABLE=0
    refused "rank 1" RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost DDL_TIMEOUT=1 DDL_PORT="$(free_port)"
    refused "localhost" RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost DDL_TIMEOUT=1 DDL_PORT="$(free_port)"
    port=$(free_port)
    python3 -c "import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as connections may have ended there
s.bind(('', $port)); s.listen(); time.sleep(20)" &
    holder=$!
    sleep 0.5
    refused "port $port" RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost DDL_PORT="$port"
    kill "$holder"
    # A rank that comes twice is refused, the job goes on without it.
    port=$(free_port)
    export WORLD_SIZE=2 MASTER_ADDR=localhost DDL_PORT=$port DDL_TIMEOUT=20
    RANK=1 "$client" init >"$work/one" &
    one=$!
    (sleep 2; RANK=0 "$client" init >"$work/zero") &
    zero=$!
    RANK=1 timeout 60 "$client" init >"$work/two"
    two=$?
    wait "$one"
    one=$?
    wait "$zero" || fail "the job did not go on: $(cat "$work/zero")"
    [ $((one + two)) -eq 13 ] || fail "rank 1 twice: exit $one and $two"
    grep -q "rank 1" "$work/one" "$work/two" || fail "rank 1 twice: $(cat "$work/one" "$work/two")"
    ;;
  report)
    ddlrun -x DDL_REPORT="$work/report.json" -np 2 "$client" job >"$work/log" 2>&1 || fail "exit $?"
    python3 - "$work/report.json" <<'P' || fail "report"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["ranks"] == 2, report
assert "all-reduce" in json.dumps(report["collectives"]), report
P
    ;;
  killed)
    ddlrun --report "$work/report.json" -np 2 "$client" killed >"$work/log" 2>&1
    [ $? -eq 137 ] || fail "it was not killed"
    grep -q 'engine: [1-9][0-9]* of [1-9][0-9]* all-reduce calls of rank 0, .*; the job died (signal 9)' "$work/log" || fail "no line"
    grep -q '"complete": false' "$work/report.json" || fail "no partial report"
    ;;
  example_c)
    cmake -S "$source/examples/03_ddl_in_c" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
      cmake --build "$work/build" >>"$work/log" 2>&1 || fail "find_package"
    [[ $(ddlrun -np 3 "$work/build/pi" 2>&1) == "3 ranks: pi is 3.141592654, off by "* ]] || fail "pi"
    by_variables 2 "$(free_port)" "$work/build/pi" >"$work/log" 2>&1 || fail "variables: exit $?"
    ;;
  example_python)
    export DDL_LIBRARY=$prefix/lib/libddl.so
    ddlrun -np 2 /usr/bin/python3 -B "$source/examples/04_ddl_in_python/train.py" >"$work/log" 2>&1 || fail "exit $?"
    grep -q "step 300: .* % right" "$work/log" || fail "output"
    by_variables 3 "$(free_port)" /usr/bin/python3 -B "$source/examples/04_ddl_in_python/train.py" >"$work/log" 2>&1 ||
      fail "variables: exit $?"
    ;;
  hosts)
    "$source/tests/cluster/vcluster" --check || exit 77
    cat >"$work/run" <<S
timeout 100 "$prefix/bin/ddlrun" -np 8 -H h0:2,h1:2,h2:2,h3:2 "$client" job || exit 1
for rank in 1 2 3; do
  timeout 20 mpirun -np 1 -H h\$rank env -u PMIX_NAMESPACE RANK=\$rank WORLD_SIZE=4 MASTER_ADDR=h0 DDL_PORT=29700 "$client" job &
done
RANK=0 WORLD_SIZE=4 MASTER_ADDR=h0 DDL_PORT=29700 timeout 20 "$client" job || exit 1
wait
S
    timeout 200 "$source/tests/cluster/vcluster" --hosts 4 --rails 1 --rate none -- bash "$work/run" >"$work/log" 2>&1 ||
      fail "exit $?"
    ;;
  *) fail "no such case" ;;
esac
echo "$case: as it should be"
