#!/usr/bin/env bash
# The tests of doFuture with plan(regatta), for the newest release.
set -uo pipefail
source tools/peers-lib.sh
peers_fetch iterators foreach rngtools doRNG || peers_skip dofuture "foreach and doRNG cannot be had"
peers_newest future.apply doFuture || peers_skip dofuture "doFuture cannot be had ($peers/future-install.log)"
peers_testme dofuture doFuture
Rscript --vanilla tools/peers-check.R dofuture
