#!/bin/sh
# same_line.sh TIMES PREFIX command...: runs the command that often; the line that starts with PREFIX must be there and
# the same every time.
times=$1 prefix=$2
shift 2
first=
for run in $(seq "$times"); do
  output=$("$@" 2>&1) || { printf '%s\n' "$output"; echo "run $run failed" >&2; exit 1; }
  line=$(printf '%s\n' "$output" | grep "^$prefix") || { printf '%s\n' "$output"; echo "no '$prefix' line" >&2; exit 1; }
  [ -n "$first" ] || first=$line
  [ "$line" = "$first" ] || { echo "run $run: '$line', before: '$first'" >&2; exit 1; }
done
echo "$times runs: $first"
