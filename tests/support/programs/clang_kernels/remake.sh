#!/bin/sh
# Rewrites the PTX of kernels.cu: apt-get install clang-22. Without contraction, like the oracle.
set -eu
cd "$(dirname "$0")"
make_one() { # name, architecture, flags
  name=$1 architecture=$2
  shift 2
  clang-22 -S "$@" -ffp-contract=off -x cuda --cuda-device-only -nocudainc -nocudalib \
    -fdebug-compilation-dir=. "-ffile-prefix-map=$PWD=." -fno-ident --cuda-feature=+ptx80 \
    --cuda-gpu-arch="$architecture" kernels.cu -o "$name.ptx"
}
make_one O0 sm_90 -O0
make_one O1g sm_80 -O1 -g
make_one O3 sm_90 -O3
