#!/usr/bin/env bash
# Builds the tarball and lets R CMD check judge it: no error, no warning, no note.
#   tools/check-package.sh [--no-tests]        further flags are in REGATTA_CHECK_FLAGS
set -euo pipefail
mkdir -p .build
tests=${1:-}

# R CMD check passes these on to the package; a check must not depend on who runs it.
# Nor on how fast the machine is: no limit in seconds but that on the suite below.
unset _R_CHECK_LIMIT_CORES_ R_TESTS "${!_R_CHECK_TIMINGS_@}" "${!_R_CHECK_EXAMPLE_TIMING_@}" \
  "${!_R_CHECK_VIGNETTE_TIMING_@}" "${!_R_CHECK_TEST_TIMING_@}" "${!_R_CHECK_ELAPSED_TIMEOUT_@}" \
  "${!_R_CHECK_EXAMPLES_ELAPSED_TIMEOUT_@}" "${!_R_CHECK_ONE_VIGNETTE_ELAPSED_TIMEOUT_@}" \
  "${!_R_CHECK_BUILD_VIGNETTES_ELAPSED_TIMEOUT_@}" "${!_R_CHECK_INSTALL_ELAPSED_TIMEOUT_@}"
export _R_CHECK_FORCE_SUGGESTS_=false
export _R_CHECK_PACKAGE_DEPENDS_IGNORE_MISSING_ENHANCES_=true
export _R_CHECK_CRAN_INCOMING_=false
export _R_CHECK_CRAN_INCOMING_REMOTE_=false
export _R_CHECK_SYSTEM_CLOCK_=false
export _R_CHECK_TESTS_NLINES_=0
# Building the vignettes again runs their code: it is not run once more by itself, as for CRAN.
export _R_CHECK_VIGNETTES_SKIP_RUN_MAYBE_=true
# Test files that would begin later are skipped by name, and one takes so long at most (tests/testthat.R).
export REGATTA_SUITE_SECONDS=${REGATTA_SUITE_SECONDS:-3300} REGATTA_FILE_SECONDS=${REGATTA_FILE_SECONDS:-900}
export _R_CHECK_TESTS_ELAPSED_TIMEOUT_=$((REGATTA_SUITE_SECONDS + REGATTA_FILE_SECONDS + 100))
export NOT_CRAN=true
export MAKEFLAGS="-j$(getconf _NPROCESSORS_ONLN)"

# Vignettes need an engine, and one of them needs pandoc; without them the code is still checked.
build_flags=()
check_flags=(--no-manual)
can_build_vignettes() {
  Rscript --vanilla -e 'q(status = !requireNamespace("knitr", quietly = TRUE))' || return 1
  ! grep -qs 'VignetteEngine{knitr::rmarkdown}' vignettes/*.Rmd || command -v pandoc >/dev/null
}
if ls vignettes/*.Rmd >/dev/null 2>&1 && ! can_build_vignettes; then
  echo "check: skipped by name: vignettes (knitr or pandoc is missing)"
  build_flags+=(--no-build-vignettes)
  check_flags+=(--ignore-vignettes)
fi
# R CMD build makes the vignettes of these very sources; CRAN's check makes them again.
if [ -n "${REGATTA_CHECK_FLAGS:-}" ]; then check_flags+=("$REGATTA_CHECK_FLAGS"); else check_flags+=(--no-vignettes); fi
if [ "${REGATTA_CHECK_FLAGS:-}" = --as-cran ]; then
  Rscript --vanilla tools/local-repository.R .build/repository
  export R_REPOSITORIES=$PWD/.build/repository/repositories
fi
if [ "$tests" = --no-tests ]; then check_flags+=(--no-tests); fi

rm -rf .build/regatta.Rcheck .build/regatta_*.tar.gz
stage=$(tools/stage.sh)
if ! (cd .build && R CMD build "${build_flags[@]}" "${stage#.build/}") >.build/build.log 2>&1; then
  tail -n 40 .build/build.log >&2
  echo "check: the tarball could not be built; the whole log is .build/build.log" >&2
  exit 1
fi

tarball=$(ls .build/regatta_*.tar.gz)
echo "check: R CMD check of ${tarball##*/}"
status=0
(cd .build && R CMD check "${check_flags[@]}" "${tarball##*/}") || status=$?

log=.build/regatta.Rcheck/00check.log
if [ "$status" != 0 ] || ! grep -qx 'Status: OK' "$log"; then
  echo "check: FAILED: $(grep '^Status:' "$log" || echo 'R CMD check did not finish')" >&2
  # What was not found in order, with what was said of it.
  awk '/^\* / { bad = / (NOTE|WARNING|ERROR)$/ } /^Status:/ { bad = 0 } bad' "$log" | head -n 24 >&2
  echo "check: details in .build/regatta.Rcheck/; what was found:" >&2
  awk '/^[*] / { on = /(NOTE|WARNING|ERROR)$/ } on' "$log" | cut -c 1-120 | head -n 9 >&2
  exit 1
fi
echo "check: 0 errors, 0 warnings, 0 notes"
