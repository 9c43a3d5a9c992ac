#!/usr/bin/env bash
# Puts the faults of tools/mutants.dcf into copies of the tree, one at a time, and says which of them the
# tests notice: see tools/mutate.R. What it has started carries a mark in its environment, and is
# ended by that when this ends, however it does.
set -uo pipefail
mark="REGATTA_MUTATE_MARK=$$-$RANDOM-$(date +%s)"

marked_processes() {
  grep -lzxFs "$mark" /proc/[0-9]*/environ | cut -d / -f 3
}

end_marked() {
  local pid
  for pid in $(marked_processes); do kill -KILL "$pid" 2>/dev/null; done
}

mkdir -p .build/mutate
exec 9>.build/mutate/lock
if ! flock -n 9; then
  echo "mutate: it runs in this tree already" >&2
  exit 2
fi
trap end_marked EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
env "$mark" Rscript --vanilla tools/mutate.R "$@" 9>&- &
wait $!
exit $?
