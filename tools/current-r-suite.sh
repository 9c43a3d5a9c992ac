#!/usr/bin/env bash
# What tools/current-r.sh runs inside the userland: builds the package there, without a word of warning
# from the compiler, and runs its test files; or checks it as CRAN does (--check), or by cbmc (--bounded).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export REGATTA_SOURCE=$PWD
printf 'current R: %s, %s\n' "$(Rscript --vanilla -e 'cat(R.version.string)')" "$(gcc --version | head -n 1)"
if [ "${1:-}" = --check ]; then
  export REGATTA_CHECK_FLAGS=--as-cran
  exec tools/with-lib.sh tools/check-package.sh --no-tests
fi
if [ "${1:-}" = --bounded ]; then exec make -s -C tests/models bounded; fi
if ! tools/with-lib.sh tools/install.sh; then
  printf '\n0 passed, 1 failed, 0 skipped\n'
  exit 1
fi
status=0
if grep -n 'warning:' .build/install.log; then
  echo "current R: the compiler warns"
  status=1
fi
# The time for all files was counted from before the package was installed.
if [ -n "${REGATTA_TEST_SECONDS:-}" ]; then
  export REGATTA_TEST_SECONDS=$((REGATTA_TEST_SECONDS - SECONDS))
  if [ "$REGATTA_TEST_SECONDS" -lt 60 ]; then
    printf 'current R: skipped, the package is installed, but no time is left for its tests\n\n0 passed, 0 failed, 0 skipped\n'
    exit "$status"
  fi
fi
tools/with-lib.sh Rscript --vanilla tools/run-files.R .build/files "$@" || status=1
exit "$status"
