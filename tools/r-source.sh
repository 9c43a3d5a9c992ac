#!/usr/bin/env bash
# The tests and help pages of package parallel of the R that runs, into FOLDER.
#   tools/r-source.sh FOLDER
set -euo pipefail
to=$(cd "$1" && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
version=$(Rscript --vanilla -e 'cat(format(getRversion()))')

# A list of Debian's sources of its own: the machine's lists stay as they are.
from_debian() {
  dpkg-query -S "$(R RHOME)/bin/R" >/dev/null 2>&1 || return 1
  local archive package options
  archive=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' \
    'Component: main' | head -n 1)
  package=$(dpkg-query -W -f '${source:Package}=${source:Version}' r-base-core)
  mkdir -p "$here/lists/partial"
  chmod -R a+rX "$here"
  printf 'deb-src %s main\n' "$archive" >"$here/sources.list"
  options=(-q -o "Dir::Etc::SourceList=$here/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$here/lists" -o "Dir::Cache::pkgcache=$here/pkg.bin"
    -o "Dir::Cache::srcpkgcache=$here/src.bin")
  (cd "$here" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only \
    "$package") || return 1
  find "$here" -name 'r-base_*.orig.tar.*'
}

from_cran() {
  local file=$here/R.tar.gz
  Rscript --vanilla -e '
    a <- commandArgs(TRUE)
    mirror <- sub("/$", "", utils::getCRANmirrors(local.only = TRUE)$URL[[1]])
    url <- sprintf("%s/src/base/R-%s/R-%s.tar.gz", mirror, substr(a[1], 1, 1), a[1])
    quit(status = utils::download.file(url, a[2], quiet = TRUE))' "$version" "$file" >&2 || return 1
  printf '%s\n' "$file"
}

tarball=$(from_debian | tail -n 1) || true
if [ -z "$tarball" ]; then tarball=$(from_cran); fi
echo "r-source: R $version from $tarball"
tar -xf "$tarball" -C "$to" --strip-components=4 --wildcards '*/src/library/parallel/*'
