#!/usr/bin/env bash
# The peers' own test suites, run against this package: every tools/peers-NAME.sh, one after the
# other, or those named. The last line is "N passed, N failed as known, N failed, N skipped".
#   tools/peers.sh [NAME ...]
#
# A script fetches its peer into .build/peers/ (nothing of a peer's is kept in the repository), runs
# the suite, writes one line for each case into .build/peers/NAME.tsv,
#   CASE<tab>passed|failed|skipped<tab>why
# and ends by `Rscript --vanilla tools/peers-check.R NAME`, which compares that with the cases that are
# known to fail (tools/peers-NAME.known: CASE<tab>reason). Failed is what fails and is not known, and
# what is known to fail and passes. A peer that cannot be had is skipped by name:
#   peers_skip NAME why    (from tools/peers-lib.sh)
set -uo pipefail
mkdir -p .build/peers

names=("$@")
if [ "${#names[@]}" = 0 ]; then
  for script in tools/peers-*.sh; do
    name=$(basename "$script" .sh)
    if [ "$name" != peers-lib ]; then names+=("${name#peers-}"); fi
  done
fi

passed=0 known=0 failed=0 skipped=0 lines=()
for name in "${names[@]}"; do
  printf '\n== peers: %s\n' "$name"
  start=$SECONDS
  counts=.build/peers/$name.csv
  rm -f "$counts"
  status=0
  bash "tools/peers-$name.sh" </dev/null || status=$?
  p=0 k=0 f=0 s=0
  if [ -f "$counts" ]; then IFS=, read -r p k f s < <(tail -n 1 "$counts"); fi
  # A script that ends badly without a failed case has failed itself.
  if [ "$status" != 0 ] && [ "$f" = 0 ]; then f=1; fi
  passed=$((passed + p)) known=$((known + k)) failed=$((failed + f)) skipped=$((skipped + s))
  lines+=("$(printf '%-16s %5d passed, %d failed as known, %d failed, %d skipped (%d s)' "$name" "$p" "$k" "$f" "$s" \
    $((SECONDS - start)))")
done

printf '\n'
printf '%s\n' "${lines[@]}"
printf '\n%d passed, %d failed as known, %d failed, %d skipped\n' "$passed" "$known" "$failed" "$skipped"
[ "$failed" = 0 ]
