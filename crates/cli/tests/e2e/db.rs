//! `layermark db`: where a database should live.

use crate::common::{Lm, needs_root, result};

#[test]
fn the_answer_shows_commits_a_second_and_flushes_a_commit() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args(["db", "--op", "commit", "--journal", "wal"])
        .args(["-l", "overlay:upper", "--blocks", "2", "--sessions", "1"])
        .args(["--dir"])
        .args([work])
        .run()
        .left_nothing();
    // Where others use the device, and with few commits, the other columns have nothing and are left out.
    for head in ["commits/s", "p50", "syncs a commit"] {
        assert!(said.stdout.contains(head), "{head}: {}", said.stdout);
    }
}

/// `SQLite`'s write-ahead log and writes of the engine `mmap` map a file shared. Where the file system refuses that, as 9p
/// does and a file system in user space with direct I/O, the error was "disk I/O error", with the hint to try it natively.
#[test]
fn a_layer_without_shared_mappings_is_told_what_to_use_instead() {
    if !needs_root() {
        return;
    }
    let layer = "fuse:cache=none";
    let refused: [(&[&str], [&str; 2]); 2] = [
        (
            &["db", "--op", "commit", "--journal", "wal", "--json"],
            ["shared mapping", "--journal rollback"],
        ),
        (
            &[
                "file",
                "--op",
                "write",
                "--engine",
                "mmap",
                "--file-size",
                "1M",
                "--json",
            ],
            ["no shared mappings", "--engine pread"],
        ),
    ];
    for (command, says) in refused {
        let said = Lm::new()
            .work_with(command, &[layer])
            .args(["--blocks", "1"])
            .run()
            .left_nothing();
        let report = said.json();
        let label = report["results"][0]["label"].as_str().expect("a label");
        let row = result(&report, label, layer);
        let error = row["error"].as_str().expect("an error");
        for text in says.into_iter().chain(["cache=mmap"]) {
            assert!(error.contains(text), "{text}: {error}");
        }
    }
}
