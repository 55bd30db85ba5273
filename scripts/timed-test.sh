#!/usr/bin/env bash
# Runs a test program for cargo (`target.*.runner`), with the time of each test printed.
# Tests run beside each other and share two cores with what they measure. A test that fails so is run once more, without those. If
# it passes then, the program passes, and a line `flaky: NAME` says so. Lines `why:` say how it failed. scripts/test.sh lists
# these lines at its end.
# On stable Rust, libtest accepts the option only with RUSTC_BOOTSTRAP. It is set here and not for cargo, which would
# build some dependencies again.
# usage: scripts/timed-test.sh PROGRAM [ARGUMENT...]
set -euo pipefail
case $1 in
*/rustdoctest*) exec "$@" ;;
esac
export RUSTC_BOOTSTRAP=1
timed=(-Z unstable-options --report-time)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$@" "${timed[@]}" 2>&1 | tee "$log" || status=$?
[ "$status" -ne 0 ] || exit 0
mapfile -t failed < <(sed -nE 's/^test (.+) \.\.\. FAILED.*/\1/p' "$log" | sort -u)
# More than a few are no accident, and neither is a program that ended by itself.
[ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le 3 ] || exit "$status"
grep -q '^test result: FAILED' "$log" || exit "$status"
# What a test said when it failed: a few lines, from its panic on if there is one.
why() {
    awk -v begin="---- $1 " '
        index($0, begin) == 1 { inside = 1; next }
        /^---- / || /^failures:$/ || /^test result: / { inside = 0 }
        inside && /panicked at/ && !panicked { panicked = 1; n = 0 }
        inside && NF && n < 25 { lines[n++] = $0 }
        END { for (i = 0; i < n; i++) print "why: " lines[i] }' "$log"
}
for name in "${failed[@]}"; do
    why "$name"
    echo "retry: $name, alone"
    "$1" --exact "$name" "${timed[@]}" || exit "$status"
    echo "flaky: $name failed beside other tests and passed alone"
done
