//! `layermark durability record` and `check`: the halves of a power cut that is made by hand.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt, chown, symlink},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::common::{Lm, Said, is_root, machine, skipped, wait_for};

/// Records with every writer, and the directory that they are in.
fn recorded(records: &str) -> (Said, PathBuf) {
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args(["durability", "record", "--force", "--to", "log"])
        .args(["--records", records])
        .args([&work])
        .run()
        .code(0);
    let home = fs::read_dir(&work).unwrap().next().unwrap().unwrap().path();
    (said, home)
}

fn check(said: Said) -> Said {
    let lm = said.then();
    let work = lm.work();
    lm.args(["durability", "check", "--from", "log"])
        .args([work])
        .run()
}

#[test]
fn what_was_acknowledged_is_there_when_nothing_was_cut() {
    let (said, _) = recorded("70");
    let said = said.says("560 records were acknowledged");
    let said = check(said).code(0);
    let said = said.prints("nothing was lost that was promised: 560 of 560");
    let lm = said.then();
    let work = lm.work();
    let json = lm
        .args(["durability", "check", "--json", "--from", "log"])
        .args([work])
        .run()
        .code(0)
        .json();
    assert_eq!(json["kept"], true, "{json:#}");
    assert_eq!(json["writers"].as_array().unwrap().len(), 8);
}

/// Overwrites part of a file.
fn damage(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn copy_block(path: &Path, from: u64, to: u64) {
    let mut block = vec![0; 4096];
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut block, from * 4096).unwrap();
    damage(path, to * 4096, &block);
}

#[test]
fn each_damage_is_named_and_ends_with_exit_code_1() {
    type Case<'a> = (&'a str, &'a str, &'a dyn Fn(&Path));
    let cases: [Case; 8] = [
        ("append", "is lost: it is absent", &|home| {
            let file = File::options()
                .write(true)
                .open(home.join("append/records"));
            file.unwrap().set_len(4096 * 8).unwrap();
        }),
        ("overwrite", "is torn", &|home| {
            damage(&home.join("overwrite/records"), 4096 * 3 + 512, &[1; 512]);
        }),
        ("overwrite", "is misplaced", &|home| {
            copy_block(&home.join("overwrite/records"), 2, 4);
        }),
        ("mmap", "is lost: its block is empty", &|home| {
            damage(&home.join("mmap/records"), 4096 * 3, &[0; 4096]);
        }),
        ("create", "is lost: its name is absent", &|home| {
            fs::remove_file(home.join("create/record-5")).unwrap();
        }),
        ("rename", "is lost: its name is absent", &|home| {
            fs::remove_file(home.join("rename/slot-5")).unwrap();
        }),
        ("sqlite", "it cannot be read", &|home| {
            let path = home.join("sqlite/records.db");
            let size = fs::metadata(&path).unwrap().len() as usize;
            damage(&path, 8192, &vec![0x55; size - 8192]);
        }),
        ("sqlite-wal", "is lost: its file is absent", &|home| {
            fs::remove_file(home.join("sqlite-wal/records.db")).unwrap();
        }),
    ];
    for (writer, words, change) in cases {
        let (said, home) = recorded("10");
        change(&home);
        let said = check(said).code(1);
        let line = said
            .stdout
            .lines()
            .find(|l| l.starts_with(&format!("{writer}: record")));
        assert!(
            line.is_some_and(|l| l.contains(words)),
            "{writer}: {}",
            said.stdout
        );
        let verdict = said.stdout.lines().next().unwrap();
        assert!(verdict.starts_with("data was lost: "), "{verdict}");
        assert_eq!(
            said.stdout.matches("fsync returned at").count(),
            1,
            "{}",
            said.stdout
        );
    }
}

/// POSIX promises a name only after its directory was synced.
#[test]
fn a_name_that_was_not_synced_may_be_lost() {
    let (said, home) = recorded("10");
    fs::remove_file(home.join("create-unsynced/record-5")).unwrap();
    check(said).code(0).prints(
        "9 of 10 acknowledged records kept, 1 lost name (permitted: its directory was not synced)",
    );
}

#[test]
fn records_of_another_run_are_phantoms() {
    let (said, home) = recorded("10");
    let (_other, elsewhere) = recorded("10");
    let file = "overwrite/records";
    fs::copy(elsewhere.join(file), home.join(file)).unwrap();
    check(said).code(1).prints("64 phantom");
}

/// What kill -9 leaves: a log that may end within a line, and a record more than it has.
#[test]
fn a_recorder_that_is_killed_has_lost_nothing_it_logged() {
    let lm = Lm::new();
    let work = lm.work();
    let (mut child, dir) = lm
        .args(["durability", "record", "--to", "-"])
        .args([&work])
        .start();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut log = String::new();
    for line in out.lines().take(200) {
        log += &(line.unwrap() + "\n");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // A line that arrived in part.
    log += r#"{"writer":"append","sequ"#;
    fs::write(dir.path().join("log"), log).unwrap();
    Lm::with(dir.path())
        .args(["durability", "check", "--from", "log"])
        .args([&work])
        .run()
        .code(0)
        .prints("199 of 199");
}

#[test]
fn a_log_on_the_tested_disk_or_in_memory_is_refused() {
    let record = |to: &str| {
        let lm = Lm::new();
        let work = lm.work();
        let said = lm
            .args(["durability", "record", "--records", "1", "--to", to])
            .args([&work])
            .run();
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
        said
    };
    record("log").fails(2, &["log is on the disk that is tested", "--force"]);
    let memory = layermark_layers::mounts::holding("/dev/shm".as_ref());
    if memory.is_ok_and(|m| m.fs == "tmpfs") {
        record("/dev/shm/layermark-log").fails(2, &["is in memory, which a power cut empties"]);
        assert!(!Path::new("/dev/shm/layermark-log").exists());
    } else {
        skipped("/dev/shm is not in memory");
    }
}

#[test]
fn a_full_log_says_so_and_keeps_what_it_has() {
    let lm = Lm::new();
    let work = lm.work();
    lm.args(["durability", "record", "--force", "--to", "/dev/full"])
        .args([&work])
        .run()
        .fails(2, &["the log /dev/full: it cannot be synced: "]);
    if !is_root() {
        return skipped("only root may mount a small disk");
    }
    let lm = Lm::new();
    let Some(lm) = lm
        .args([
            "durability",
            "record",
            "--force",
            "--to",
            "small/log",
            "work",
        ])
        .around(
            r#"mkdir "$W/../small" && mount -t tmpfs -o size=64k none "$W/../small""#,
            r#"cp "$W/../small/log" "$W/../log"; umount "$W/../small""#,
        )
    else {
        return;
    };
    let said = lm
        .run()
        .fails(1, &["No space left on device", "can be checked"]);
    let (before, _) = said
        .stderr
        .split_once(" acknowledged records are in it")
        .unwrap();
    let kept = before.rsplit(' ').next().unwrap().to_owned();
    check(said)
        .code(0)
        .prints(&format!("{kept} of {kept} acknowledged"));
}

/// A disk whose last inode was that of the directory for the records, which stayed there.
#[test]
fn a_directory_in_which_nothing_can_be_made_is_removed() {
    if !is_root() {
        return skipped("only root may mount a small disk");
    }
    let small = "$W/../small";
    let before = format!("mkdir {small} && mount -t tmpfs -o nr_inodes=2 none {small}");
    let after = format!("ls {small} > $W/../left; umount {small}");
    let Some(lm) = Lm::new()
        .args(["durability", "record", "--force", "--to", "log", "small"])
        .around(&before, &after)
    else {
        return;
    };
    let said = lm.run().fails(2, &["small: its disk is full"]);
    let left = fs::read_to_string(said.dir.path().join("left")).expect("a list");
    assert_eq!(left, "");
}

const NOBODY: u32 = 65534;

/// Another user owns the tested directory, and puts a link to other files where the records are: root wrote there, and read
/// what was there.
#[test]
fn another_user_who_owns_the_directory_leads_root_nowhere() {
    if !is_root() {
        return skipped("only root works in directories of others");
    }
    let lm = Lm::new();
    let (work, other) = (lm.work(), lm.dir.path().join("other"));
    chown(&work, Some(NOBODY), Some(NOBODY)).expect("chown");
    let (mut child, dir) = lm
        .args(["durability", "record", "--force", "--to", "log"])
        .args([&work])
        .start();
    let recorded = |more: usize| {
        let log = dir.path().join("log");
        let lines = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        let from = lines();
        wait_for("records", || (lines() >= from + more).then_some(()));
    };
    recorded(40);
    let home = fs::read_dir(&work).unwrap().next().unwrap().unwrap().path();
    for writer in fs::read_dir(&home).expect("writers").flatten() {
        fs::create_dir_all(other.join(writer.file_name())).expect("a directory");
    }
    let before = machine::inventory(&other);
    let moved = work.join("moved");
    fs::rename(&home, &moved).expect("it is moved");
    symlink(&other, &home).expect("a link");
    recorded(40);
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    assert_eq!(machine::inventory(&other), before);
    let check = || {
        Lm::with(dir.path())
            .args(["durability", "check", "--from", "log"])
            .args([&work])
            .run()
    };
    check().fails(2, &["it is not a directory", "as the user who recorded"]);
    fs::remove_file(&home).expect("the link");
    fs::rename(&moved, &home).expect("it is back");
    check().code(0).prints("nothing was lost");
    // Its records are the same, and somebody else could have written them.
    chown(&home, Some(NOBODY), Some(NOBODY)).expect("chown");
    let theirs = "it belongs to another user than the one who made it";
    let owner = "its log does not name the owner of the files: check as user 65534";
    check().fails(2, &[theirs, "as the user who recorded", owner]);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(dir.path(), open).expect("chmod");
    check().fails(2, &["can be changed by other users", "chmod go-w"]);
    fs::remove_dir_all(&home).expect("it is removed");
    // The mount point is gone.
    machine::nothing_left(dir.path(), &[]);
}

#[test]
fn what_is_not_a_log_is_refused() {
    let bad = |text: &str, words: &[&str]| {
        let lm = Lm::new().file("log", text);
        let work = lm.work();
        lm.args(["durability", "check", "--from", "log"])
            .args([work])
            .run()
            .fails(2, words);
    };
    bad("", &["it is not a log of acknowledged records"]);
    bad("{}\n", &["it is not a log of acknowledged records"]);
    let head = |record: u64, writer: &str| {
        let head: Value = serde_json::json!({
            "schema": "layermark.witness/1", "run": "07", "record": record, "writers": [writer], "dir": "/x", "started_ms": 0,
        });
        format!("{head}\n")
    };
    bad(&head(0, "append"), &["records of 0 bytes"]);
    bad(&head(4096, "chisel"), &["no writer `chisel`"]);
    bad(&(head(4096, "append") + "x\n"), &["line 2: "]);
    let skips = r#"{"writer":"append","sequence":2,"block":1,"generation":1,"ns":1}"#;
    bad(
        &(head(4096, "append") + skips + "\n"),
        &["line 2: record 2 is out of order"],
    );
}
