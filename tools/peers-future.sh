#!/usr/bin/env bash
# The tests that future has for its backends, package future.tests, with plan(regatta): on forked workers, on
# workers that stand ready and on a PSOCK cluster, for the oldest version of future that the package takes and for the
# newest one, whichever is installed.
set -uo pipefail
source tools/peers-lib.sh
Rscript --vanilla tools/peers-fetch.R --sources "$peers" future.tests ||
  peers_skip future "future.tests cannot be had"

# Its tests are those of the newest version of future; with an older one they skip what that lacks.
sed -i -E 's/future \(>= [0-9.]+\)/future/' "$peers/src/future.tests/DESCRIPTION"
peers_fetch future.tests || peers_skip future "future.tests cannot be had"
peers_fetch ff || echo "peers: future: ff cannot be had, whose tests are skipped"
peers_newest || echo "peers: future: the newest version cannot be installed"
oldest=$peers/lib-future-oldest
version=$(sed -n 's/.* future (>= \([0-9.]*\)).*/\1/p' DESCRIPTION)
mkdir -p "$oldest"
if [ ! -d "$oldest/future" ]; then
  { Rscript --vanilla tools/peers-fetch.R --sources "$peers/oldest" "future=$version" &&
    peers_r R CMD INSTALL --no-docs --library="$oldest" "$peers/oldest/src/future"; } \
    >>"$peers/future-install.log" 2>&1 || echo "peers: future: $version cannot be installed"
fi

rm -f "$peers/future.tsv"
for lib in "$oldest" "$newest"; do
  if [ ! -d "$lib/future" ]; then continue; fi
  for place in forks pool cluster; do
    R_LIBS="$lib:$R_LIBS:$peers/lib" timeout -k 5 600 Rscript --vanilla tools/peers-future.R check "$place" \
      >"$peers/future-$place.log" 2>&1 </dev/null ||
      { tail -n 20 "$peers/future-$place.log"; echo "peers: future: the tests on $place did not end well"; }
  done
done
Rscript --vanilla tools/peers-check.R future
