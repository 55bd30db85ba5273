#!/bin/sh
# Opens the HTML report in Debian's Chromium, offline.
set -eu
cd "$(dirname "$0")/../tests/browser"
command -v node >/dev/null && command -v chromium >/dev/null || {
    echo "test-browser: skipped: node or chromium is missing; hint: apt-get install nodejs npm chromium" >&2
    exit 0
}
npm ci --silent --no-audit --no-fund
node --test
