#!/bin/bash
# open_mpi_5.sh BUILD: jobs of Open MPI 5, most with the clients that were built for Open MPI 4: both have the same ABI.
# Fetches it once with pip (scripts/install_frameworks.sh). Exit code: 0 all is well, 1 it is not, 77 cannot run here.
set -uo pipefail
build=$(realpath "$1") here=$(dirname "$(realpath "$0")")
programs=$build/tests/bin shim=$build/lib/libddl_shim.so vcluster=$here/../cluster/vcluster
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
python=$("$here/../../scripts/install_frameworks.sh" openmpi5 2>"$work/log") ||
  { echo "open_mpi_5: skipped: $(tail -n 1 "$work/log")"; exit 77; }
PATH=$(dirname "$python"):$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
failures=0

# wants TEXT words...: succeeds, and says that.
wants() {
  local text=$1
  shift
  timeout 100 "$@" >"$work/log" 2>&1 </dev/null && { [ -z "$text" ] || grep -q -e "$text" "$work/log"; } && return
  failures=$((failures + 1))
  echo "FAILED: no '$text', or not exit code 0: $*"
  tail -n 20 "$work/log" | sed 's/^/    /'
}
on_hosts() { wants "$1" "$vcluster" --hosts 2 -- "${@:2}"; }

poison=$build/tests/lib/libddl_poison.so others=$build/tests/lib/libddl_poison_others.so
right='check: [1-9][0-9]* cases 0 failures'
wants 'Open MPI) 5' mpirun --version
wants "$right" "$build/bin/ddlrun" --oversubscribe -np 3 "$programs/allreduce_matrix"
poisoned=(mpirun --oversubscribe -np 3 -x "LD_PRELOAD=$shim:$poison:$others")
wants "$right" "${poisoned[@]}" "$programs/collective_matrix" --only-eligible
wants "$right" "${poisoned[@]}" -x DDL_FAKE_HOSTS=2,1 "$programs/vector_matrix"
# It has these by the names of MPI 4.
wants '' mpicc -o "$work/persistent" "$here/persistent.c" -ldl
wants "$right" "$build/bin/ddlrun" --oversubscribe -np 3 "$work/persistent"
# A process without an MPI library talks to its PMIx.
wants '' "$build/bin/ddlrun" -s --oversubscribe -np 3 "$build/tests/api-prefix/client" job

if ! "$vcluster" --check >/dev/null; then
  echo "open_mpi_5: not between hosts, which cannot be made here"
  exit $((failures > 0))
fi
on_hosts "$right" mpirun -x "LD_PRELOAD=$shim:$poison" -np 4 -H h0:2,h1:2 "$programs/allreduce_matrix" --only-eligible
# A rank without the engine is seen by all, on its own host and on others, and disturbs nothing.
on_hosts 'warning: .* rank 3 did not load the engine' mpirun -np 4 -H h0:2,h1:2 sh -c \
  "[ \$PMIX_RANK = 3 ] || export LD_PRELOAD=$shim; exec $programs/allreduce_matrix"
exit $((failures > 0))
