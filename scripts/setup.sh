#!/bin/sh
# Installs what `make run`, `make test` or `make bench` needs and is not there. Quick when nothing is missing.
# usage: scripts/setup.sh run|test|bench
set -eu
# mkfs and friends are not in an unprivileged user's PATH.
PATH="$PATH:/usr/sbin:/sbin"

# program:package for each purpose
RUN="cc:gcc mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mksquashfs:squashfs-tools squashfuse:squashfuse mkfs.erofs:erofs-utils fusermount3:fuse3"
VM="qemu-system-x86_64:qemu-system-x86 qemu-img:qemu-utils depmod:kmod ganesha.nfsd:nfs-ganesha smbd:samba"
# Programs of plans/launch-share.toml; those that are not there are left out of it.
PROGRAMS="strace:strace Xvfb:xvfb xterm:xterm git:git python3:python3 node:nodejs galculator:galculator nginx:nginx-light pg_lsclusters:postgresql"
TEST="$RUN $VM $PROGRAMS fio:fio sqlite3:sqlite3 unshare:util-linux ip:iproute2 npm:npm chromium:chromium"
BENCH="$RUN $VM Xvfb:xvfb hyperfine:hyperfine fio:fio"

case "${1:-}" in
run) wanted=$RUN ;;
test) wanted=$TEST ;;
bench) wanted=$BENCH ;;
*) echo "usage: $0 run|test|bench" >&2; exit 2 ;;
esac

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
# Answers `install PACKAGE`: failing to is told, and what needs the package is left out.
updated=
# A server is wanted as a program: nothing is started, and PostgreSQL makes no database of its own.
POLICY=/usr/sbin/policy-rc.d
CLUSTERS=/etc/postgresql-common/createcluster.conf
write() { as_root mkdir -p "${1%/*}" && as_root tee "$1" >/dev/null; }
install() {
    echo "setup: installing $1" >&2
    [ -n "$updated" ] || as_root apt-get update -qq >&2 || true
    updated=yes
    ours=
    if [ ! -e "$POLICY" ]; then
        ours=yes
        trap 'as_root rm -f "$POLICY"' EXIT
        trap 'exit 130' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' | write "$POLICY"
        as_root chmod 755 "$POLICY"
    fi
    [ "$1" != postgresql ] || [ -e "$CLUSTERS" ] || echo 'create_main_cluster = false' | write "$CLUSTERS"
    status=0
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$1" >/dev/null || status=$?
    [ -z "$ours" ] || { as_root rm -f "$POLICY"; trap - EXIT HUP INT TERM; }
    return "$status"
}
may_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

if ! command -v cargo >/dev/null; then
    # Debian 13, Ubuntu 24.04 and newer have rustup; older ones have a Rust that is too old.
    if may_install && install rustup && rustup default stable >&2; then :; else
        echo "setup: Rust 1.95 or newer is missing, and could not be installed" >&2
        echo "hint: https://rustup.rs" >&2
        exit 1
    fi
fi

missing=
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
# A module of the NFS server is a package without a program.
case " $wanted " in
*" ganesha.nfsd:"*)
    ls /usr/lib/*/ganesha/libfsalvfs.so >/dev/null 2>&1 || missing="$missing nfs-ganesha-vfs"
    ;;
esac
fetch_kernel() {
    case $1 in
    test | bench) "$(dirname "$0")/fetch-kernel.sh" || echo "setup: virtual machines are left out" >&2 ;;
    esac
}
[ -n "$missing" ] || { fetch_kernel "$1"; exit 0; }

if ! may_install; then
    echo "setup: without root these stay out:$missing" >&2
    echo "hint: sudo apt-get install$missing" >&2
    exit 0
fi
for package in $missing; do
    install "$package" || echo "setup: $package could not be installed; what needs it is left out" >&2
done
fetch_kernel "$1"
