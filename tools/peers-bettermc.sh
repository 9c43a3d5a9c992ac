#!/usr/bin/env bash
# The tests of bettermc with a package of that name whose functions are those of regatta.
set -uo pipefail
source tools/peers-lib.sh
peers_fetch checkmate progress bettermc=1.2.1 || peers_skip bettermc "its archive cannot be read"

# The tests also call two internal functions by `bettermc:::`, for which there are stand-ins. The
# package is made anew each time, since it holds copies of regatta's functions.
rm -rf "$peers/bettermc" "$peers/bettermc-lib"
mkdir -p "$peers/bettermc/R" "$peers/bettermc-lib"
cat >"$peers/bettermc/DESCRIPTION" <<'R'
Package: bettermc
Title: The Names of bettermc over regatta
Version: 1.2.1
Author: x
Maintainer: x <x@example.org>
Description: For the tests of bettermc.
License: MIT
Imports: regatta
R
cat >"$peers/bettermc/NAMESPACE" <<'R'
exportPattern("^[a-z]")
R
cat >"$peers/bettermc/R/all.R" <<'R'
exports <- c("allocate_from_shm", "char_map", "compress_chars", "copy2shm", "crash_dumps", "etry",
  "map2char", "mclapply", "sem_close", "sem_open", "sem_post", "sem_unlink", "sem_wait", "semv_open",
  "semv_post", "semv_unlink", "semv_wait", "uncompress_chars")
for (name in exports) assign(name, getExportedValue("regatta", name))
rm(name, exports)
OSTYPE <- if (Sys.info()[["sysname"]] == "Linux") "linux" else "macos"
unlink_all_shm <- function(prefix, start) {
  while (isTRUE(file.remove(file.path("/dev/shm", paste0(prefix, start))))) start <- start + 1L
}
R
peers_r R CMD INSTALL --no-docs --library="$peers/bettermc-lib" "$peers/bettermc" \
  >"$peers/bettermc.log" 2>&1 || { cat "$peers/bettermc.log"; exit 1; }

cat >"$peers/bettermc-setup.R" <<'R'
package <- "bettermc"
case_name <- function(test) {
  # As many of these as fit into 20 seconds, drawn by chance.
  sub("^[0-9]+: mc[.]share.*", "values and warnings for any arguments", test)
}
R
rm -rf "$peers/bettermc-tests"
cp -r "$peers/src/bettermc/tests/testthat" "$peers/bettermc-tests"
# The texts of errors and warnings are regatta's own.
sed -i -e 's/error(s) occured during mclapply; first original message/failed; the first:/' \
  -e 's/at least one scheduled core did not return results/died with their worker; the first:/' \
  -e 's/Out of Memory Killer/died with their worker/' "$peers/bettermc-tests/test-mclapply.R"
sed -i -e 's/"alloc_from_shm"/"11 elements of 4 bytes"/' -e 's/"unsupported SEXP type"/"no type of"/' \
  -e 's/"wrong size"/"10 elements of 4 bytes are not"/' "$peers/bettermc-tests/test-copy2shm.R"
R_LIBS="$peers/bettermc-lib:$R_LIBS" peers_r timeout -k 5 900 Rscript --vanilla \
  tools/peers-testthat.R bettermc "$peers/bettermc-tests" "$peers/bettermc-setup.R" ||
  echo "peers: bettermc: the suite did not end well"
Rscript --vanilla tools/peers-check.R bettermc
