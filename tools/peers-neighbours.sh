#!/usr/bin/env bash
# The lines of vignettes/neighbours.Rmd with the newest releases of the packages that they name, as far as these can be
# had. What mlr3 stands on wants a newer checkmate than it says.
set -uo pipefail
source tools/peers-lib.sh
peers_newest checkmate carrier purrr crew targets mlr3 || echo "peers: neighbours: not all could be had newer"
tests=$peers/neighbours-tests
rm -rf "$tests"
mkdir "$tests"
cp tests/testthat/helper*.R tests/testthat/test-neighbours.R "$tests"
echo 'package <- "regatta"' >"$peers/neighbours-setup.R"
REGATTA_SOURCE=$PWD R_LIBS="$newest:$R_LIBS" peers_r timeout -k 5 900 Rscript --vanilla tools/peers-testthat.R \
  neighbours "$tests" "$peers/neighbours-setup.R" || echo "peers: neighbours: the tests did not end well"
Rscript --vanilla tools/peers-check.R neighbours
