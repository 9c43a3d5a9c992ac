#!/usr/bin/env bash
# Runs a command and fails if the command fails, or leaves a process, a file in its private
# temporary folder, or a shared memory object behind.
#   tools/leak-watch.sh command [argument ...]
# Processes are found by a mark in their environment, whoever their parent is by then. Nothing tells
# who has made an object of shared memory: so the command gets a folder of its own for them, in which
# other sessions make none. Where the system allows that to nobody, those count that are named as our
# tests and examples name theirs.
set -uo pipefail

# Runs "$@" with an empty /dev/shm: as root, or as an ordinary user who may have a namespace of users,
# whose rights end before the command begins.
with_own_shm() {
  local size mount
  size=$(df --output=size -k /dev/shm | tail -n 1)
  mount="mount -t tmpfs -o nosuid,nodev,mode=1777,size=${size// /}k tmpfs /dev/shm"
  if [ "$(id -u)" = 0 ]; then
    exec unshare --mount sh -c "$mount && exec \"\$@\"" sh "$@"
  fi
  exec unshare --user --map-current-user --keep-caps --mount sh -c \
    "$mount && exec setpriv --ambient-caps -all --inh-caps -all -- \"\$@\"" sh "$@"
}
if [ -z "${REGATTA_PRIVATE_SHM:-}" ] && (with_own_shm true) >/dev/null 2>&1; then
  export REGATTA_PRIVATE_SHM=1
  with_own_shm "$0" "$@"
fi

mark="REGATTA_LEAK_MARK=$$-$RANDOM-$(date +%s)"
# Short, because the path of a Unix socket has room for 107 bytes.
private=$(mktemp -d /tmp/rg.XXXXXX)
trap 'rm -rf "$private"' EXIT

marked_processes() {
  grep -lzxFs "$mark" /proc/[0-9]*/environ | cut -d / -f 3
}

shared_objects() {
  find /dev/shm -mindepth 1 -maxdepth 1 -user "$(id -u)" 2>/dev/null | sort |
    if [ -n "${REGATTA_PRIVATE_SHM:-}" ]; then cat; else grep -E '/(sem[.])?(rg|regatta)_'; fi
}

# Lines "process PID command", "file PATH", "shared memory PATH".
left_behind() {
  local pid
  for pid in $(marked_processes); do
    printf 'process %s %s\n' "$pid" "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"
  done
  find "$private" -mindepth 1 -maxdepth 1 -printf 'file %p\n'
  comm -13 <(printf '%s\n' "$shm_before") <(shared_objects) | sed '/^$/d; s/^/shared memory /'
}

shm_before=$(shared_objects)
env "$mark" TMPDIR="$private" REGATTA_PRIVATE_TMP=1 "$@"
status=$?

# What is still ending gets time to end.
deadline=$((SECONDS + 10))
left=$(left_behind)
while [ -n "$left" ] && [ "$SECONDS" -lt "$deadline" ]; do
  sleep 0.1
  left=$(left_behind)
done
if [ -n "$left" ]; then
  echo "leak: left behind by \`$*\`:" >&2
  sed 's/^/leak:   /' <<<"$left" >&2
  for pid in $(marked_processes); do kill -KILL "$pid" 2>/dev/null; done
  exit 1
fi
exit "$status"
