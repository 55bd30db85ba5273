#!/usr/bin/env bash
# Runs targets of the Makefile in stages, those of a stage beside each other. Prints the time of each, and a summary of the
# tests: the slowest, the skipped and the flaky ones. If the first stage fails, which builds, nothing else runs. All other
# stages do, so that one run says everything that is wrong.
# usage: scripts/test.sh BUILD 'TARGET...'...
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
set -m
run "$1"
shift
failed=
for stage; do
    read -ra targets <<<"$stage"
    declare -A process=()
    # The first is the longest, and is seen at work.
    for target in "${targets[@]:1}"; do
        run "$target" >"$logs/$target.log" 2>&1 &
        process[$target]=$!
    done
    run "${targets[0]}" || failed="$failed ${targets[0]}"
    for target in "${targets[@]:1}"; do
        wait "${process[$target]}" || failed="$failed $target"
        cat "$logs/$target.log"
    done
done
[ -z "$failed" ] || {
    echo "test: failed:$failed"
    exit 1
}
