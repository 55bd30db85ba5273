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

tool=$(scripts/tool.sh cargo-nextest)
export PATH="$tool:$PATH"
export NEXTEST_TEST_THREADS="${NEXTEST_TEST_THREADS:-$(($(nproc) * 2))}"
stage=$(mktemp -d /var/tmp/layermark-test.XXXXXX)
trap 'rm -rf "$stage"' EXIT
# On a signal, dash does not run the trap for EXIT.
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$stage"
mkdir -m 777 "$stage/home"
# Sticky like /tmp: without user namespaces nothing is created where other users may rename it.
mkdir -m 1777 "$stage/tmp"

# Other users may not be able to read the clone, so the tests get copies of their files, and nextest what cargo knows of them.
# For the whole workspace: for single packages cargo would build their dependencies again, with fewer features.
cargo nextest list --workspace --locked --list-type binaries-only --message-format json 2>"$stage/log" >"$stage/all.json" ||
    { cat "$stage/log" >&2; exit 1; }
cargo metadata --format-version 1 --locked >"$stage/cargo.json"
# Conformance tests are driven as a user, with and without user namespaces, where root runs them. What the product
# says of layers does not depend on who measured them (`quiet`).
python3 - "$stage" <<'IN'
import json, os, shutil, sys

stage = sys.argv[1]
with open(f"{stage}/all.json", encoding="utf-8") as file:
    listed = json.load(file)
target = listed["rust-build-meta"]["target-directory"]
wanted = {"layermark::e2e", "layermark::bin/layermark", "layermark-layers"}
listed["rust-binaries"] = {name: of for name, of in listed["rust-binaries"].items() if name in wanted}
missing = wanted - set(listed["rust-binaries"])
if missing:
    sys.exit(f"test-unprivileged: no test program found: {missing}")
for binary in listed["rust-binaries"].values():
    to = os.path.join(stage, "target", os.path.relpath(binary["binary-path"], target))
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy(binary["binary-path"], to)
with open(f"{stage}/binaries.json", "w", encoding="utf-8") as file:
    json.dump(listed, file)
IN
mkdir -m 777 "$stage/target/nextest"
cp "${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)/debug/layermark" "$tool/cargo-nextest" "$stage/"
cp -r .config plans docs crates benches Cargo.toml Cargo.lock README.md CONTRIBUTING.md CHANGELOG.md "$stage/"

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
    # shellcheck disable=SC2086 # none or two words
    setpriv --reuid 65534 --regid 65534 --clear-groups \
        env -i PATH="$PATH" HOME="$stage/home" LAYERMARK_TMP="$stage/tmp" TMPDIR="$stage/tmp" \
        LAYERMARK_BIN="$stage/layermark" LAYERMARK_ROOT="$stage" NEXTEST_TEST_THREADS="$NEXTEST_TEST_THREADS" \
        "$stage/cargo-nextest" nextest run --binaries-metadata "$stage/binaries.json" --cargo-metadata "$stage/cargo.json" \
        --workspace-remap "$stage" --target-dir-remap "$stage/target" ${CI:+--retries 1} "$@" || failed="$failed $*"
}
failed=
echo "test-unprivileged: run as root only, since they take minutes and nothing in them depends on who runs them:" \
    "studies, plans and stalls, forecasts, commands of the pages, guests' networks, CPUs, a team's server," \
    "comparisons, output, the matrix, devload"
root_only='/^(studies|stalls|forecast|cpus|team|compare|output|matrix|devload)::|^plans::every_plan|^docs::commands|^paths::guests/'
as_user -E "not test($root_only)"
cp "$stage/target/nextest/default/junit.xml" "$stage/junit.xml" || true
# As on a host with systemd.
if umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; then
    echo "test-unprivileged: containers again, with version 2 of control groups only"
    as_user -E 'test(=containers::a_user_without_root_has_containers)'
else
    echo "test-unprivileged: skipped: containers with version 2 of control groups only: it cannot be mounted alone"
fi
[ -z "$failed" ] || { echo "test-unprivileged: failed:$failed" >&2; exit 1; }
left=$(find "$stage/tmp" -mindepth 1 -maxdepth 3 -printf "%M %P\n")
[ -z "$left" ] || { echo "test-unprivileged: left behind: $left" >&2; exit 1; }
IN
status=0
unshare -m --propagation private sh "$stage/as-user.sh" "$stage" || status=$?
results=${CARGO_TARGET_DIR:-target}/nextest/unprivileged
mkdir -p "$results"
cp "$stage/junit.xml" "$results/" 2>/dev/null || true
exit "$status"
