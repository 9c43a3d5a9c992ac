#!/usr/bin/env bash
# The package and its test files on the newest R that Debian has, in a userland beside this one.
#   tools/current-r.sh [--check | --bounded | NAME ...]
# Without names all test files are run; by --check R CMD check --as-cran alone, by --bounded what cbmc
# checks, which not every Debian has (tests/models). The last line of tests is "N passed, N failed,
# N skipped". What this machine does not allow or cannot get is said and skipped, with status 0.
#   REGATTA_CURRENT_R           folder of the userlands (.build/current-r); one that is there is used
#   REGATTA_CURRENT_R_SECONDS   how long all of it may take (5400); a file that would begin later is
#                               skipped by name
#   REGATTA_CURRENT_R_MIRROR    Debian's mirror; without it the one that apt uses here
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=${REGATTA_CURRENT_R:-$PWD/.build/current-r}
limit=${REGATTA_CURRENT_R_SECONDS:-5400}
mkdir -p .build "$home"
log=$PWD/.build/current-r.log
: >"$log"

say() { printf 'current R: %s\n' "$*"; }
skip() {
  say "skipped, $*"
  printf '\n0 passed, 0 failed, 0 skipped\n'
  exit 0
}

# within SECONDS command ...: the command, for at most that long and no longer than all may take.
within() {
  local most=$1 left=$((limit - SECONDS))
  shift
  if [ "$left" -lt "$most" ]; then most=$left; fi
  [ "$most" -gt 0 ] || return 124
  timeout -k 10 "$most" "$@" 8>&- &
  running=$!
  wait "$running"
  local status=$?
  running=
  return "$status"
}

# A group of processes of its own does not hear of the end of this one.
running=
trap 'if [ -n "$running" ]; then kill "$running" 2>/dev/null; wait "$running"; fi; exit 130' INT TERM HUP

# Runs a command in the userland $1. Mounts and processes are in namespaces of their own: both end with
# the command, however it ends, so that nothing stays mounted when the folder is removed.
in_userland='
  root=$1
  shift
  mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/dev/shm" &&
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/tmp" || exit 3
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive NOT_CRAN=true CI="${CI:-}" \
    REGATTA_TEST_JOBS="${REGATTA_TEST_JOBS:-}" REGATTA_TEST_LIMIT="${REGATTA_TEST_LIMIT:-}" \
    REGATTA_TEST_SECONDS="${REGATTA_TEST_SECONDS:-}" "$@"
'
own_namespaces=(unshare --mount --propagation private --pid --fork --kill-child)
enter() { within "$1" "${own_namespaces[@]}" bash -c "$in_userland" bash "${@:2}"; }

mirror() {
  if [ -n "${REGATTA_CURRENT_R_MIRROR:-}" ]; then printf '%s\n' "$REGATTA_CURRENT_R_MIRROR"; return; fi
  # Where the suites of Debian itself are kept, security updates are not.
  apt-get indextargets --format '$(ORIGIN) $(CREATED_BY) $(SUITE) $(REPO_URI)' 2>/dev/null |
    awk '$1 == "Debian" && $2 == "Packages" && $3 !~ /security/ { print $4; exit }'
}

# Debian's names of the R packages that the tests use, and what those of the system need. Of Bioconductor those that
# have HDF5 matrices, whose newer generation (S4Arrays, SparseArray) no older R has.
packages() {
  printf '%s\n' r-base-core r-base-dev libhdf5-dev libdeflate-dev libsodium-dev python3-h5py procps devscripts cbmc
  printf 'r-bioc-%s\n' delayedarray delayedmatrixstats hdf5array rhdf5 sparsearray
  Rscript --vanilla tools/setup.R wanted test | tr '[:upper:]' '[:lower:]' |
    awk '$1 !~ /^(compiler|grdevices|graphics|methods|parallel|stats|tools|utils)$/ { print "r-cran-" $1 }' | sort -u
}

# What is to be had of the packages $@ is installed; the rest is named.
install_packages='
  update="apt-get -q -o Acquire::Check-Valid-Until=false -o Acquire::Retries=3"
  $update update || exit 1
  there=() missing=()
  for name in "$@"; do
    if apt-cache policy "$name" | grep -q "Candidate: [0-9]"; then there+=("$name"); else missing+=("$name"); fi
  done
  $update install -y --no-install-recommends "${there[@]}" || exit 1
  apt-get clean
  if [ "${#missing[@]}" -gt 0 ]; then echo "not in Debian: ${missing[*]}"; fi
  Rscript --vanilla -e "stopifnot(requireNamespace(\"testthat\", quietly = TRUE))"
'

# A userland of the Debian suite $1 in $2, which only has its name when it is complete.
build() {
  local suite=$1 root=$2 part=$2.part
  rm -rf --one-file-system "$part"
  say "building a userland of Debian $suite in $root"
  # debootstrap mounts and unmounts by itself, and where it is stopped it does not.
  within 900 "${own_namespaces[@]}" debootstrap --variant=minbase "$suite" "$part" "$from" >>"$log" 2>&1 || return 1
  printf '#!/bin/sh\nexit 101\n' >"$part/usr/sbin/policy-rc.d"
  chmod 755 "$part/usr/sbin/policy-rc.d"
  install_into "$part" || return 1
  mv -T "$part" "$root"
}

install_into() {
  cp -L /etc/resolv.conf "$1/etc/resolv.conf"
  enter 1200 "$1" bash -c "$install_packages" bash "${wanted[@]}" >>"$log" 2>&1 || return 1
  printf '%s\n' "${wanted[@]}" >"$1/regatta-packages"
}

# One that is there serves for two weeks; packages that are wanted since are added.
is_ready() {
  [ -n "$(find "$1/regatta-packages" -mtime -14 2>/dev/null)" ] || return 1
  [ "$(cat "$1/regatta-packages")" = "$(printf '%s\n' "${wanted[@]}")" ] || install_into "$1"
}

[ "$(id -u)" = 0 ] || skip "only root may make a userland"
"${own_namespaces[@]}" mount -t tmpfs tmpfs "$home" 2>>"$log" || skip "this system lets nobody mount"
command -v apt-get >/dev/null || skip "there is no apt-get"
if ! command -v debootstrap >/dev/null; then
  say "installing debootstrap"
  { within 120 apt-get -q update; within 300 apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=200 debootstrap; } >>"$log" 2>&1
  command -v debootstrap >/dev/null || skip "debootstrap is not there and cannot be installed"
fi
from=$(mirror)
[ -n "$from" ] || skip "apt uses no mirror of Debian here"
# Two of them would build in one folder.
exec 8>"$home/.lock"
flock -w 60 8 || skip "another run uses $home"

mapfile -t wanted < <(packages)
root=
for suite in sid trixie; do
  if is_ready "$home/$suite"; then root=$home/$suite; break; fi
done
if [ -z "$root" ]; then
  for suite in sid trixie; do
    rm -rf --one-file-system "${home:?}/$suite"
    if build "$suite" "$home/$suite"; then root=$home/$suite; break; fi
    say "Debian $suite cannot be had:"
    tail -n 3 "$log" | sed 's/^/  /'
    rm -rf --one-file-system "$home/$suite.part"
  done
fi
[ -n "$root" ] || skip "no userland could be made from $from (.build/current-r.log)"
grep -h '^not in Debian' "$log"

stage=$(tools/stage.sh)
rm -rf --one-file-system "$root/tree"
cp -a "$stage" "$root/tree"
# A file that is begun has time to come to its end.
export REGATTA_TEST_SECONDS=$((limit - SECONDS - ${REGATTA_TEST_LIMIT:-600} - 20))
[ "$REGATTA_TEST_SECONDS" -gt 120 ] || skip "the userland is ready, but no time is left to use it"

status=0
enter "$limit" "$root" bash /tree/tools/current-r-suite.sh "$@" </dev/null || status=$?
if [ "$status" = 124 ] && [[ ${1:-} != --* ]] && [ -z "$(ls "$root/tree/.build/files" 2>/dev/null)" ]; then
  skip "the package was not installed within the $limit seconds that all may take"
fi
rm -rf .build/current-r-*
cp -a "$root/tree/.build/files" .build/current-r-files 2>/dev/null
cp .build/current-r-files/report.csv .build/current-r-report.csv 2>/dev/null
cp .build/current-r-files/report-failures.txt .build/current-r-failures.txt 2>/dev/null
cp "$root/tree/.build/install.log" .build/current-r-install.log 2>/dev/null
exit "$status"
