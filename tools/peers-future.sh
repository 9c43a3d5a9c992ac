#!/usr/bin/env bash
# The tests that future has for its backends, package future.tests, with plan(regatta): on forked workers, on
# workers that stand ready and on a PSOCK cluster, for the installed version of future and for the newest one.
set -uo pipefail
source tools/peers-lib.sh
Rscript --vanilla tools/peers-fetch.R --sources "$peers" future.tests ||
  peers_skip future "future.tests cannot be had"

# Its tests are those of the newest version of future; with an older one they skip what that lacks.
sed -i -E 's/future \(>= [0-9.]+\)/future/' "$peers/src/future.tests/DESCRIPTION"
peers_fetch future.tests || peers_skip future "future.tests cannot be had"
newest="$peers/lib-future"
mkdir -p "$newest"
if [ ! -d "$newest/future" ]; then
  peers_r Rscript --vanilla tools/peers-future.R install "$newest" >"$peers/future-install.log" 2>&1 ||
    echo "peers: future: the newest version cannot be installed"
fi

rm -f "$peers/future.tsv"
for lib in "" "$newest:"; do
  if [ -n "$lib" ] && [ ! -d "$newest/future" ]; then continue; fi
  for place in forks pool cluster; do
    R_LIBS="$lib$R_LIBS:$peers/lib" timeout -k 5 600 Rscript --vanilla tools/peers-future.R check "$place" \
      >"$peers/future-$place.log" 2>&1 </dev/null ||
      { tail -n 20 "$peers/future-$place.log"; echo "peers: future: the tests on $place did not end well"; }
  done
done
Rscript --vanilla tools/peers-check.R future
