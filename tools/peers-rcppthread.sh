#!/usr/bin/env bash
# RcppThread's own tests, compiled against this package's headers in place of RcppThread's.
set -uo pipefail
source tools/peers-lib.sh
peers_fetch RcppThread=2.4.0 || peers_skip rcppthread "RcppThread cannot be had"
peers_r Rscript -e 'q(status = !requireNamespace("Rcpp", quietly = TRUE))' || peers_skip rcppthread "Rcpp is missing"

tests=$peers/rcppthread-tests
rm -rf "$tests"
mkdir -p "$tests"
cp -r "$peers/src/RcppThread/tests/." "$tests"
sed -i 's/Rcpp::depends(RcppThread)/Rcpp::depends(regatta)/
  s/#include "RcppThread.h"/#include <regatta\/compat\/RcppThread.h>/' "$tests/tests.cpp"
# What it asks of the package itself: a call that needs no argument, and whether atomics work.
sed -i '/^RcppThread:::testGlobal()/d; s/RcppThread:::hasAtomicSupport()/TRUE/' "$tests/testthat/tests.R"
if grep -rq 'RcppThread:::' "$tests" || grep -q 'depends(RcppThread)' "$tests/tests.cpp"; then
  echo "peers: rcppthread: the tests still use RcppThread itself" >&2
  exit 1
fi
peers_r timeout -k 5 900 Rscript --vanilla tools/peers-testthat.R rcppthread "$tests/testthat" ||
  echo "peers: rcppthread: the suite did not end well"
Rscript --vanilla tools/peers-check.R rcppthread
