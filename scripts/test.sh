#!/bin/bash
# Installs what is needed, builds and runs every test: all of them in the release build, the unit tests again under
# address + undefined and under thread sanitizers. Ends with a summary; the exit code is 0 only if everything passed.
# What cannot run on this machine is skipped and named. DDL_TEST_PRESETS="release" runs less; --frameworks also trains with
# Horovod and, where scripts/install_frameworks.sh has made its environment, PyTorch 2.15.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
case "${1-}" in
  '' | --frameworks) frameworks=${1-} ;;
  *) echo "test: error: unknown option $1; known: --frameworks" >&2; exit 2 ;;
esac

presets=${DDL_TEST_PRESETS:-release asan tsan}
jobs=$(nproc)
logs=build/test-logs
mkdir -p "$logs"
summary=()
failed=0

note() { summary+=("$(printf '%-8s %-8s %s' "$1" "$2" "$3")"); }

# GCC's thread sanitizer cannot live with the address randomisation of newer kernels.
without_randomisation() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

build() {  # preset
  cmake --preset "$1" -Wno-dev && without_randomisation cmake --build --preset "$1" -j "$jobs"
}

build_all() {  # presets; for each its log, and a file that says how it ended
  for preset; do
    kill -0 $$ || return  # nobody waits any more
    build "$preset" >"$logs/$preset-build.log" 2>&1
    echo $? >"$logs/$preset-built"
    # Tests wait a fifth of their time: the others are built with what they leave of the processors.
    chrt --idle --pid 0 "$BASHPID" 2>/dev/null || renice -n 19 "$BASHPID" >/dev/null
  done
}

run_preset() {  # preset
  local preset=$1 log="$logs/$1.log" start=$SECONDS result=passed
  echo "== $preset: build"
  until [ -e "$logs/$preset-built" ] || ! kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
  if [ "$(cat "$logs/$preset-built")" != 0 ]; then
    tail -n 40 "$logs/$preset-build.log"
    note "$preset" FAILED "does not build (see $logs/$preset-build.log)"
    failed=1
    return
  fi
  echo "== $preset: built in $((SECONDS - start)) s; tests"
  without_randomisation ctest --preset "$preset" --output-on-failure 2>&1 | tee "$log"
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    result=FAILED
    failed=1
  fi
  note "$preset" "$result" "$(grep 'tests passed' "$log" | tail -n 1), $(grep -c '\*\*\*Skipped' "$log") skipped, $((SECONDS - start)) s"
  while read -r test; do note '' '' "skipped: $test"; done \
    < <(sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$log")
}

# Open MPI's jobs share a folder, which the last one to end removes while two others, that begin, find it gone and
# make it again: one of these fails. It stays while it has a file like those with a job's output.
keep_session_folder() {
  local folder
  folder=${TMPDIR:-/tmp}/ompi.${HOSTNAME%%.*}.$(id -u)
  mkdir -p -m 700 "$folder" && mktemp "$folder/output-XXXXXX"
}

./scripts/install_deps.sh || exit 1
started=$SECONDS
kept=$(keep_session_folder) && echo tests >"$kept" && trap 'rm -f "$kept"' EXIT
rm -f "$logs"/*-built
build_all $presets &
builder=$!
for preset in $presets; do run_preset "$preset"; done
if [ "$frameworks" ]; then
  log=$logs/frameworks.log
  ctest --test-dir build/release -L frameworks --output-on-failure 2>&1 | tee "$log"
  result=passed
  [ "${PIPESTATUS[0]}" -eq 0 ] || { result=FAILED; failed=1; }
  note frameworks "$result" "$(grep 'tests passed' "$log" | tail -n 1), $(grep -c '\*\*\*Skipped' "$log") skipped"
else
  note '' '' "not run: Horovod with PyTorch and with TensorFlow, PyTorch 2.15 (--frameworks)"
fi

echo
echo "== summary ($((SECONDS - started)) s)"
printf '%s\n' "${summary[@]}"
virtual_hosts=$(tests/cluster/vcluster --check 2>&1) || echo "virtual hosts: $virtual_hosts"
[ -e /dev/nvidia0 ] || echo "GPUs: none here; nothing that needs one was run"
[ "$failed" -eq 0 ] && echo "all tests passed" || echo "SOME TESTS FAILED"
exit "$failed"
