#!/usr/bin/env bash
# Runs tests of the C code under valgrind, forked workers included, and fails on every error whose
# stack passes through the package. FILTER=regex chooses test files. Errors inside R itself, which
# reads past the end of some buffers on purpose, are not ours.
set -euo pipefail
filter=${FILTER:-^(par-values|par-errors|fault-values|rng|shm-)}
out=$PWD/.build/valgrind
rm -rf "$out"
mkdir -p "$out"
export REGATTA_SANITIZER=valgrind REGATTA_SLOWNESS=${REGATTA_SLOWNESS:-50} NOT_CRAN=true
export REGATTA_SOURCE=$PWD

status=0
R --vanilla --no-echo \
  -d "valgrind --tool=memcheck --leak-check=no --num-callers=30 --log-file=$out/%p.log" \
  -f tools/run-tests.R --args regatta tests/testthat "$out/report.csv" "$filter" </dev/null ||
  status=$?

# Blocks of a log are separated by lines that hold nothing but the process id. A frame of the
# package shows as its source file and line, or, without debug symbols, as the library.
sources=$(cd src && printf '%s|' *.c | sed 's/|$//; s/[.]/[.]/g')
kinds="Invalid|uninitialised|overlap|unaddressable|Mismatched|Jump to"
ours=$(
  for log in "$out"/*.log; do
    awk -v file="${log##*/}" -v frame="regatta[.]so|[(]($sources):[0-9]+[)]" -v kinds="$kinds" '
      function flush() {
        if (block ~ frame && block ~ kinds) printf "%s:\n%s\n", file, block
        block = ""
      }
      /^--/ { next }
      /^==[0-9]+== *$/ { flush(); next }
      { block = block $0 "\n" }
      END { flush() }' "$log"
  done
)
if [ -n "$ours" ]; then
  echo "valgrind: FAILED: errors in the package (all logs: $out):" >&2
  head -n 80 <<<"$ours" >&2
  exit 1
fi
if [ "$status" != 0 ]; then echo "valgrind: FAILED: tests" >&2; exit 1; fi
echo "valgrind: no error in the package; $(ls "$out"/*.log | wc -l) processes"
