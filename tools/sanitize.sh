#!/usr/bin/env bash
# Builds the package with the address and undefined-behaviour sanitizers and runs the tests of its C and
# C++ code, each file in a session of its own. FILTER=regex chooses test files. Any report of any process,
# forked workers too, is a failure. Reports of the address sanitizer go to files, so that none is lost with
# a worker's output; the other's runtime ignores its log_path beside that one and is found in the output.
set -euo pipefail
own='par-|shm-|fault-values|fault-child|fault-death|rng|string-index|threads-share|threads-boundary|workers-'
own+='|encode|checkpoint|budget|socket|h5-'
filter=${FILTER:-^($own)}
out=$PWD/.build/sanitize
rm -rf "$out"
mkdir -p "$out/lib" "$out/reports"

asan=$(gcc -print-file-name=libasan.so)
ubsan=$(gcc -print-file-name=libubsan.so)
if [ ! -f "$asan" ] || [ ! -f "$ubsan" ]; then
  echo "sanitize: gcc has no libasan.so or libubsan.so here (Debian: libgcc-*-dev)" >&2
  exit 1
fi

cat >"$out/Makevars" <<'MAKEVARS'
SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined
CC = gcc
CXX = g++
CXX11 = g++
CXX14 = g++
CXX17 = g++
CFLAGS = -g -O1 -fno-omit-frame-pointer $(SANITIZERS)
CXXFLAGS = -g -O1 -fno-omit-frame-pointer $(SANITIZERS)
CXX11FLAGS = $(CXXFLAGS)
CXX14FLAGS = $(CXXFLAGS)
CXX17FLAGS = $(CXXFLAGS)
LDFLAGS = $(SANITIZERS)
MAKEVARS

echo "sanitize: building"
stage=$(tools/stage.sh)
if ! MAKEFLAGS="-j$(getconf _NPROCESSORS_ONLN)" REGATTA_DEBUG=yes R_MAKEVARS_USER="$out/Makevars" \
  R CMD INSTALL --no-multiarch --no-docs --no-test-load --library="$out/lib" "$stage" >"$out/install.log" 2>&1; then
  tail -n 40 "$out/install.log" >&2
  exit 1
fi

# R frees nothing when it ends, so leaks are not asked for. A fault that a test makes on purpose
# must reach the package's own handler, or the default action.
handled="handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0"
# What cannot be allocated is R's to tell, as without.
export ASAN_OPTIONS="$handled:allow_user_segv_handler=1:use_sigaltstack=0:detect_leaks=0:allocator_may_return_null=1"
ASAN_OPTIONS+=":detect_odr_violation=0:halt_on_error=1:log_path=$out/reports/report"
export UBSAN_OPTIONS="print_stacktrace=1"
export REGATTA_SANITIZER=address REGATTA_SLOWNESS=${REGATTA_SLOWNESS:-10} NOT_CRAN=true
export REGATTA_SOURCE=$PWD
status=0
names=$(for file in tests/testthat/test-*.R; do basename "$file" .R; done | sed 's/^test-//' | grep -E "$filter")
R_LIBS="$out/lib:$R_LIBS" LD_PRELOAD="$asan:$ubsan" \
  REGATTA_TEST_JOBS=${REGATTA_TEST_JOBS:-$(getconf _NPROCESSORS_ONLN)} REGATTA_TEST_LIMIT=${REGATTA_TEST_LIMIT:-3600} \
  Rscript --vanilla tools/run-files.R "$out/files" $names </dev/null || status=$?

if grep -l 'runtime error:' "$out"/files/*.log; then
  echo "sanitize: FAILED: undefined behaviour, see these logs" >&2
  exit 1
fi
# Of a damaged file libhdf5 reads beyond its memory: in the program that asks it first, which is there for that.
reports=$(
  find "$out/reports" -type f -size +0 | while read -r report; do
    grep -q ' in main h5-try/main.cpp' "$report" && grep -qE '^ +#[0-3] .*/libhdf5' "$report" || echo "$report"
  done
)
if [ -n "$reports" ]; then
  echo "sanitize: FAILED: $(wc -l <<<"$reports") reports in $out/reports; the first:" >&2
  head -n 30 "$(head -n 1 <<<"$reports")" >&2
  exit 1
fi
if [ "$status" != 0 ]; then echo "sanitize: FAILED: tests" >&2; exit 1; fi
echo "sanitize: no report"
