#!/bin/bash
# Runs random collectives for minutes and checks each result, while the rails between hosts come, go and slow down; or
# kills and stops ranks of many short jobs at random moments. See docs/reliability.md.
#
#   scripts/soak.sh                  builds, then 10 minutes on four virtual hosts with two rails each; where these cannot
#                                    be made, on the ranks of one machine as three hosts, without faults
#   scripts/soak.sh --minutes N      so long
#   scripts/soak.sh --kills N        instead: N jobs of four ranks, each with ranks killed or stopped
#   scripts/soak.sh --kills N --hosts   on virtual hosts, whose rails are lost, slowed and silenced as well
#   scripts/soak.sh ... --build DIR  with what is built in DIR
#   scripts/soak.sh ... --seed N     the same random numbers again; --one-machine: no virtual hosts
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release is_built=
for ((i = 1; i <= $#; ++i)); do
  case "${!i}" in
    --build) next=$((i + 1)) build=${!next:?--build needs a folder} is_built=1 ;;
    --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done
if [ -z "$is_built" ]; then
  scripts/install_deps.sh
  cmake --preset release -Wno-dev
  cmake --build --preset release -j "$(nproc)"
  set -- --build "$build" "$@"
fi
if [ "$(id -u)" -eq 0 ]; then  # Open MPI asks root twice
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
exec python3 -B scripts/soak.py "$@"
