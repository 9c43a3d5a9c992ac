#!/usr/bin/env bash
# The tests of this package that need others, or Chromium, each file in a session of its own: the listings of
# vignettes/neighbours.Rmd, both columns of vignettes/coming.Rmd, what is in R/pkg-*.R, an app of shiny and a trace in
# the browser. The others are the newest releases that can be had; what mlr3 stands on wants a newer checkmate than it
# says.
set -uo pipefail
source tools/peers-lib.sh
peers_newest checkmate carrier purrr crew targets mlr3 || echo "peers: neighbours: not all could be had newer"
peers_fetch checkmate progress bettermc=1.2.1 || echo "peers: neighbours: bettermc cannot be had"
tests=$peers/neighbours-tests
printf 'package <- "regatta"\nin_part <- TRUE\n' >"$peers/neighbours-setup.R"
rm -rf "$tests" "$peers/neighbours.tsv"
for file in tests/testthat/test-{neighbours,coming,plot-trace,pkg-*}.R; do
  name=$(basename "$file" .R)
  mkdir -p "$tests/$name"
  cp -r tests/testthat/. "$tests/$name"
  find "$tests/$name" -maxdepth 1 -name 'test-*.R' ! -name "$name.R" -delete
  REGATTA_SOURCE=$PWD NOT_CRAN=true PEERS_DIR=$tests R_LIBS="$newest:$R_LIBS" peers_r timeout -k 5 900 \
    Rscript --vanilla tools/peers-testthat.R "$name" "$tests/$name" "$peers/neighbours-setup.R" \
    >"$tests/$name.log" 2>&1 </dev/null ||
    printf '%s: all\tfailed\tthe file did not end well\n' "$name" >"$tests/$name.tsv"
  cat "$tests/$name.tsv" >>"$peers/neighbours.tsv"
done
Rscript --vanilla tools/peers-check.R neighbours
