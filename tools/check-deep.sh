#!/usr/bin/env bash
# What CRAN and careful users run beyond `make test`, one after the other; a step that fails does not stop the next ones.
# Each leaves a log in .build/deep. rchk is not among them: it needs R itself built as LLVM bitcode, which Debian does not
# have; tools/check-protect.py looks for the same faults in the sources.
set -uo pipefail
logs=$PWD/.build/deep
rm -rf "$logs"
mkdir -p "$logs"
lines=() failed=0

# What a command that ends well says of itself when it has done nothing: "NAME: skipped, why" or "skipped: why".
why_skipped() { sed -nE 's/^([A-Za-z][A-Za-z -]*: )?skipped[,:] //p' "$1" | head -n 1; }

# step NAME LOG command ...
step() {
  local name=$1 log=$logs/$2.log start=$SECONDS why
  shift 2
  printf '\n== %s\n' "$name"
  if "$@" </dev/null >"$log" 2>&1; then
    why=$(why_skipped "$log")
    if [ -n "$why" ]; then
      skip "$name" "$why"
    else
      lines+=("ok      $name ($((SECONDS - start)) s)")
    fi
  else
    lines+=("FAILED  $name: $log")
    failed=$((failed + 1))
    tail -n 20 "$log"
  fi
}

skip() { lines+=("skipped $1: $2"); }

small_tarball() {
  local size
  size=$(stat -c %s .build/regatta_*.tar.gz) || return 1
  echo "$size bytes"
  [ "$size" -lt 5000000 ]
}

# All of C and C++, with no word of warning.
build_by_clang() {
  local flags="-O2 -Wall -Wextra -Wno-unused-parameter -pedantic" version
  rm -rf "$logs/clang"
  mkdir -p "$logs/clang"
  {
    echo "CC = clang"
    echo "CFLAGS = $flags"
    for version in "" 11 14 17; do printf 'CXX%s = clang++\nCXX%sFLAGS = %s\n' "$version" "$version" "$flags"; done
  } >"$logs/clang/Makevars"
  MAKEFLAGS="-j$(getconf _NPROCESSORS_ONLN)" R_MAKEVARS_USER="$logs/clang/Makevars" \
    R CMD INSTALL --no-docs --library="$logs/clang" \
    "$(tools/stage.sh .build/stage-clang/regatta)" || return 1
  ! grep ': warning:' "$logs/clang.log"
}

tests_by_clang() {
  R_LIBS="$logs/clang:$R_LIBS" REGATTA_SOURCE=$PWD Rscript --vanilla tools/run-files.R "$logs/clang-files" \
    par-values par-errors fault-values shm-array shm-share encode char-map executor-fork
}

build_without_hdf5() {
  rm -rf "$logs/without-hdf5"
  mkdir -p "$logs/without-hdf5"
  REGATTA_HDF5=no R CMD INSTALL --no-docs --library="$logs/without-hdf5" \
    "$(tools/stage.sh .build/stage-without-hdf5/regatta)" &&
    R_LIBS="$logs/without-hdf5:$R_LIBS" Rscript --vanilla tools/check-without-hdf5.R
}

step "R CMD check --as-cran" as-cran env REGATTA_CHECK_FLAGS=--as-cran tools/check-package.sh --no-tests
step "a tarball below 5 MB" tarball small_tarball
step "R CMD check --as-cran on the newest R" as-cran-newest tools/current-r.sh --check
# Vignettes show other packages, and are built where these are.
step "R CMD check with nothing but what the package needs" depends-only \
  env _R_CHECK_DEPENDS_ONLY_=true _R_CHECK_DEPENDS_ONLY_VIGNETTES_=false tools/check-package.sh --no-tests
step "built without libhdf5" without-hdf5 build_without_hdf5
step "more than 2^31 entries" long-sparse \
  env REGATTA_LONG=1 REGATTA_SOURCE="$PWD" Rscript --vanilla tools/run-files.R "$logs/long-files" h5-sparse
if command -v clang >/dev/null; then
  step "built by clang" clang build_by_clang
  step "tests of what clang has built" clang-tests tests_by_clang
else
  skip "clang" "there is none (on Debian: clang)"
fi
if /usr/bin/python3 -c 'import clang.cindex' 2>/dev/null; then
  step "protection from the garbage collector" protect /usr/bin/python3 tools/check-protect.py
else
  skip "protection from the garbage collector" "there is no libclang for Python (on Debian: python3-clang-14)"
fi
step "sanitizers" sanitize tools/sanitize.sh
# C and C++ without R. Limits are several times what two busy cores take.
cores=$(getconf _NPROCESSORS_ONLN)
for part in c cpp; do
  for build in asan tsan; do
    step "$build of tests/$part" "$part-$build" timeout -k 5 3600 make -s -j"$cores" -C "tests/$part" $build
  done
done
step "a collection at every allocation" gctorture Rscript --vanilla tools/gctorture.R
if command -v valgrind >/dev/null; then
  step "valgrind" valgrind tools/valgrind.sh
else
  skip "valgrind" "there is none"
fi

printf '\n'
printf '%s\n' "${lines[@]}"
[ "$failed" = 0 ]
