#!/usr/bin/env bash
# The tests of foreach, and that of doMC, with doMC's mclapply() replaced by regatta's.
set -uo pipefail
source tools/peers-lib.sh
peers_fetch iterators foreach=1.5.2 doMC=1.3.8 || peers_skip foreach "foreach and doMC cannot be had"

cat >"$peers/foreach-setup.R" <<'R'
suppressPackageStartupMessages({
  library(foreach)
  library(doMC)
})
Sys.setenv(FOREACH_BACKEND = "MC")
options(cores = 2L)
imports <- parent.env(asNamespace("doMC"))
unlockBinding("mclapply", imports)
assign("mclapply", regatta::mclapply, envir = imports)
lockBinding("mclapply", imports)
R
rm -rf "$peers/foreach-tests"
mkdir "$peers/foreach-tests"
cp -r "$peers/src/foreach/tests/testthat/." "$peers/foreach-tests"
cat >"$peers/foreach-tests/test_doMC.R" <<'R'
# doMC's own test is written for RUnit: each function is a test.
cases <- new.env()
cases$checkEquals <- function(target, current) expect_equal(target, current)
sys.source(system.file("unitTests", "options.R", package = "doMC"), cases)
for (case in setdiff(ls(cases), "checkEquals")) test_that(case, cases[[case]]())
R
peers_r timeout -k 5 900 Rscript --vanilla tools/peers-testthat.R foreach "$peers/foreach-tests" \
  "$peers/foreach-setup.R" || echo "peers: foreach: the suite did not end well"
Rscript --vanilla tools/peers-check.R foreach
