#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, then lists the time of each, the ten slowest tests, and tests that
# passed only when they were run alone.
# usage: scripts/test.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
times=
finish() {
    echo
    echo "slowest tests:"
    # awk reads to the end: after `head` a sort that still writes would end with SIGPIPE and fail the script.
    sed -nE 's/^test (.+) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' "$log" | sort -rn |
        awk 'NR <= 10 { seconds = $1; sub(/^[^ ]+ /, ""); printf "%7.1f s  %s\n", seconds, $0 }'
    sed -n '/^flaky: /p' "$log"
    printf '%s' "$times"
    rm -f "$log"
}
trap finish EXIT
for target; do
    begun=$SECONDS
    "${MAKE:-make}" --no-print-directory "$target" | tee -a "$log"
    times+="$target: $((SECONDS - begun)) s"$'\n'
done
