#!/usr/bin/env bash
# Installs what a goal of the Makefile needs and the machine lacks, and says what.
#   tools/setup.sh run|demo|test|peers|bench|site|valgrind|deep|models
# As root on Debian: system packages by apt-get, R packages too where Debian has them new enough.
# The rest, and everything for an ordinary user, comes from CRAN into .lib/ in this tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
goal=${1:?usage: tools/setup.sh run|demo|test|peers|bench|site|valgrind|deep|models}

say() { printf 'set-up: %s\n' "$*"; }
fail() { printf 'set-up: %s\n' "$*" >&2; exit 1; }

# Debian's R packages are built for Debian's R; with any other R they would not be found.
apt_here() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
debian_r() { apt_here && dpkg-query -S "$(R RHOME)/bin/R" >/dev/null 2>&1; }

# Others may hold the locks of apt: installing waits by itself, the update of the lists does not.
apt_update() {
  [ -z "${apt_is_fresh:-}" ] || return 0
  for try in 1 2 3 4 5 6; do
    if apt-get update -q >.build/apt.log 2>&1; then apt_is_fresh=1; return 0; fi
    sleep $((try * 2))
  done
  say "apt-get update failed (.build/apt.log); going on with the lists that are there"
}

# What comes now may be a library that regatta was built without: the next tools/install.sh builds it again. Packages
# of servers would start these; tests start their own.
apt_install() {
  say "installing Debian packages: $*"
  rm -f "$REGATTA_LIB/.regatta-sources"
  local policy= failed=
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    policy=/usr/sbin/policy-rc.d
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=600 "$@" >>.build/apt.log 2>&1 || failed=yes
  if [ -n "$policy" ]; then rm -f "$policy"; fi
  if [ -n "$failed" ]; then
    tail -n 20 .build/apt.log >&2
    fail "apt-get could not install: $*"
  fi
}

# The program `$1`, from the Debian package `$2`; `$3` says what it is for.
need_command() {
  command -v "$1" >/dev/null && return 0
  apt_here || fail "the command \`$1\` is missing ($3). Install it, on Debian: apt-get install $2"
  apt_update
  apt_install "$2"
}

need_file() {
  if [ ! -e "$1" ]; then
    apt_update
    apt_install "$2"
  fi
}

needs_pandoc() {
  [ "$goal" = site ] && return 0
  [ "$goal" = test ] && grep -qs 'VignetteEngine{knitr::rmarkdown}' vignettes/*.Rmd
}

# Reads "name version" lines of R packages and prints the Debian packages that satisfy them.
debian_names() {
  local name version lower candidate debian
  while read -r name version; do
    lower=$(tr '[:upper:]' '[:lower:]' <<<"$name")
    for debian in "r-cran-$lower" "r-bioc-$lower"; do
      candidate=$(apt-cache policy "$debian" 2>/dev/null | awk '/Candidate:/ { print $2 }')
      if [ -n "$candidate" ] && [ "$candidate" != "(none)" ] &&
        dpkg --compare-versions "$candidate" ge "$version"; then
        printf '%s\n' "$debian"
      fi
    done
  done
}

install_r_packages() {
  local wanted packages
  if debian_r; then
    apt_update
    wanted=$(Rscript --vanilla tools/setup.R closure "$1")
    mapfile -t packages < <(debian_names <<<"$wanted")
    if [ "${#packages[@]}" -gt 0 ]; then apt_install "${packages[@]}"; fi
  fi
  Rscript --vanilla tools/setup.R install "$1"
}

# In a tree that several people work in, one set-up runs at a time.
if [ -z "${REGATTA_LIB:-}" ]; then exec tools/with-lib.sh "$0" "$@"; fi
mkdir -p .build
if command -v flock >/dev/null; then
  exec 9>.lib/.lock
  flock 9
fi

need_command "$(R CMD config CC | cut -d ' ' -f 1)" build-essential "the C compiler of this R"
need_command "$(R CMD config CXX | cut -d ' ' -f 1)" build-essential "the C++ compiler of this R"
need_command nm binutils "reads the symbols of the built library"
if [ "$goal" = valgrind ] || [ "$goal" = deep ]; then need_command valgrind valgrind "finds errors of memory"; fi
if [ "$goal" = deep ]; then
  need_command clang clang "builds the package a second time"
  need_command checkbashisms devscripts "R CMD check --as-cran asks it about scripts"
  need_command qpdf qpdf "R CMD check --as-cran asks it about PDFs"
  if apt_here; then need_file /usr/lib/python3/dist-packages/clang/cindex.py python3-clang-14; fi
fi
if [ "$goal" = models ]; then
  need_command spin spin "make models"
  exit 0
fi
if [ "$goal" = bench ] && apt_here; then need_file /usr/include/tbb/version.h libtbb-dev; fi
# The package does without them, but its functions for HDF5 and for other hosts then only say so.
case $goal in
  demo | test | peers | bench | site)
    if apt_here; then
      need_file /usr/include/hdf5/serial/hdf5.h libhdf5-dev
      need_file /usr/include/libdeflate.h libdeflate-dev
      need_file /usr/include/sodium.h libsodium-dev
    fi
    ;;
esac
# What reads HDF5 files besides: tests and benchmarks compare with it.
if { [ "$goal" = test ] || [ "$goal" = bench ]; } && apt_here; then
  need_file /usr/lib/python3/dist-packages/h5py python3-h5py
  if debian_r; then
    for package in rhdf5 HDF5Array DelayedMatrixStats; do
      need_file "/usr/lib/R/site-library/$package" "r-bioc-${package,,}"
    done
  fi
fi
if [ "$goal" = test ] && apt_here; then
  plugins=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/hdf5/serial/plugins
  need_file "$plugins/libh5lz4.so" hdf5-filter-plugin
  need_file "$plugins/libH5Zblosc.so" hdf5-filter-plugin-blosc-serial
fi
# Hosts for tests: reached by ssh, brought by a Slurm of this machine, on links that can be cut or made slow, and nodes
# of MPI. Without them these tests are skipped by name.
need_hosts() {
  local packages=()
  [ -e /usr/sbin/sshd ] || packages+=(openssh-server)
  command -v slurmctld >/dev/null && command -v salloc >/dev/null || packages+=(slurm-wlm)
  [ -e /etc/munge/munge.key ] || packages+=(munge)
  command -v iptables >/dev/null || packages+=(iptables)
  command -v ip >/dev/null && command -v tc >/dev/null || packages+=(iproute2)
  if debian_r && [ ! -e /usr/lib/R/site-library/Rmpi ]; then packages+=(r-cran-rmpi r-cran-snow openmpi-bin); fi
  if [ "${#packages[@]}" -gt 0 ]; then
    apt_update
    (apt_install "${packages[@]}") || say "going on without: tests that need them will be skipped"
  fi
}
if [ "$goal" = test ] && apt_here; then need_hosts; fi
if needs_pandoc && apt_here; then need_command pandoc pandoc "builds the vignettes"; fi
if [ "$goal" = site ] || [ "$goal" = peers ]; then
  need_command python3 python3 "speaks to the browser"
  if apt_here; then need_command chromium chromium "looks at pages, an app and traces"; fi
fi

packages=$goal
if [ "$goal" = valgrind ] || [ "$goal" = deep ]; then packages=test; fi
missing=$(Rscript --vanilla tools/setup.R missing "$packages")
if [ -z "$missing" ]; then exit 0; fi
say "R packages that are missing: $(cut -d ' ' -f 1 <<<"$missing" | xargs)"
install_r_packages "$packages"
