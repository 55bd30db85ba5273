#!/bin/sh
# Runs the end-to-end and layer tests again as a user other than root. Builds nothing in addition to the other tests.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "test-unprivileged: this is already a user without root; the tests above were the test"
    exit 0
fi
for program in unshare setpriv mknod; do
    command -v "$program" >/dev/null || {
        echo "test-unprivileged: skipped: $program is missing; hint: apt-get install util-linux coreutils" >&2
        exit 0
    }
done

# As in the Makefile: most tests mostly wait.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 2))}"
stage=$(mktemp -d /var/tmp/layermark-test.XXXXXX)
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$stage"
mkdir -m 777 "$stage/home"
# Sticky like /tmp: without user namespaces nothing is created where other users may rename it.
mkdir -m 1777 "$stage/tmp"
mkdir "$stage/bin"

# Other users may not be able to read the clone, so the tests get the paths of their files.
# For the whole workspace: for single packages cargo would build their dependencies again, with fewer features.
cargo test --workspace --locked --no-run --message-format json 2>"$stage/log" >"$stage/json" ||
    { cat "$stage/log" >&2; exit 1; }
sed -n '/crates\/\(cli\|layers\)[#"]/s/.*"executable":"\([^"]*\)".*/\1/p' "$stage/json" | grep /deps/ >"$stage/list"
[ -s "$stage/list" ] || { echo "test-unprivileged: no test program found" >&2; exit 1; }
while read -r program; do
    # Conformance tests are driven as a user, with and without user namespaces, where root runs them. What the product
    # says of layers does not depend on who measured them.
    case $program in */conformance-* | */quiet-*) continue ;; esac
    cp "$program" "$stage/bin/"
done <"$stage/list"
cp "${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)/debug/layermark" "$stage/layermark"
cp -r plans docs crates README.md scripts/timed-test.sh "$stage/"

# Debian's udev rules let every user open /dev/fuse; a machine without udev gets the same in this namespace only.
cat >"$stage/as-user.sh" <<'IN'
set -eu
stage=$1
mkdir "$stage/dev"
mount -t tmpfs -o mode=755 tmpfs "$stage/dev"
if [ -e /dev/fuse ]; then
    mknod -m 666 "$stage/dev/fuse" c 10 229
    mount --bind "$stage/dev/fuse" /dev/fuse
fi
cd "$stage"
as_user() {
    setpriv --reuid 65534 --regid 65534 --clear-groups \
        env -i PATH="$PATH" HOME="$stage/home" LAYERMARK_TMP="$stage/tmp" TMPDIR="$stage/tmp" \
        LAYERMARK_BIN="$stage/layermark" LAYERMARK_ROOT="$stage" RUST_TEST_THREADS="$RUST_TEST_THREADS" \
        "$stage/timed-test.sh" "$@" || failed="$failed $(basename "$1")"
}
failed=
for program in "$stage"/bin/*; do
    set --
    case $program in */e2e-*)
        echo "test-unprivileged: run as root only, since they take minutes and nothing in them depends on who runs them:" \
            "studies, plans and stalls, forecasts, commands of the pages, guests' networks and CPUs, a team's server," \
            "comparisons, output, the matrix, devload"
        set -- --skip studies:: --skip plans::every_plan --skip stalls:: --skip forecast:: --skip docs::commands \
            --skip paths::guests --skip cpus:: --skip team:: --skip compare:: --skip output:: --skip matrix:: \
            --skip devload:: ;;
    esac
    echo "test-unprivileged: $(basename "$program")"
    as_user "$program" "$@"
done
# As on a host with systemd.
if umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; then
    echo "test-unprivileged: containers again, with version 2 of control groups only"
    again=containers::a_user_without_root_has_containers
    "$stage"/bin/e2e-* --list | grep -q "^$again: test" || failed="$failed $again (there is no such test)"
    as_user "$stage"/bin/e2e-* --exact "$again"
else
    echo "test-unprivileged: skipped: containers with version 2 of control groups only: it cannot be mounted alone"
fi
[ -z "$failed" ] || { echo "test-unprivileged: failed:$failed" >&2; exit 1; }
left=$(ls -A "$stage/tmp")
[ -z "$left" ] || { echo "test-unprivileged: left behind: $left" >&2; exit 1; }
IN
unshare -m --propagation private sh "$stage/as-user.sh" "$stage"
