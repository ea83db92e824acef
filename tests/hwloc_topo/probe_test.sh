#!/bin/bash
# ddl-probe as a program: JSON and pictures of a described machine, its exit codes, and PMIx's side under mpirun.
# Arguments: ddl-probe, mpirun.
set -u
probe=$1 mpirun=$2
machines=$(cd "$(dirname "$0")/machines" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

check() {  # name, then a command that must succeed
  local name=$1
  shift
  if "$@" >"$work/check" 2>&1; then
    echo "ok      $name"
  else
    echo "FAILED  $name: $*"
    sed 's/^/        /' "$work/check"
    failed=1
  fi
}
is() { [ "$1" = "$2" ]; }
is_valid_json() { python3 -m json.tool <"$1"; }
is_valid_xml() { python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"; }
lines_on() { wc -l <"$1"; }

"$probe" >"$work/here.json" 2>"$work/err"
check "exit code 0 for this host" is $? 0
check "JSON of this host" is_valid_json "$work/here.json"
check "nothing on standard error" is "$(lines_on "$work/err")" 0

export HWLOC_XMLFILE=$machines/four_gpus_nvlink.xml
"$probe" --text --svg "$work/machine.svg" >"$work/machine.txt"
check "the text shows an NVLink pair" grep -q 'gpu2═gpu3' "$work/machine.txt"
check "the SVG is XML" is_valid_xml "$work/machine.svg"
check "the SVG shows the GPUs" grep -q '>gpu3<' "$work/machine.svg"

HWLOC_XMLFILE=/nonexistent/machine.xml "$probe" >"$work/out" 2>"$work/err"
check "exit code 2 for a machine file that is not there" is $? 2
check "one line about it" is "$(lines_on "$work/err")" 1
"$probe" --unknown >"$work/out" 2>"$work/err"
check "exit code 2 for an unknown option" is $? 2
check "one line about the option" is "$(lines_on "$work/err")" 1
"$probe" --svg /nonexistent/folder/x.svg >"$work/out" 2>"$work/err"
check "exit code 2 for a file that cannot be written" is $? 2
unset HWLOC_XMLFILE

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$mpirun" --oversubscribe -np 2 sh -c '"$0" --job >"$1/$OMPI_COMM_WORLD_RANK.json"' "$probe" "$work"
check "exit code 0 under mpirun" is $? 0
check "PMIx tells the ranks and their host" python3 - "$work/1.json" <<'PYTHON'
import json, sys
answer = json.load(open(sys.argv[1]))
job, node = answer["job"], answer["node"]
assert job["in_job"] and job["rank"] == 1 and job["size"] == 2, job
assert job["local_peers"] == [0, 1], job
assert [r["host"] for r in job["ranks"]] == job["hosts"] * 2, job
assert job["topology"] or job["notes"], job
assert node["cores"], node
PYTHON
exit $failed
