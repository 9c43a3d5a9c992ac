# What the scripts of the peers share; read by `source tools/peers-lib.sh`.
peers=$PWD/.build/peers
mkdir -p "$peers/lib"

# R with the peers' own library behind that of the tree, which holds this package.
peers_r() { R_LIBS="$R_LIBS:$peers/lib" "$@"; }

# The whole peer, or the part NAME of its cases, cannot be had.
peers_skip() {
  printf 'peers: %s: skipped, %s\n' "$1" "$2"
  printf 'passed,failed,skipped\n0,0,1\n' >"$peers/$1.csv"
  exit 0
}

# The sources of R packages, unpacked as .build/peers/src/PACKAGE, and what they need installed.
peers_fetch() { peers_r Rscript --vanilla tools/peers-fetch.R "$peers" "$@"; }
