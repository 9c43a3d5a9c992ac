# What the scripts of the peers share; read by `source tools/peers-lib.sh`.
peers=$PWD/.build/peers
mkdir -p "$peers/lib"

# R with the peers' own library behind that of the tree, which holds this package.
peers_r() { R_LIBS="$R_LIBS:$peers/lib" "$@"; }

# The whole peer, or the part NAME of its cases, cannot be had.
peers_skip() {
  printf 'peers: %s: skipped, %s\n' "$1" "$2"
  printf 'passed,known,failed,skipped\n0,0,0,1\n' >"$peers/$1.csv"
  exit 0
}

# The sources of R packages, unpacked as .build/peers/src/PACKAGE, and what they need installed.
peers_fetch() { peers_r Rscript --vanilla tools/peers-fetch.R "$peers" "$@"; }

# The newest releases of packages that are made for the newest future, and that future itself, in a library of their
# own, $newest: other suites go with the installed one.
newest=$peers/lib-future
peers_newest() {
  mkdir -p "$newest"
  peers_r Rscript --vanilla tools/peers-future.R install "$newest" "$@" >>"$peers/future-install.log" 2>&1
}

# The tests of PACKAGE, one of those around future, that set a plan: with plan(regatta) beside the sequential one where
# they try all plans, and in the place of the plan that they set first elsewhere, on workers that do not inherit the
# session in the place of multisession. A case is a file; one that evaluates no future is skipped.
#   peers_testme NAME PACKAGE
peers_testme() {
  local name=$1 package=$2 libs="$newest:$R_LIBS:$peers/lib" tests=$peers/$1-tests version file case log launched
  rm -rf "$tests"
  cp -r "$newest/$package/testme" "$tests"
  sed -i 's/future:::supportedStrategies([^)]*)/c("sequential", "regatta")/' "$tests"/*.R "$tests"/_prologue/*.R
  cat >"$tests/_prologue/000.regatta.R" <<'R'
library(regatta)
local({
  launched <- Sys.getenv("PEERS_LAUNCHED")
  code <- bquote(file.create(.(launched)))
  suppressMessages(trace("future_launch", tracer = code, print = FALSE, where = asNamespace("regatta")))
})
R
  version=$(R_LIBS=$libs Rscript --vanilla -e "cat(format(packageVersion('$package')))")
  : >"$peers/$name.tsv"
  for file in "$tests"/test-*.R; do
    if ! grep -qE 'c\("sequential", "regatta"\)|supportedStrategies\(' "$file"; then
      sed -i -E '0,/^plan\((sequential|multisession, workers = 2L?)\)/s//plan(regatta_for_\1)/
        s/regatta_for_sequential/regatta, workers = 2/
        s/regatta_for_multisession.*\)/regatta, .on = cluster_local(2))/' "$file"
      if ! grep -q '^plan(regatta' "$file"; then continue; fi
    fi
    case=$(basename "$file" .R)
    case=${case#test-}
    log=$tests/$case.log
    launched=$tests/$case.launched
    (cd "$tests" && R_LIBS=$libs NOT_CRAN=true R_TESTME_PATH=$tests R_TESTME_PACKAGE=$package R_TESTME_NAME=$case \
      PEERS_LAUNCHED=$launched timeout -k 5 300 Rscript --vanilla run.R >"$log" 2>&1 </dev/null)
    if grep -q '^Test .* [.][.][.] skipped$' "$log"; then
      printf '%s %s: %s\tskipped\tby its own conditions\n' "$package" "$version" "$case"
    elif ! grep -q '^Test .* [.][.][.] success$' "$log"; then
      printf '%s %s: %s\tfailed\t%s\n' "$package" "$version" "$case" "$(tail -n 3 "$log" | tr '\n\t' '  ')"
    elif [ ! -e "$launched" ]; then
      printf '%s %s: %s\tskipped\tno future is evaluated\n' "$package" "$version" "$case"
    else
      printf '%s %s: %s\tpassed\t\n' "$package" "$version" "$case"
    fi >>"$peers/$name.tsv"
  done
}
