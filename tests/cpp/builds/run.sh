#!/usr/bin/env bash
# Compiles one source in the ways that packages are compiled, and lets the shared objects work in one
# process:  builds/run.sh INCLUDE_DIR OUT_DIR [FLAG...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
include=$1 out=$2
flags=("${@:3}")
mkdir -p "$out"
# Another release of the headers.
rm -rf "$out/release"
cp -r "$include" "$out/release"
sed -i 's/^#define REGATTA_VERSION_MINOR .*/#define REGATTA_VERSION_MINOR 99/' \
  "$out/release/regatta/core/config.hpp"

part=../../testthat/threads-package/src/part.cpp
objects=()
# build NAME COMPILER FLAG...
build() {
  local name=$1 compiler=$2
  shift 2
  if ! command -v "${compiler##* }" >/dev/null; then
    echo "skipped: $name, $compiler is not installed"
    return
  fi
  $compiler -std=c++11 -O1 -shared -fPIC -pthread "${flags[@]}" "$@" "-I$include" "$part" \
    -o "$out/$name.so" -ldl
  objects+=("$out/$name.so")
}

# Where the rest is compiled by clang, gcc has its part in this all the same.
gcc=${CXX:-g++}
if $gcc --version | grep -q clang; then gcc=g++; fi
clang=
for one in clang++ clang++-19 clang++-16 clang++-15 clang++-14; do
  if command -v "$one" >/dev/null; then clang=$one; break; fi
done
build plain "$gcc"
build hidden "$gcc" -fvisibility=hidden
build not-unique "$gcc" -fno-gnu-unique
build newer-standard "$gcc" -std=c++17 -O2
build old-strings "$gcc" -D_GLIBCXX_USE_CXX11_ABI=0
build debug-containers "$gcc" -D_GLIBCXX_DEBUG
include=$out/release build other-release "$gcc"
build clang "${clang:-clang++}"
build clang-hidden "${clang:-clang++}" -fvisibility=hidden
${CXX:-g++} -std=c++11 -O1 -pthread main.cpp -o "$out/main" -ldl

timeout -k 5 120 "$out/main" "${objects[@]}"
# Who is loaded first owns what is shared.
reversed=()
for one in "${objects[@]}"; do reversed=("$one" "${reversed[@]}"); done
timeout -k 5 120 "$out/main" "${reversed[@]}"
