#!/usr/bin/env bash
# Runs a command, and stops it and all that it has started for some seconds, again and again, as a virtual
# machine stands still that its host does not schedule: the clock goes on, and nobody hears of it. Nobody may
# be taken for dead who had no chance to speak, and no test may rest on what a few seconds suffice for.
#   tools/pauses.sh command [argument ...]
# PAUSES_APART="5 10" and PAUSES_LONG="3 8" are the least and the most seconds between pauses and of each.
# Needs root, for a control group whose processes are frozen together, of version 2 or 1.
set -euo pipefail
read -r apart_least apart_most <<<"${PAUSES_APART:-5 10}"
read -r long_least long_most <<<"${PAUSES_LONG:-3 8}"

# File, and what is written to it to stop the group and to let it go on.
group=
while read -r _ mount type options _; do
  case $type,$options, in
    cgroup2,*) switch=(cgroup.freeze 1 0) ;;
    cgroup,*,freezer,*) switch=(freezer.state FROZEN THAWED) ;;
    *) continue ;;
  esac
  group=$mount/regatta-pauses-$$
  if mkdir "$group" 2>/dev/null && [ -w "$group/${switch[0]}" ]; then break; fi
  rmdir "$group" 2>/dev/null || true
  group=
done </proc/mounts
if [ -z "$group" ]; then
  echo "pauses: no control group can be made here: that needs root, and a mounted cgroup2 or cgroup of freezer" >&2
  exit 1
fi

go_on() { echo "${switch[2]}" >"$group/${switch[0]}"; }
# What is left in the group is the command's, ended with this.
cleanup() {
  go_on
  for _ in $(seq 50); do
    if rmdir "$group" 2>/dev/null; then return; fi
    while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done <"$group/cgroup.procs"
    sleep 0.1
  done
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

between() { awk -v a="$1" -v b="$2" -v r="$RANDOM" 'BEGIN { printf "%.2f", a + (b - a) * r / 32767 }'; }

sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" &
command=$!
while kill -0 "$command" 2>/dev/null; do
  sleep "$(between "$apart_least" "$apart_most")"
  kill -0 "$command" 2>/dev/null || break
  echo "${switch[1]}" >"$group/${switch[0]}"
  sleep "$(between "$long_least" "$long_most")"
  go_on
done
wait "$command"
