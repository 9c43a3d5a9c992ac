#!/usr/bin/env bash
# The tests of foreach with regatta as its backend, once on forked workers and once on a PSOCK cluster.
set -uo pipefail
source tools/peers-lib.sh
peers_fetch iterators foreach=1.5.2 || peers_skip dopar "foreach cannot be had"

rm -rf "$peers/dopar-tests"
mkdir "$peers/dopar-tests"
for place in forks cluster; do
  for test in "$peers"/src/foreach/tests/testthat/test_*.R; do
    name=$(basename "$test")
    { echo "registerDoRegatta(places\$$place)"; cat "$test"; } >"$peers/dopar-tests/test_${place}_${name#test_}"
  done
done
cat >"$peers/dopar-setup.R" <<'R'
suppressPackageStartupMessages({
  library(foreach)
  library(iterators)
  library(regatta)
})
Sys.setenv(FOREACH_BACKEND = "REGATTA")
places <- list(forks = 2, cluster = parallel::makePSOCKcluster(2))
R
peers_r timeout -k 5 900 Rscript --vanilla tools/peers-testthat.R dopar "$peers/dopar-tests" \
  "$peers/dopar-setup.R" || echo "peers: dopar: the suite did not end well"
Rscript --vanilla tools/peers-check.R dopar
