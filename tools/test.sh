#!/usr/bin/env bash
# Everything `make test` promises, one step after the other. A step that fails does not stop the
# next ones. The last line is "N passed, N failed, N skipped": the expectations of all test suites.
# A step that fails without a failed expectation counts as one failure.
#   REGATTA_TEST_WITHIN   the seconds that all of it has: what the steps here leave of them is for the newest R
set -uo pipefail
mkdir -p .build/steps
rm -f .build/*-report.csv .build/*-failures.txt .build/steps/*
export REGATTA_SOURCE="$PWD"
checked=$PWD/.build/regatta.Rcheck
other_failures=0
lines=()
unexplained=()

# step NAME command ...: runs the command and notes how it ended. What it prints is kept, too, in the file $log: for a
# step that fails without a failed expectation, the end of that is all there is to explain it.
step() {
  local name=$1 start=$SECONDS known writer
  known=$(sum_column 2)
  log=$PWD/.build/steps/$((${#lines[@]} + 1)).log
  shift
  printf '\n== %s\n' "$name"
  exec 9> >(tee "$log")
  writer=$!
  if "$@" </dev/null >&9 2>&1 9>&-; then
    lines+=("ok      $name ($((SECONDS - start)) s)")
  else
    lines+=("FAILED  $name ($((SECONDS - start)) s)")
    if [ "$(sum_column 2)" = "$known" ]; then
      other_failures=$((other_failures + 1))
      unexplained+=("$name" "$log")
    fi
  fi
  # The next step's lines come after these; what the step left running must not hold it up.
  exec 9>&-
  timeout 5 tail --pid="$writer" -f /dev/null
}

skip_step() {
  printf '\n== %s: skipped, %s\n' "$1" "$2"
  lines+=("skipped $1: $2")
}

# What testthat printed is kept in a log by R CMD check, which shows it only when a test fails. What
# was skipped belongs on the screen, and a snapshot that had to be made was compared with nothing.
check_suite_log() {
  local log
  for log in "$checked"/tests/testthat.Rout*; do
    [ -f "$log" ] || { echo "tests: there is no log of the suite" >&2; return 1; }
    awk '/^test-.*[.]R$/ { file = $0 }
      /══|^\[ FAIL/ { on = /Skipped/; if (on) print file }
      on' "$log"
    grep ': not begun, the time is over$' "$log"
    # The script of the suite, which R repeats in the log, has these words too.
    if grep -v '^[>+]' "$log" | grep -q 'Adding new snapshot'; then
      echo "tests: a snapshot is missing from tests/testthat/_snaps:" >&2
      grep -v '^[>+]' "$log" | grep -A 2 'Adding new snapshot' >&2
      return 1
    fi
  done
}

sum_column() {
  cat .build/*-report.csv 2>/dev/null |
    awk -F , -v column="$1" '/^[0-9]/ { sum += $column } END { print sum + 0 }'
}

# A suite that was ended by its limit has written no table: its files have, each when it came to its end.
tell_unended_suite() {
  local logs=$checked/tests/suite-logs name
  [ -d "$logs" ] && [ ! -f .build/suite-report.csv ] || return 0
  printf '\nthe suite did not end; of its %d test files %d did, and what failed in them:\n' \
    "$(ls "$checked"/tests/testthat/test-*.R | wc -l)" "$(ls "$logs" | grep -c -- '-times.csv$')"
  cat "$logs"/*-failures.txt 2>/dev/null | cut -c 1-120 | head -n 16
  for name in $(cd "$logs" && ls -- *.log); do
    name=${name%.log}
    [ -f "$logs/$name.csv" ] || printf 'not at its end: %s: %s\n' "$name" "$(tail -n 1 "$logs/$name.log" | cut -c 1-100)"
  done
}

# Those of structures and floors, and those of what was measured.
tables_of_docs() {
  local status=0
  Rscript --vanilla tools/docs.R --check || status=1
  Rscript --vanilla bench/README-table.R --check || status=1
  return $status
}

in_checked() { R_LIBS="$checked:$R_LIBS" "$@"; }

# Programs without R are compiled while R CMD check does what keeps one core busy; their steps come later, and
# say what could not be compiled.
cores=$(getconf _NPROCESSORS_ONLN)
for part in c cpp fuzz; do
  timeout -k 5 1800 make -s -k -C tests/$part programs
done </dev/null >/dev/null 2>&1 &
programs=$!

step "floors" Rscript --vanilla tools/check-floors.R
step "tables of the docs" tables_of_docs
step "places of the mutants" tools/mutate.sh --check
# Test files wait more than they count: as many at a time as there are cores, but no crowd.
export REGATTA_TEST_REPORT=$PWD/.build/suite-report.csv
jobs=${REGATTA_TEST_JOBS:-$((cores > 4 ? 4 : cores))}
export REGATTA_TEST_JOBS=$jobs
step "R CMD check with the test suite, and nothing left behind" \
  tools/leak-watch.sh tools/check-package.sh
unset REGATTA_TEST_REPORT REGATTA_TEST_JOBS
step "skips and snapshots" check_suite_log
step "entry points" Rscript --vanilla tools/check-nonapi.R "$checked"/regatta/libs/*.so
step "leaks" in_checked tools/leak-watch.sh Rscript --vanilla tools/leak-check.R
wait "$programs"
step "C mechanisms without R" timeout -k 5 900 make -s -j"$cores" -C tests/c test
if [ -f tests/cpp/Makefile ]; then
  step "C++ headers without R" timeout -k 5 900 make -s -j"$cores" -C tests/cpp test
else
  skip_step "C++ headers without R" "there is no tests/cpp"
fi
step "damaged chunks and files without R" timeout -k 5 900 make -s -j"$cores" -C tests/fuzz test
for example in examples/*/DESCRIPTION; do
  if [ ! -f "$example" ]; then continue; fi
  folder=$(dirname "$example")
  if [ -f "$folder/UNFINISHED" ]; then
    skip_step "$folder" "$(head -n 1 "$folder/UNFINISHED")"
    continue
  fi
  step "$folder" tools/leak-watch.sh tools/test-example.sh "$folder" \
    ".build/$(basename "$folder")-report.csv"
done

# A userland for the newest R is made in ten minutes, and the files take as long again as here: as many as there is
# time for are run, those first that take least.
left=$((${REGATTA_TEST_WITHIN:-0} - SECONDS))
if [ -z "${REGATTA_TEST_WITHIN:-}" ]; then
  skip_step "the newest R" "\`make test-current-r\` makes a userland for it and takes as long again"
elif [ "$left" -lt 1500 ]; then
  skip_step "the newest R" "$left of $REGATTA_TEST_WITHIN seconds are left, 1500 would do"
else
  step "the newest R" env REGATTA_CURRENT_R_SECONDS="$left" REGATTA_TEST_LIMIT=400 REGATTA_TEST_JOBS="$jobs" \
    tools/current-r.sh
  if why=$(grep -m 1 '^current R: skipped' "$log"); then lines[-1]="skipped the newest R: ${why#*skipped, }"; fi
fi

printf '\n'
printf '%s\n' "${lines[@]}"
# Once more what failed, at the end: often nothing else of a long log is kept.
cat .build/*-failures.txt 2>/dev/null | cut -c 1-120 | head -n 16
tell_unended_suite
for ((i = 0; i < ${#unexplained[@]}; i += 2)); do
  printf '\nthe end of "%s":\n' "${unexplained[i]}"
  grep -vE '^(\* checking .* )?\.* ?OK$|^$' "${unexplained[i + 1]}" | tail -n 12 | cut -c 1-120
done
failed=$(($(sum_column 2) + other_failures))
printf '\n%d passed, %d failed, %d skipped\n' "$(sum_column 1)" "$failed" "$(sum_column 3)"
[ "$failed" = 0 ]
