#!/bin/sh
# Makes a picture of the matrix on the page of a stored run.
# usage: scripts/picture.sh RUN FILE.png          (layermark in PATH, or LAYERMARK=FILE)
set -eu
[ $# = 2 ] || {
    echo "usage: $0 RUN FILE.png" >&2
    exit 2
}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
"${LAYERMARK:-layermark}" report "$1" -o "$stage/page.html" >"$stage/log" 2>&1 || {
    cat "$stage/log" >&2
    exit 1
}
picture=$(realpath "$2")
cd "$(dirname "$0")/../tests/browser"
npm ci --silent --no-audit --no-fund
node picture.mjs "$stage/page.html" "$picture"
echo "picture: $picture"
