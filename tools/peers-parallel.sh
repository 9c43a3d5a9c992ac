#!/usr/bin/env bash
# R's tests of parallel and the examples of its help pages, with mclapply(), pvec(), mcmapply() and
# mcMap() of regatta in the place of parallel's.
set -uo pipefail
source tools/peers-lib.sh

# The sources of this R: from Debian's archive where R is Debian's, else from CRAN.
sources=$peers/src/R
if [ ! -d "$sources" ]; then
  part=$peers/src/R-part
  rm -rf "$part"
  mkdir -p "$part"
  tools/r-source.sh "$part" >"$peers/parallel-fetch.log" 2>&1 ||
    peers_skip parallel "the sources of this R cannot be had ($peers/parallel-fetch.log)"
  mv "$part" "$sources"
fi

work=$peers/parallel-tests
rm -rf "$work"
mkdir -p "$work"
cp "$sources"/tests/*.R "$sources"/tests/*.RR "$work" 2>/dev/null
rm -f "$work/Master.R" # it runs the others
for page in "$sources"/man/*.Rd "$sources"/man/unix/*.Rd; do
  Rscript --vanilla -e 'a <- commandArgs(TRUE); tools::Rd2ex(a[1], a[2], commentDontrun = TRUE)' \
    "$page" "$work/example-$(basename "$page" .Rd).R" >/dev/null 2>&1
done
cat >"$work/before" <<'R'
library(parallel)
for (name in c("mclapply", "pvec", "mcmapply", "mcMap")) assign(name, getExportedValue("regatta", name))
stopifnot(identical(mclapply(1:2, identity), list(1L, 2L)))
rm(name)
R
: >"$peers/parallel.tsv"
for script in "$work"/*.R "$work"/*.RR; do
  case=$(basename "$script" | sed 's/\.RR*$//')
  before=$work/before
  # It unloads parallel, again and again, and wants a session without random numbers.
  case $case in RSeed) before=/dev/null ;; esac
  if (cd "$work" && cat "$before" "$script" >"$case.in" &&
    peers_r timeout -k 5 300 R --vanilla --no-echo <"$case.in" >"$case.out" 2>&1); then
    printf '%s\tpassed\t\n' "$case"
  else
    printf '%s\tfailed\t%s\n' "$case" "$(tail -n 3 "$work/$case.out" | tr '\n\t' '  ')"
  fi >>"$peers/parallel.tsv"
done
# What one of them prints is compared with R's own record, as R does.
interval() { grep '^90%' "$@"; }
if [ -n "$(interval "$work/multicore2.out")" ] &&
  [ "$(interval "$work/multicore2.out")" = "$(interval "$sources/tests/multicore2.Rout.save")" ]; then
  printf 'multicore2, what it prints\tpassed\t\n'
else
  printf 'multicore2, what it prints\tfailed\tother numbers\n'
fi >>"$peers/parallel.tsv"
Rscript --vanilla tools/peers-check.R parallel
