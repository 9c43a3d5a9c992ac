#!/usr/bin/env bash
# The unit tests of BiocParallel with RegattaParam() where they take MulticoreParam() or SnowParam(). BiocParallel
# is not on CRAN: the installed one is taken.
set -uo pipefail
source tools/peers-lib.sh
peers_r Rscript --vanilla -e 'loadNamespace("BiocParallel")' >/dev/null 2>&1 ||
  peers_skip biocparallel "BiocParallel is not installed"
peers_fetch foreach iterators doParallel RUnit || peers_skip biocparallel "doParallel or RUnit cannot be had"
peers_r timeout -k 5 900 Rscript --vanilla tools/peers-biocparallel.R >"$peers/biocparallel.log" 2>&1 ||
  echo "peers: biocparallel: the tests did not end well: $peers/biocparallel.log"
Rscript --vanilla tools/peers-check.R biocparallel
