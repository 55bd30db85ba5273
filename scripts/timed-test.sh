#!/bin/sh
# Runs a test program for cargo (`target.*.runner`) and has it print the time of each test.
# libtest on stable Rust has that option too, for programs that find RUSTC_BOOTSTRAP. It is set here and not for
# cargo, which would build some dependencies again.
# usage: scripts/timed-test.sh PROGRAM [ARGUMENT...]
set -eu
case $1 in
*/deps/*)
    export RUSTC_BOOTSTRAP=1
    exec "$@" -Z unstable-options --report-time
    ;;
*) exec "$@" ;; # of a documentation test
esac
