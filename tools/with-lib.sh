#!/usr/bin/env bash
# Runs a command at the root of the tree with the tree's own R library first, one folder for each
# version of R, since a compiled package works with one only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v Rscript >/dev/null; then
  echo "there is no R here: install it, on Debian by \`apt-get install r-base-dev\`" >&2
  exit 1
fi
version=$(Rscript --vanilla -e 'cat(format(getRversion()[1, 1:2]))')
export REGATTA_LIB="$PWD/.lib/$version"
mkdir -p "$REGATTA_LIB"
export R_LIBS="$REGATTA_LIB${R_LIBS:+:$R_LIBS}"

# Without a UTF-8 locale R shows, and R CMD check refuses, what is not ASCII.
if [ -z "${LC_ALL:-}" ] && locale -a 2>/dev/null | grep -qix 'C\.utf-\?8'; then
  export LC_ALL=C.UTF-8
fi

# Real files for the tests, where there are any beside the tree: they are not in it.
if [ -z "${REGATTA_TEST_DATA+set}" ] && [ -d ../shared/data ]; then
  REGATTA_TEST_DATA=$(cd ../shared/data && pwd)
  export REGATTA_TEST_DATA
fi
exec "$@"
