#!/usr/bin/env bash
# Checks C of the package itself for every input within bounds, by the bounded model checker cbmc, then
# the same C with faults put into it, each of which must be found: a check that cannot fail shows nothing.
#   bounded/check.sh FOLDER
# checks.txt and faults.txt beside this script say what is checked. CBMC (cbmc) is the checker, RG_R_INCLUDE
# (that of R on PATH) where R's headers are.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1/bounded"
out=$(cd "$1/bounded" && pwd)
read -ra checker <<<"${CBMC:-cbmc}"
if ! command -v "${checker[0]}" >/dev/null; then
  echo "skip   bounded: there is no cbmc here (CBMC names another; Debian 12 has none)"
  exit 0
fi
include=${RG_R_INCLUDE:-$(Rscript --vanilla -e 'cat(R.home("include"))')}

# The sources with bounds small enough to be gone through whole. Their values mean nothing to the code.
copy_sources() {
  rm -rf "$out/src"
  cp -r "$here/../../../src" "$out/src"
  cp "$here"/check-*.c "$out/"
  shrink ring.h 's/RG_RING_SIZE = 1024 \* 1024, RG_RECORD_MAX = 32 \* 1024/RG_RING_SIZE = 96, RG_RECORD_MAX = 16/'
  # The sizes that are asserted are those of the whole ring.
  shrink ring.c '/^RG_LAYOUT.*(rg_ring,/d'
  shrink frame.c 's/FIRST_PIECE = 1 << 16/FIRST_PIECE = 4/'
}

shrink() { change "$1" "$2" || { echo "FAILED bounded: this changes nothing in $1: $2"; exit 1; }; }

# change FILE SED: 1 if the file stays as it was.
change() {
  sed -i.before "$2" "$out/src/$1"
  ! cmp -s "$out/src/$1" "$out/src/$1.before"
}

# holds NAME LOG: does all that is asserted hold? Ends this script where that cannot be said.
holds() {
  local file=check-${1%%:*}.c function=check_${1#*:} status=0 flags
  read -ra flags <<<"$(awk -v name="$1" '$1 == name { $1 = ""; print }' "$here/checks.txt")"
  "${checker[@]}" "$out/$file" -I "$out/src" -I "$include" -D_GNU_SOURCE --function "$function" \
    --bounds-check --pointer-check --pointer-overflow-check --signed-overflow-check --undefined-shift-check \
    --unwinding-assertions --drop-unused-functions "${flags[@]}" >"$2" 2>&1 || status=$?
  case $status in
    0) return 0 ;;
    10) return 1 ;;
    *) echo "FAILED bounded $1: $(tail -n 1 "$2") (status $status, see $2)"; exit 1 ;;
  esac
}

copy_sources
while read -r name _; do
  case $name in '' | '#'*) continue ;; esac
  if ! holds "$name" "$out/$name.log"; then echo "FAILED bounded $name: see $out/$name.log"; exit 1; fi
  count=0
  while IFS=$'\t' read -r of file fault; do
    [ "$of" = "$name" ] || continue
    count=$((count + 1))
    cp "$out/src/$file" "$out/$file.whole"
    change "$file" "$fault" || { echo "FAILED bounded $name: this changes nothing in $file: $fault"; exit 1; }
    if holds "$name" "$out/fault.log"; then echo "FAILED bounded $name: not found: $fault"; exit 1; fi
    cp "$out/$file.whole" "$out/src/$file"
  done <"$here/faults.txt"
  echo "ok     bounded $name: $count of $count faults found"
done <"$here/checks.txt"
