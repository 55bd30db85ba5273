#!/bin/sh
# Installs missing programs that a target of the Makefile needs. Quick when nothing is missing.
# usage: scripts/setup.sh build|check|run|dist|lint|test|bench
#        scripts/setup.sh --packages LAYERS|VM     names of the packages whose programs layers use
set -eu
# mkfs and friends are not in an unprivileged user's PATH.
PATH="$PATH:/usr/sbin:/sbin"

# program:package for each purpose
BUILD="cc:gcc"
LAYERS="mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mksquashfs:squashfs-tools squashfuse:squashfuse mkfs.erofs:erofs-utils fusermount3:fuse3"
RUN="$BUILD $LAYERS"
# For scripts/tool.sh.
TOOLS="python3:python3 pip3:python3-pip"
CHECK="$RUN $TOOLS"
LINT="$BUILD $TOOLS shellcheck:shellcheck"
DIST="$BUILD python3:python3 strip:binutils dpkg-deb:dpkg"
# For packages for arm64 that are made on another machine: scripts/arm64.sh.
ARM64="aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static"
# The C library for it: a package without a program.
ARM64_LIBC=libc6-dev-arm64-cross
VM="qemu-system-x86_64:qemu-system-x86 qemu-img:qemu-utils depmod:kmod ganesha.nfsd:nfs-ganesha smbd:samba"
# A module of the NFS server: a package without a program.
NFS_MODULE=nfs-ganesha-vfs
# Tests of the Python reader: a package without a program too.
VENV=python3-venv
# Programs of plans/launch-share.toml; missing ones are left out of it.
PROGRAMS="strace:strace Xvfb:xvfb xterm:xterm git:git python3:python3 node:nodejs galculator:galculator nginx:nginx-light pg_lsclusters:postgresql"
# Jobs of the workload devload.
DEVLOAD="make:make ed:ed cpio:cpio ps:procps awk:mawk cmp:diffutils"
# Shells whose completion is tested at a terminal.
SHELLS="zsh:zsh fish:fish"
# Servers and clients of the workloads http and ftp; nginx is listed above.
SERVERS="apache2:apache2-bin curl:curl vsftpd:vsftpd"
# The bridge of podman's containers.
BRIDGE=containernetworking-plugins
# Places behind a command, and containers.
PLACES="podman:podman slirp4netns:slirp4netns iptables:iptables dockerd:docker.io crun:crun runc:runc runsc:runsc bwrap:bubblewrap systemd-nspawn:systemd-container script:bsdutils ssh:openssh-client sshd:openssh-server"
# Engines that start the tasks of a fleet.
FLEET="srun:slurm-client slurmctld:slurmctld slurmd:slurmd munged:munge mpirun:openmpi-bin"
# File systems in user space by programs of others. bindfs is also a layer of the user's in tests.
SERVED="bindfs:bindfs gocryptfs:gocryptfs fuse-overlayfs:fuse-overlayfs sshfs:sshfs rclone:rclone"
# A clean root for `make test-dist`.
ROOT="mmdebstrap:mmdebstrap"
TEST="$CHECK $VM $DIST $ROOT $PROGRAMS $PLACES $FLEET $SERVED fio:fio eatmydata:eatmydata sqlite3:sqlite3 redis-server:redis-server rsync:rsync unshare:util-linux ip:iproute2 npm:npm chromium:chromium soffice:libreoffice-calc pdftotext:poppler-utils $DEVLOAD $SERVERS $SHELLS"
BENCH="$RUN $VM Xvfb:xvfb hyperfine:hyperfine fio:fio iperf3:iperf3 nginx:nginx-light ab:apache2-utils wrk:wrk curl:curl vsftpd:vsftpd"

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
# One call of apt-get; its output is shown only if it fails.
apt() {
    log=$(mktemp)
    status=0
    env DEBIAN_FRONTEND=noninteractive apt-get "$@" >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || grep -v '^debconf: ' "$log" >&2 || true
    rm -f "$log"
    return "$status"
}
packages() { apt install -y -qq --no-install-recommends "$@"; }

# Runs as root, in a private mount namespace if the machine allows it (`setup.sh --install yes|no PACKAGE...`).
# Servers are wanted as programs: there, what would start them does nothing, and PostgreSQL makes no database of
# its own. Nothing of this is on the disk, so nothing is left when this script is killed.
install_here() {
    private=$1
    shift
    apt update -qq || true
    if [ "$private" = yes ]; then
        for starter in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
            [ ! -e "$starter" ] || mount --bind /bin/true "$starter"
        done
        clusters=/etc/postgresql-common/createcluster.conf
        case " $* " in
        *" postgresql "*)
            if packages postgresql-common && [ -e "$clusters" ]; then
                none=$(mktemp)
                echo 'create_main_cluster = false' >"$none"
                mount --bind "$none" "$clusters"
                rm -f "$none"
            fi
            ;;
        esac
    fi
    packages "$@" && return
    # A package that is not available must not prevent the others.
    for package; do
        packages "$package" || echo "setup: $package could not be installed; what needs it is left out" >&2
    done
}
install() {
    echo "setup: installing $*" >&2
    if as_root unshare --mount --propagation private true 2>/dev/null; then
        as_root unshare --mount --propagation private "$0" --install yes "$@"
    else
        as_root "$0" --install no "$@"
    fi
}
may_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

case "${1:-}" in
build) wanted=$BUILD ;;
check) wanted=$CHECK ;;
run) wanted=$RUN ;;
dist)
    wanted=$DIST
    [ "$(uname -m)" = aarch64 ] || wanted="$DIST $ARM64"
    ;;
lint) wanted=$LINT ;;
test) wanted=$TEST ;;
bench) wanted=$BENCH ;;
--install)
    shift
    install_here "$@"
    exit 0
    ;;
--packages)
    case "${2:-}" in LAYERS) wanted=$LAYERS ;; VM) wanted=$VM ;; *) exit 2 ;; esac
    for pair in $wanted; do echo "${pair#*:}"; done
    [ "$2" != VM ] || echo "$NFS_MODULE"
    exit 0
    ;;
*)
    echo "usage: $0 build|check|run|dist|lint|test|bench" >&2
    exit 2
    ;;
esac

missing=
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
case " $wanted " in
*" ganesha.nfsd:"*)
    ls /usr/lib/*/ganesha/libfsalvfs.so >/dev/null 2>&1 || missing="$missing $NFS_MODULE"
    ;;
esac
case " $wanted " in
*" $ARM64 "*) [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing="$missing $ARM64_LIBC" ;;
esac
case $1 in
test)
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing $VENV"
    # podman's bridge: its plugins are no programs of PATH.
    [ -e /usr/lib/cni/bridge ] || [ -e /usr/lib/podman/netavark ] || missing="$missing $BRIDGE"
    ;;
esac
if ! command -v cargo >/dev/null; then
    # Debian 13, Ubuntu 24.04 and newer have rustup; older ones have a Rust that is too old.
    if may_install && install rustup && rustup default stable >&2; then :; else
        echo "setup: Rust 1.95 or newer is missing, and could not be installed" >&2
        echo "hint: https://rustup.rs" >&2
        exit 1
    fi
fi
if [ -n "$missing" ]; then
    if may_install; then
        # shellcheck disable=SC2086 # a list of words
        install $missing
    else
        echo "setup: without root these stay out:$missing" >&2
        echo "hint: sudo apt-get install$missing" >&2
        exit 0
    fi
fi
case $1 in
dist)
    # Where rustup cannot get it, scripts/arm64.sh says so.
    case " $wanted " in
    *" $ARM64 "*) rustup --quiet target add aarch64-unknown-linux-gnu 2>/dev/null || true ;;
    esac
    ;;
test | bench) "$(dirname "$0")/fetch-kernel.sh" || echo "setup: virtual machines are left out" >&2 ;;
esac
