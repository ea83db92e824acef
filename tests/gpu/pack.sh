#!/usr/bin/env bash
# pack.sh BUILD DIR: what tests/gpu/all.sh needs on a machine with a GPU and nothing else of ours: stripped libraries and programs, and scripts.
set -eu
build=$1 to=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$to"
mkdir -p "$to/lib" "$to/bin" "$to/clients" "$to/scripts"
for library in "$build"/lib/libddl*.so; do strip -o "$to/lib/${library##*/}" "$library"; done
for program in ddlrun ddl-exec ddl-probe; do strip -o "$to/bin/$program" "$build/bin/$program"; done
for program in nccl_plugin_host gpu_limits; do strip -o "$to/bin/$program" "$build/tests/bin/$program"; done
strip -o "$to/clients/libnccl_stream_gpu.so" "$build/tests/lib/libnccl_stream_gpu.so"
cp "$here"/*.sh "$here"/*.py "$to/scripts"
du -sh "$to"
