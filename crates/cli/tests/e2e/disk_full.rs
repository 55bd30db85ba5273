//! A disk that becomes full during a trial.

use crate::common::{Lm, machine, needs_root, trials_stored};

/// Shell text: once a layer is up and some trials are made, takes all the space there is.
const FILL: &str = "(exec </dev/null >/dev/null 2>&1; until [ -e $W/stop ] || $L history --json | grep -q '\"trials\": *[1-9]'; do sleep 0.1; done; \
    until cat /dev/zero >>$W/filler; [ -e $W/stop ]; do sleep 0.05; done) & filler=$!;";
/// Not by a signal: its `cat` would go on without it.
const STOP: &str = ": >$W/stop; wait $filler; rm -f $W/filler $W/stop;";

fn write(lm: Lm, layers: &[&str]) -> Lm {
    let write = [
        "file",
        "--op",
        "write",
        "--record",
        "64K",
        "--file-size",
        "4M",
        "--sync",
        "fsync",
    ];
    lm.work_with(&write, layers)
        .args(["--budget", "5m", "--precision", "0.1%"])
}

#[test]
fn the_run_ends_with_a_hint_and_keeps_its_trials() {
    let before = format!("mount -t tmpfs -o size=64m none $W; {FILL}");
    let Some(lm) = write(Lm::new(), &["fuse", "overlay:upper"])
        .args(["--allow-tmpfs"])
        .around(&before, &format!("{STOP} ls -A $W >left"))
    else {
        return;
    };
    let said = lm.run().fails(
        1,
        &["the disk of", "became full", "No space left", "--resume"],
    );
    assert!(trials_stored(said.dir.path()) > 0);
    let left = std::fs::read_to_string(said.dir.path().join("left")).expect("what is left");
    assert_eq!(left, "", "{left}");
    // The report of what there is was printed, and can be made again.
    said.prints("native")
        .then()
        .args(["report", "last"])
        .run()
        .code(0)
        .prints("native");
}

#[test]
fn on_a_real_file_system_it_goes_on_once_there_is_room() {
    if !needs_root() {
        return;
    }
    let before = format!(
        "truncate -s 160M img; mkfs.ext4 -q -F -m 0 img; mount -o loop img $W; echo mine >$W/theirs; {FILL}"
    );
    let after = format!(
        "{STOP} $L run --resume last --budget 20s --json >resumed.json 2>resumed.txt; echo $? >resumed; \
         cat $W/theirs; rm -rf $W/theirs $W/lost+found; ls -A $W"
    );
    let lm = write(Lm::new(), &["overlay:upper"])
        .around(&before, &after)
        .expect("root");
    let said = lm
        .run()
        .fails(1, &["the disk of", "became full", "--resume"]);
    assert!(said.stdout.ends_with("\nmine\n"), "{}", said.stdout);
    let read = |name: &str| std::fs::read_to_string(said.dir.path().join(name)).expect(name);
    let code = read("resumed");
    assert!(
        matches!(code.trim(), "0" | "4"),
        "{code}{}",
        read("resumed.txt")
    );
    let report: serde_json::Value = serde_json::from_str(&read("resumed.json")).expect("a report");
    assert_eq!(report["status"], "done");
    machine::nothing_left(said.dir.path(), &[]);
}

/// `df -h` shows room there.
#[test]
fn inodes_that_have_run_out_are_not_taken_for_a_full_disk() {
    let few = "mount -t tmpfs -o size=64m,nr_inodes=40 none $W";
    let lm = Lm::new().work_with(&["meta", "--allow-tmpfs"], &["tmpfs"]);
    let Some(lm) = lm.around(few, "") else {
        return;
    };
    lm.run()
        .fails(1, &["no inodes are left (df -i)", "df -i ."]);
}
