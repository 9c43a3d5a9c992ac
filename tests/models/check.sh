#!/usr/bin/env bash
# Searches all states of one model, then the same model with faults put into it, one after the other,
# each of which must be found: a model that cannot fail shows nothing.
#   ./check.sh MODEL.pml FOLDER
set -euo pipefail
name=$(basename "$1" .pml)
mutants=$PWD/$name.mutants
mkdir -p "$2/$name"
cp "$1" "$2/$name/model.pml"
cd "$2/$name"

# search MODEL LOG COMPILER-FLAGS RUN-FLAGS: 0 if there is no error in the whole of the search.
search() {
  spin -a "$1" >"$2" || { cat "$2"; exit 1; }
  # shellcheck disable=SC2086
  ${CC:-gcc} -O2 $3 -o pan pan.c >>"$2" 2>&1 || { tail -n 5 "$2"; exit 1; }
  # shellcheck disable=SC2086
  ./pan -m1000000 $4 >>"$2" 2>&1 || true
  grep -q 'errors: 0' "$2" && ! grep -qE 'search depth too small|out of memory' "$2"
}

states() { awk '/states, stored/ { print $1; exit }' "$1"; }

is_right() {
  search "$1" safety.log "-DSAFETY -DNOCLAIM" "" || return 1
  grep -q '^ltl ' "$1" || return 0
  search "$1" liveness.log "-DNFAIR=4" "-a -f"
}

if ! is_right model.pml; then
  echo "FAILED $name: see $2/$name/safety.log and liveness.log"
  exit 1
fi
searched=$(states safety.log)
count=0
while IFS= read -r fault; do
  case $fault in '' | '#'*) continue ;; esac
  count=$((count + 1))
  sed "$fault" model.pml >mutant.pml
  if cmp -s model.pml mutant.pml; then echo "FAILED $name: this changes nothing: $fault"; exit 1; fi
  if (is_right mutant.pml); then echo "FAILED $name: not found: $fault"; exit 1; fi
done <"$mutants"
echo "ok     $name: $searched states, $count of $count faults found"
