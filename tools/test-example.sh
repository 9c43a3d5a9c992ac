#!/usr/bin/env bash
# Builds an example package against the regatta that was just checked and runs its tests.
#   tools/test-example.sh examples/NAME REPORT.csv
set -euo pipefail
folder=$1
report=$PWD/$2
name=$(awk '/^Package:/ { print $2 }' "$folder/DESCRIPTION")
lib="$PWD/.build/examples-lib"
mkdir -p "$lib" .build/examples
export R_LIBS="$PWD/.build/regatta.Rcheck:$lib:$R_LIBS"

rm -rf ".build/examples/$name"
mkdir -p ".build/examples/$name"
tar -C "$folder" -cf - --exclude='*.o' --exclude='*.so' . | tar -xf - -C ".build/examples/$name"
log=.build/examples/$name.log
if ! R CMD INSTALL --no-multiarch --library="$lib" ".build/examples/$name" >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "example $name: could not be installed; the whole log is $log" >&2
  exit 1
fi
Rscript --vanilla tools/run-tests.R "$name" "$folder/tests/testthat" "$report"
