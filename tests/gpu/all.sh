#!/usr/bin/env bash
# all.sh PACKED OUT [CASE[:SECONDS]...]: runs cases of gpu.sh from what pack.sh made, each for so long (100 s unless told) and into
# a file OUT/CASE of its own, one after the other; those joined by + at once. What fails stops nothing. Says of each how it ended
# when it does; OUT/all has what all have said until then, for whoever gets few files or ends this before its time.
# Without cases all, what matters most first: eight to nine minutes on an H200 with 16 cores.
set -u
packed=$(cd "$1" && pwd) out=$2
shift 2
[ $# -gt 0 ] || set -- cases:60+ddp:90+refused:70 measure:30 measure_host:30 steps mps limits:100 collectives+torch_graph+graph \
  accuracy:40+faults+cupy+mpi bits:150 overhead:40 behind:60 sanitizer+one_by_one sweep:150 staging:60
mkdir -p "$out"

one() {  # CASE:SECONDS
  local name=${1%%:*} limit=100 began=$SECONDS
  [ "$name" = "$1" ] || limit=${1#*:}
  timeout -k 5 "$limit" "$packed/scripts/gpu.sh" "$name" "$packed/lib" "$packed/bin" "$packed/clients" >"$out/$name" 2>&1 </dev/null
  echo "$name: exit $?, $((SECONDS - began)) s" | tee -a "$out/summary"
  { echo "== $name"; cat "$out/$name"; } >>"$out/all"
}

for group; do
  for name in ${group//+/ }; do one "$name" & done
  wait
done
echo "== summary"
cat "$out/summary"
