#!/usr/bin/env bash
# Compiles each header by itself and all of the tests' sources, in every standard that each of the
# compilers knows:  standards.sh INCLUDE_DIR "WARNINGS" COMPILER...
set -uo pipefail
include=$1
read -r -a warnings <<<"$2"
shift 2
r_include=$(R CMD config --cppflags 2>/dev/null)
read -r -a r_flags <<<"$r_include"
failed=0
ran=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One file that includes every header, each first in a file of its own by the loop below.
compile() {
  "$compiler" "-std=$standard" -fsyntax-only -pthread "-I$include" "${warnings[@]}" "$@"
}

for compiler in "$@"; do
  if ! command -v "$compiler" >/dev/null; then
    echo "skipped: $compiler is not installed"
    continue
  fi
  for standard in c++11 c++14 c++17 c++20 c++2b; do
    if ! echo 'int main() {}' | "$compiler" "-std=$standard" -x c++ -fsyntax-only - 2>/dev/null; then
      echo "skipped: $compiler does not know $standard"
      continue
    fi
    status=ok
    while IFS= read -r header; do
      name=${header#"$include"/}
      flags=()
      case $name in
        regatta/r/* | regatta/regatta.hpp | regatta/compat/*)
          if [ -z "$r_include" ]; then continue; fi
          flags=("${r_flags[@]/#-I/-isystem}")
          ;;
      esac
      printf '#include <%s>\n#include <%s>\nint main() {}\n' "$name" "$name" >"$scratch/one.cpp"
      compile "${flags[@]}" "$scratch/one.cpp" || { status=FAILED; echo "  in $name"; }
    done < <(find "$include" \( -name '*.hpp' -o -name '*.h' \) | sort)
    for source in *.cpp; do
      compile "$source" || { status=FAILED; echo "  in $source"; }
    done
    if [ "$status" != ok ]; then failed=$((failed + 1)); fi
    ran=$((ran + 1))
    echo "$status $compiler $standard"
  done
done
echo "$ran combinations of compiler and standard, $failed failed"
[ "$failed" = 0 ] && [ "$ran" -gt 0 ]
