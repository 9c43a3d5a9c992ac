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

# The tests of PACKAGE, one of those around future, that try all plans of future: with plan(regatta) beside the
# sequential one, which they compare it with. Those of its other files run no future. A case is a file.
#   peers_testme NAME PACKAGE
peers_testme() {
  local name=$1 package=$2 libs="$newest:$R_LIBS:$peers/lib" tests=$peers/$1-tests version file case log
  rm -rf "$tests"
  cp -r "$newest/$package/testme" "$tests"
  sed -i 's/future:::supportedStrategies([^)]*)/c("sequential", "regatta")/' "$tests"/*.R "$tests"/_prologue/*.R
  echo 'library(regatta)' >"$tests/_prologue/000.regatta.R"
  version=$(R_LIBS=$libs Rscript --vanilla -e "cat(format(packageVersion('$package')))")
  : >"$peers/$name.tsv"
  for file in "$tests"/test-*.R; do
    if ! grep -qE 'c\("sequential", "regatta"\)|supportedStrategies\(' "$file"; then continue; fi
    case=$(basename "$file" .R)
    case=${case#test-}
    log=$tests/$case.log
    (cd "$tests" && R_LIBS=$libs NOT_CRAN=true R_TESTME_PATH=$tests R_TESTME_PACKAGE=$package R_TESTME_NAME=$case \
      timeout -k 5 300 Rscript --vanilla run.R >"$log" 2>&1 </dev/null)
    if grep -q '^Test .* [.][.][.] skipped$' "$log"; then
      printf '%s %s: %s\tskipped\tby its own conditions\n' "$package" "$version" "$case"
    elif ! grep -q '^Test .* [.][.][.] success$' "$log"; then
      printf '%s %s: %s\tfailed\t%s\n' "$package" "$version" "$case" "$(tail -n 3 "$log" | tr '\n\t' '  ')"
    elif ! grep -q "^ *[-*] plan(.*'regatta'" "$log"; then
      printf '%s %s: %s\tfailed\tit has not used the plan\n' "$package" "$version" "$case"
    else
      printf '%s %s: %s\tpassed\t\n' "$package" "$version" "$case"
    fi >>"$peers/$name.tsv"
  done
}
