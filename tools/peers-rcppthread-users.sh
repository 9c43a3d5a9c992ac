#!/usr/bin/env bash
# Packages of CRAN that link to RcppThread, built against this package's headers, and their tests. What
# they need and is not installed is fetched with PEERS_INSTALL=yes; else they are skipped by name.
#   USERS="coupling natcpp" tools/peers-rcppthread-users.sh
set -uo pipefail
source tools/peers-lib.sh
users=${USERS:-coupling lingdist natcpp}
# shellcheck disable=SC2086
peers_r timeout -k 5 3600 Rscript --vanilla tools/peers-rcppthread-users.R "$peers" $users \
  >"$peers/rcppthread-users.tsv" || echo "peers: rcppthread-users: not all packages were tried"
Rscript --vanilla tools/peers-check.R rcppthread-users
