#!/usr/bin/env bash
# Runs the first target of the Makefile, which builds, then the others beside each other. Prints the time of each, and a
# summary of the tests: the slowest, the skipped and the flaky ones.
# usage: scripts/test.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
results=${CARGO_TARGET_DIR:-target}/nextest
rm -rf "$results"
logs=$(mktemp -d)
finish() {
    # What still runs after a failure: each pass is a process group.
    jobs -p | sed 's/^/-/' | xargs -r kill -- 2>/dev/null || true
    echo
    scripts/test-summary.py "$results"/*/junit.xml || true
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
run "$1"
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
