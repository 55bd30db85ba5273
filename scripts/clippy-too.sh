#!/bin/sh
# Compiles a crate of this workspace, and then lets clippy look at it, so that what it depends on is compiled once for both:
# `cargo clippy` after a build has to read all dependencies again. Warnings are errors.
# usage: RUSTC_WORKSPACE_WRAPPER=scripts/clippy-too.sh cargo build --workspace --all-targets
set -eu
"$@"
# cargo also asks the compiler what it is. And what `cargo install` builds is a workspace, of others.
[ "${CARGO_PRIMARY_PACKAGE:-}" ] || exit 0
# Either path may lead through links.
case $(cd "$CARGO_MANIFEST_DIR" && pwd -P) in
"$(cd "$(dirname "$0")/.." && pwd -P)"/*) ;;
*) exit ;;
esac
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# The same arguments, but nothing is generated, and cargo hears of no other files.
left=$#
while [ "$left" -gt 0 ]; do
    case $1 in
    --emit=*) set -- "$@" --emit=metadata ;;
    --json=*) set -- "$@" "$(echo "$1" | sed 's/,artifacts//; s/=artifacts,/=/')" ;;
    --out-dir)
        set -- "$@" --out-dir "$stage"
        shift
        left=$((left - 1))
        ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done
clippy-driver "$@" -D warnings
