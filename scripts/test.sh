#!/usr/bin/env bash
# Runs the first target of the Makefile, which builds, then the others beside each other. Lists the time of each, the ten
# slowest tests, tests that passed only when they were run a second time, and why tests failed.
# usage: scripts/test.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
finish() {
    # What still runs after a failure: each pass is a process group.
    jobs -p | sed 's/^/-/' | xargs -r kill -- 2>/dev/null || true
    echo
    echo "slowest tests:"
    # awk reads to the end: after `head` a sort that still writes would end with SIGPIPE and fail the script.
    cat "$logs"/*.log 2>/dev/null | sed -nE 's/^test (.+) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' | sort -rn |
        awk 'NR <= 10 { seconds = $1; sub(/^[^ ]+ /, ""); printf "%7.1f s  %s\n", seconds, $0 }' || true
    cat "$logs"/*.log 2>/dev/null | grep -E '^(flaky|why): ' || true
    cat "$logs"/*.time 2>/dev/null || true
    rm -rf "$logs"
}
trap finish EXIT
run() {
    local begun=$SECONDS status=0
    "${MAKE:-make}" --no-print-directory "$1" || status=$?
    echo "$1: $((SECONDS - begun)) s" >"$logs/$1.time"
    return "$status"
}
run "$1" 2>&1 | tee "$logs/$1.log"
shift
declare -A process
set -m
for target; do
    run "$target" >"$logs/$target.log" 2>&1 &
    process[$target]=$!
done
failed=
for target; do
    wait "${process[$target]}" || failed="$failed $target"
    cat "$logs/$target.log"
done
[ -z "$failed" ] || {
    echo "test: failed:$failed"
    exit 1
}
