#!/bin/sh
# Takes docs' pictures of a page, as a phone and a desk show it: of the testkit's stored run `quiet`, so nothing is measured.
# usage: scripts/page-png.sh [DIRECTORY]
set -eu
into=$(realpath "${1:-$(dirname "$0")/../docs/src}")
cd "$(dirname "$0")/.."
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cargo run --quiet --locked --example sample -- fixtures "$stage"
(cd tests/browser && npm ci --silent --no-audit --no-fund && node pictures.mjs "$stage/quiet.html" "$stage")
# 64 colours: a page has few, and its letters stay smooth.
python3 -m venv "$stage/venv"
"$stage/venv/bin/pip" install --quiet --disable-pip-version-check pillow==11.3.0
"$stage/venv/bin/python" - "$stage" "$into" <<'PY'
import pathlib, sys
from PIL import Image
stage, into = map(pathlib.Path, sys.argv[1:])
for picture in sorted(stage.glob("page-*.png")):
    to = into / picture.name
    Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(to, optimize=True)
    print(to, to.stat().st_size, "bytes")
PY
