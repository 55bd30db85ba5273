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
# The three files beside each other: node takes one CPU less than there are, and a watched run is mostly waited for.
node --test --test-concurrency 3
