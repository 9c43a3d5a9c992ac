#!/usr/bin/env bash
# Installs the package into the tree's library, unless just these sources are there already.
set -euo pipefail
stamp="$REGATTA_LIB/.regatta-sources"
sources=$(
  for part in DESCRIPTION NAMESPACE LICENSE configure cleanup R src inst man demo data; do
    if [ -e "$part" ]; then find "$part" -type f ! -name '*.o' ! -name '*.so' -print0; fi
  done | sort -z | xargs -0 sha256sum | sha256sum
)
if [ -d "$REGATTA_LIB/regatta" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ]; then exit 0; fi

echo "install: building regatta into $REGATTA_LIB"
rm -f "$stamp"
mkdir -p .build
stage=$(tools/stage.sh)
export MAKEFLAGS="-j$(getconf _NPROCESSORS_ONLN)"
if ! R CMD INSTALL --no-multiarch --no-docs --library="$REGATTA_LIB" "$stage" \
  >.build/install.log 2>&1; then
  tail -n 40 .build/install.log >&2
  echo "install: failed; the whole log is .build/install.log" >&2
  exit 1
fi
# R's compiler notes calls that cannot work; R CMD check would refuse them later.
if grep '^Note: possible error' .build/install.log >&2; then
  echo "install: refused for what R's compiler notes" >&2
  exit 1
fi
printf '%s' "$sources" >"$stamp"
