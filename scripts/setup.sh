#!/bin/sh
# Installs what `make run`, `make test` or `make bench` needs and is not there. Quick when nothing is missing.
# usage: scripts/setup.sh run|test|bench
set -eu
# mkfs and friends are not in an unprivileged user's PATH.
PATH="$PATH:/usr/sbin:/sbin"

# program:package for each purpose
RUN="cc:gcc mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mksquashfs:squashfs-tools squashfuse:squashfuse mkfs.erofs:erofs-utils fusermount3:fuse3"
TEST="$RUN sqlite3:sqlite3 unshare:util-linux ip:iproute2 node:nodejs npm:npm chromium:chromium"
BENCH="$RUN fio:fio"

case "${1:-}" in
run) wanted=$RUN ;;
test) wanted=$TEST ;;
bench) wanted=$BENCH ;;
*) echo "usage: $0 run|test|bench" >&2; exit 2 ;;
esac

if ! command -v cargo >/dev/null; then
    echo "setup: cargo is missing: install Rust 1.95 or newer, then start again" >&2
    echo "hint: apt-get install rustup && rustup default stable   (or see https://rustup.rs)" >&2
    exit 1
fi

missing=
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then as_root=; elif sudo -n true 2>/dev/null; then as_root=sudo; else
    echo "setup: without root these stay out:$missing" >&2
    echo "hint: sudo apt-get install$missing" >&2
    exit 0
fi
$as_root apt-get update -qq
for package in $missing; do
    echo "setup: installing $package" >&2
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null || {
        echo "setup: $package could not be installed; what needs it is left out" >&2
    }
done
