#!/usr/bin/env bash
# Calls of every kind through parallel, bettermc and regatta: what differs and is not known.
set -uo pipefail
source tools/peers-lib.sh
peers_fetch checkmate progress bettermc=1.2.1 || echo "peers: calls: bettermc cannot be had"
peers_r Rscript --vanilla tools/peers-calls.R || echo "peers: calls: the comparison did not end well"
Rscript --vanilla tools/peers-check.R calls
