#!/bin/bash
# Installs what is needed to build ddlrun, to test it and to run its demo: Debian 12 or Ubuntu packages, nothing else.
# Needs root or sudo only if something is missing; a second run takes a second. --with-nvcc also fetches CUDA's compiler
# with pip into build/nvcc, for the device kernels, unless there is one; where that fails they are not built, and nothing else.
set -euo pipefail

get_nvcc() {
  local folder
  folder=$(dirname "$0")/../build/nvcc
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || [ -x "$folder/nvidia/cu13/bin/nvcc" ]; then
    echo "install_deps: nvcc is here"
    return
  fi
  echo "install_deps: fetching nvcc 13.0 into build/nvcc"
  python3 -m pip install -q --no-deps --target "$folder" nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* \
    nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.* && return
  rm -rf "$folder"
  echo "install_deps: no nvcc (pip failed); ddlrun is built without device kernels" >&2
}

case "${1-}" in
  '') with_nvcc= ;;
  --with-nvcc) with_nvcc=1 ;;
  *) echo "install_deps: error: unknown option $1; known: --with-nvcc" >&2; exit 2 ;;
esac
finish() {
  if [ "$with_nvcc" ]; then get_nvcc; fi
  exit 0
}

packages=(
  # build
  ca-certificates git cmake ninja-build g++ pkg-config
  libopenmpi-dev libpmix-dev libhwloc-dev libucx-dev
  libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  # run: hwloc finds PCI devices with a plugin; mpirun reaches other hosts with ssh
  openmpi-bin libhwloc-plugins openssh-client
  # simulated clusters
  libsimgrid-dev
  # tests: virtual hosts, system calls, Fortran programs, C++ programs over gloo
  iproute2 util-linux strace python3 gfortran libgloo-dev
  # mpi4py's tests and the training example: PyTorch on a data set that scikit-learn carries
  python3-mpi4py python3-numpy python3-torch python3-sklearn
)

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_deps: this is not Debian or Ubuntu (no apt-get); install what these packages hold by hand:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -x installed | head -n 1 || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
  echo "install_deps: all ${#packages[@]} packages are here"
  finish
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps: error: cannot install ${missing[*]} (neither root nor sudo); run this script as root" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install_deps: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
"${apt[@]}" update
"${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null
echo "install_deps: done"
finish
