#!/bin/sh
# Tests of python/: the reader of reports, and the exports, read by the parsers of the programs that they are for; and of
# action.yml.
# usage: scripts/test-python.sh BIN
set -eu
[ $# = 1 ] || {
    echo "usage: $0 BIN" >&2
    exit 2
}
bin=$(realpath "$1")
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-target}/python
# Without python3-venv there is a python3 in it and no pip.
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" || {
    rm -rf "$venv"
    echo "test-python: skipped: no venv; hint: apt-get install python3-venv" >&2
    exit 0
}
# What is missing is told by the tests that need it.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --requirement python/tests/requirements.txt ||
    echo "test-python: some packages could not be had" >&2
stage=$(mktemp -d /var/tmp/layermark-python.XXXXXX)
trap 'rm -rf "$stage"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$stage/native" "$stage/other"
"$bin" file --op read,rand-read --record 4K,64K --file-size 256K --dir "$stage/native" -l "dir:$stage/other" --blocks 3 \
    --sessions 1 --store "$stage/store.db" -o "$stage/x.json" -o "$stage/x.prom" -o "$stage/x.bmf.json" \
    -o "$stage/x.github-benchmark.json" >/dev/null 2>"$stage/log" || [ $? = 4 ] || {
    cat "$stage/log" >&2
    exit 1
}
export REPORTS="$stage" PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1
"$venv/bin/python3" -m unittest discover -s python/tests
# The schema of actions that the package has in itself.
if [ -x "$venv/bin/check-jsonschema" ]; then
    "$venv/bin/check-jsonschema" --quiet --builtin-schema vendor.github-actions action.yml
fi
if [ -x "$venv/bin/mypy" ]; then
    "$venv/bin/mypy" --strict --ignore-missing-imports --cache-dir "$stage/mypy" python/layermark
fi
