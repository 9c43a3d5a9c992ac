#!/usr/bin/env bash
# Runs the benchmarks one after another, since they would disturb each other, then renews the table
# of the README. ONLY=pattern chooses among the folders of bench/; SHORT=1 runs few rounds.
set -uo pipefail
status=0
for script in bench/*/run.R; do
  claim=$(basename "$(dirname "$script")")
  if [[ ! $claim =~ ${ONLY:-.} ]]; then continue; fi
  printf '\n== %s\n' "$claim"
  if ! Rscript --vanilla "$script" ${SHORT:+--short} </dev/null; then
    echo "bench: $claim FAILED" >&2
    status=1
  fi
done
if [ -z "${SHORT:-}" ]; then Rscript --vanilla bench/README-table.R || status=1; fi
exit "$status"
