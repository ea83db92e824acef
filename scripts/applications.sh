#!/bin/bash
# Programs of Debian's that use MPI, with plain mpirun and with ddlrun, alternating: whether their answers are the same,
# which share of their collective calls the engine takes, and the wall times. Prints the table of docs/applications.md.
#
#   scripts/applications.sh --install           installs the programs (1.5 GB; no other script needs them)
#   scripts/applications.sh                     runs all that are installed, on 2 ranks, three times
#   scripts/applications.sh --only lammps,examl --ranks 4 --runs 5 --build build/release
#   scripts/applications.sh --fake-hosts 2,2    the ranks as those of two hosts, for the answers: times then say little
#   tests/cluster/vcluster --hosts 2 --rails 1 --rate 1gbit -- scripts/applications.sh --ranks 4 --words "-H h0:2,h1:2"
set -euo pipefail
if [ "${1:-}" = --help ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  exit 0
fi
if [ "${1:-}" = --install ]; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  exec "${as_root[@]}" apt-get install -y --no-install-recommends quantum-espresso cp2k nwchem-openmpi lammps gromacs \
    hpcc examl scalapack-mpi-test
fi
exec /usr/bin/python3 "$(dirname "$0")/applications_table.py" "$@"
