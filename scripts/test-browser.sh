#!/bin/sh
# Opens the HTML report offline, and pages of running runs, in Debian's Chromium.
set -eu
cd "$(dirname "$0")/../tests/browser"
for program in node chromium; do
    command -v "$program" >/dev/null || {
        echo "test-browser: skipped: $program is missing; hint: apt-get install nodejs npm chromium" >&2
        exit 0
    }
done
npm ci --silent --no-audit --no-fund
node --test
