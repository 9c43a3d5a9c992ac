#!/usr/bin/env bash
# Copies what belongs to the package to .build/stage/regatta, or to the folder that is named: R CMD build copies
# the whole folder it is given before it drops anything, and objects compiled for another purpose must not come along.
set -euo pipefail
stage=${1:-.build/stage/regatta}
rm -rf "$stage"
mkdir -p "$stage"
tar -cf - --exclude=./.git --exclude=./.lib --exclude=./.build \
  --exclude='*.o' --exclude='*.so' --exclude=./src/regatta-h5-try . |
  tar -xf - -C "$stage"
printf '%s\n' "$stage"
