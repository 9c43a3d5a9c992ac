#!/usr/bin/env bash
# The lines of vignettes/neighbours.Rmd with the packages that they name, as far as these are installed.
set -uo pipefail
source tools/peers-lib.sh
tests=$peers/neighbours-tests
rm -rf "$tests"
mkdir "$tests"
cp tests/testthat/helper*.R tests/testthat/test-neighbours.R "$tests"
echo 'package <- "regatta"' >"$peers/neighbours-setup.R"
REGATTA_SOURCE=$PWD peers_r timeout -k 5 900 Rscript --vanilla tools/peers-testthat.R neighbours "$tests" \
  "$peers/neighbours-setup.R" || echo "peers: neighbours: the tests did not end well"
Rscript --vanilla tools/peers-check.R neighbours
