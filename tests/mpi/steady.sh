#!/usr/bin/env bash
# steady.sh DDLRUN PROGRAM: small all-reduces within a host ask the kernel for nothing once everything is settled: what
# strace counts does not grow with the number of calls (but where a rank loses its core and the other goes to sleep).
set -u
ddlrun=$1 program=$2
command -v strace >/dev/null || { echo "no strace"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strace -o "$work/trial" true 2>/dev/null || { echo "strace may not trace here"; exit 77; }

# System calls of all ranks together, of so many all-reduces.
count() {
  "$ddlrun" -np 2 bash -c "exec strace -f -c -o $work/$1.\$OMPI_COMM_WORLD_RANK $program $1" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; exit 1; }
  awk '$NF == "total" { all += $4 } END { print all }' "$work/$1".*
}

few=$(count 5000) many=$(count 55000)
echo "system calls: $few of 5000 all-reduces, $many of 55000"
[ -n "$few" ] && [ -n "$many" ] && [ $((many - few)) -lt 5000 ]
