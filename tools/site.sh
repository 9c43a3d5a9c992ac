#!/usr/bin/env bash
# Builds the site into .build/site and checks it; the log of the build is .build/site.log.
set -euo pipefail
if ! Rscript --vanilla -e 'quit(status = !requireNamespace("pkgdown", quietly = TRUE))'; then
  echo "site: skipped, for lack of pkgdown"
  exit 0
fi
# A folder of its own: tools/install.sh may be at work in the other one.
stage=$(tools/stage.sh .build/stage-site/regatta)
if ! Rscript --vanilla tools/site.R "$stage" >.build/site.log 2>&1; then
  tail -n 40 .build/site.log >&2
  echo "site: failed; the whole log is .build/site.log" >&2
  exit 1
fi
tools/check-site.py .build/site "$@"
