#!/bin/sh
# Runs a test program for cargo (`target.*.runner`), with the time of each test printed.
# On stable Rust, libtest accepts that option only with RUSTC_BOOTSTRAP. It is set here and not for cargo, which would
# build some dependencies again.
# usage: scripts/timed-test.sh PROGRAM [ARGUMENT...]
set -eu
case $1 in
*/deps/*)
    export RUSTC_BOOTSTRAP=1
    exec "$@" -Z unstable-options --report-time
    ;;
*) exec "$@" ;; # a documentation test
esac
