#!/usr/bin/env bash
# Draws README's animated terminal: a run of two layers, as it was recorded. termtosvg (PyPI) plays each frame for at
# most a quarter of a second.
# usage: scripts/terminal-svg.sh BIN [SVG]
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN [SVG]}")
cd "$(dirname "$0")/.."
svg=$(realpath "${2:-docs/src/terminal.svg}")
stage=$(mktemp -d /var/tmp/layermark-terminal.XXXXXX)
trap 'rm -rf "$stage"' EXIT
python3 -m venv "$stage/venv"
"$stage/venv/bin/pip" install --quiet --disable-pip-version-check termtosvg==1.1.0
mkdir "$stage/work" "$stage/bin"
ln -s "$bin" "$stage/bin/layermark"
# -o: the default path of the report would show directories of this machine.
run='layermark run -l overlay:writecopy -l fuse --budget 60s -o report.html'
cat >"$stage/session" <<IN
#!/bin/sh
cd "$stage/work"
echo '$ $run'
PATH="$stage/bin:\$PATH" HOME="$stage/work" $run
sleep 1
IN
chmod +x "$stage/session"
# It needs a terminal, which a shell in the background lacks.
script -qec "$stage/venv/bin/termtosvg record $stage/cast -g 80x36 -c $stage/session" /dev/null </dev/null >/dev/null
"$stage/venv/bin/termtosvg" render "$stage/cast" "$svg" -M 250 -D 8000 -t window_frame
