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
    "studies, plans and stalls, forecasts, commands of the pages, guests' networks and cost, CPUs, a team's server," \
    "comparisons, output, the matrix, devload; one test each of launches, replays, servers, stores and wrong input;" \
    "five of fleets"
root_only='/^(studies|stalls|forecast|cpus|team|compare|output|matrix|devload)::|^plans::every_plan|^docs::commands|^paths::guests|^questions::what_a_virtual/'
# What these do not ask either, but they reach what a user may not: one test of each, and those that have two answers.
alike='/^(archive|attached|bad_input|baseline|coherence|durability_by_hand|files_made|fleet|fleet_days|fleet_package|format5|ftp|http|import|launch|launch_env|lock|messages|odd|replay|serve|steps|store|targets)::/'
one='
    test(=archive::a_run_writes_the_file_and_another_machine_makes_the_run_again_where_it_stands)
    | test(=attached::a_program_that_runs_is_recorded_and_goes_on)
    | test(=bad_input::a_layer_that_does_not_exist_is_refused_with_the_nearest_known_one)
    | test(=baseline::a_command_of_another_users_baseline_runs_only_when_it_is_allowed)
    | test(=baseline::the_baseline_is_measured_and_named_everywhere_and_native_is_not)
    | test(=coherence::each_layer_with_two_sides_shows_what_is_made_on_either)
    | test(=durability_by_hand::what_was_acknowledged_is_there_when_nothing_was_cut)
    | test(=files_made::what_made_a_file_is_told_in_every_layer)
    | test(=fleet::mpi_starts_the_hosts_of_a_run)
    | test(=fleet::nothing_stays_when_the_coordinator_is_killed)
    | test(=fleet_days::a_disk_of_one_host_that_becomes_full_is_a_result)
    | test(=fleet_days::a_killed_coordinator_goes_on_where_it_was)
    | test(=fleet_package::a_host_whose_own_disk_has_no_room_for_the_package_does_not_make_it)
    | test(=ftp::our_own_server_serves_both_ways)
    | test(=http::a_server_behind_a_namespace_is_set_beside_the_loopback)
    | test(=import::an_import_is_kept_listed_and_set_beside_a_run)
    | test(=launch::a_package_is_launched_from_the_layer_and_traced)
    | test(=launch::the_whole_tree_is_stopped_also_when_layermark_is_killed)
    | test(=launch::windows_are_seen_with_their_titles)
    | test(=launch_env::a_value_is_in_no_file_and_in_no_output)
    | test(=lock::locks_are_timed_and_proved_in_a_layer)
    | test(=messages::messages_have_one_form)
    | test(=odd::the_odd_one_of_five_files_is_named_as_text_and_as_json)
    | test(=replay::a_program_with_processes_is_replayed_in_every_layer)
    | test(=replay::the_time_of_a_program_that_prints_is_estimated)
    | test(=serve::the_token_is_the_users_and_outlives_the_server)
    | test(=steps::a_tree_of_this_machine_is_put_into_the_layer)
    | test(=store::a_store_in_a_directory_that_may_not_be_written_is_refused)
    | test(=store::a_store_on_a_full_disk_keeps_what_it_has)
    | test(=targets::links_fifos_and_devices_are_refused_unless_forced)
'
for test in $(echo "$one" | sed -n 's/.*(=.*::\([a-z_0-9]*\))$/\1/p'); do
    grep -rqs "fn $test()" crates/cli/tests/e2e || failed="$failed no-test-$test"
done
as_user -E "not test($root_only) and (not test($alike) or $one)"
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
