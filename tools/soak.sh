#!/usr/bin/env bash
# Repeats the test suite, the long tests of tests/soak and the leak check until one fails or ROUNDS
# rounds are over. FILTER=regex chooses test files; LOAD=n keeps n processes busy beside it, since a
# race shows on a machine that has other things to do.
set -euo pipefail
rounds=${ROUNDS:-10}
tools/install.sh
export NOT_CRAN=true REGATTA_SOURCE=$PWD
# How many sessions are killed while they write to a checkpoint, in each round.
export REGATTA_CHECKPOINT_KILLS=${REGATTA_CHECKPOINT_KILLS:-1000}
mkdir -p .build

load_pids=()
end_load() { if [ "${#load_pids[@]}" -gt 0 ]; then kill "${load_pids[@]}" 2>/dev/null || true; fi; }
trap end_load EXIT
for _ in $(seq "${LOAD:-0}"); do
  while :; do :; done &
  load_pids+=($!)
done

# Nothing, if FILTER chooses none of the folder's files.
run_suite() {
  if ! ls "$1" | sed -n 's/^test-\(.*\)\.R$/\1/p' | grep -Eq "${FILTER:-.}"; then return; fi
  tools/leak-watch.sh Rscript --vanilla tools/run-tests.R regatta "$1" \
    .build/soak-counts.csv "${FILTER:-.}" </dev/null
}

for round in $(seq "$rounds"); do
  echo "soak: round $round of $rounds"
  run_suite tests/testthat
  if [ -d tests/soak ]; then run_suite tests/soak; fi
  tools/leak-watch.sh Rscript --vanilla tools/leak-check.R </dev/null
done
echo "soak: $rounds rounds without a failure"
