//! The store: bad files are refused before anything is measured and stay as they are.

mod common;

use std::{fs, path::Path, process::Command};

use common::{Lm, Said, history, is_root, skipped};

/// Runs with a store that must be refused; the file must not change.
#[track_caller]
fn refused(lm: Lm, words: &[&str]) {
    let path = lm.store();
    let before = fs::read(&path).ok();
    let said = lm
        .mock()
        .args(["--json"])
        .run()
        .fails(1, words)
        .left_nothing();
    assert_eq!(said.json()["code"], 1);
    assert_eq!(fs::read(&path).ok(), before, "the store was changed");
    for command in [["history", "--json"], ["report", "--json"]] {
        let said = Lm::with(said.dir.path()).args(command).run();
        assert_eq!(said.fails(1, words).json()["schema"], "layermark.error/1");
    }
}

fn with_store(content: &[u8]) -> Lm {
    let lm = Lm::new();
    fs::create_dir_all(lm.store().parent().unwrap()).unwrap();
    fs::write(lm.store(), content).unwrap();
    lm
}

/// A store with one run in it.
fn made() -> Said {
    Lm::new().mock().run().code(4)
}

fn sql(store: &Path, text: &str) -> bool {
    let done = Command::new("sqlite3").arg(store).arg(text).output();
    done.is_ok_and(|o| o.status.success())
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    refused(
        with_store(b"these are my memoirs\n"),
        &["damaged or not a store", "mv "],
    );
    let noise: Vec<u8> = (0..20_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect();
    refused(with_store(&noise), &["damaged or not a store"]);
}

#[test]
fn a_damaged_store_is_refused_or_told() {
    let lm = made().then();
    let mut bytes = fs::read(lm.store()).unwrap();
    let half = bytes.len() / 2;
    bytes[100..half].fill(0x5a);
    fs::write(lm.store(), &bytes).unwrap();
    let _ = fs::remove_file(lm.store().with_extension("db-wal"));
    refused(lm, &["layermark.db", "hint:"]);
    let lm = made().then();
    let bytes = fs::read(lm.store()).unwrap();
    fs::write(lm.store(), &bytes[..bytes.len() / 3]).unwrap();
    let said = lm.args(["report"]).run();
    assert!(matches!(said.code, Some(1 | 2)), "{}", said.stderr);
    said.says("error: ").says("hint: ");
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let said = made();
    let store = said.dir.path().join("data/layermark/layermark.db");
    let future = "INSERT INTO _sqlx_migrations SELECT 99, 'future', installed_on, success, checksum, \
        execution_time FROM _sqlx_migrations WHERE version = 1; PRAGMA wal_checkpoint(TRUNCATE);";
    if !sql(&store, future) {
        skipped("sqlite3 is missing; hint: apt-get install sqlite3");
        return;
    }
    refused(
        said.then(),
        &["newer layermark", "format 99", "use that layermark"],
    );
}

#[test]
fn a_database_of_another_program_is_refused() {
    let lm = Lm::new();
    fs::create_dir_all(lm.store().parent().unwrap()).unwrap();
    if !sql(&lm.store(), "CREATE TABLE recipes (name TEXT)") {
        skipped("sqlite3 is missing; hint: apt-get install sqlite3");
        return;
    }
    refused(lm, &["another program", "`recipes`"]);
}

#[test]
fn a_store_that_is_not_a_file_is_refused() {
    let lm = Lm::new();
    fs::create_dir_all(lm.store()).unwrap();
    refused(lm, &["cannot be opened", "directory"]);
    // Its directory is a file.
    let lm = Lm::new().file("data", "x");
    lm.mock()
        .run()
        .fails(1, &["cannot be opened"])
        .left_nothing();
    let said = Lm::new().mock().args(["--store", "/dev/null"]).run();
    said.fails(1, &["/dev/null"]).left_nothing();
}

#[test]
fn a_store_in_a_directory_that_may_not_be_written_is_refused() {
    let said = Lm::new()
        .mock()
        .args(["--store", "/proc/x/layermark.db"])
        .run();
    said.fails(1, &["/proc/x/layermark.db", "cannot be opened"])
        .left_nothing();
    let read_only = "mkdir ro; mount -t tmpfs -o ro none ro";
    let lm = Lm::new().mock().args(["--store", "ro/layermark.db"]);
    if let Some(lm) = lm.around(read_only, "") {
        lm.run().fails(1, &["ro/layermark.db"]);
    }
    if is_root() {
        skipped("the part about permissions: root may write everywhere");
        return;
    }
    for path in ["/usr/layermark.db", "/usr/sub/layermark.db"] {
        let said = Lm::new().mock().args(["--store", path]).run();
        said.fails(1, &[path]).left_nothing();
    }
}

#[test]
fn a_store_on_a_full_disk_keeps_what_it_has() {
    let small = "mkdir s; mount -t tmpfs -o size=300k none s";
    let after = "rm -f s/filler; XDG_DATA_HOME=x $L history --store s/l.db --json >&3";
    let read = [
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "--store",
        "s/l.db",
    ];
    let lm = Lm::new().work_with(&read, &["mock", "mock:ns=1500,noise=0.3"]);
    let lm = lm.args(["--budget", "20s", "--precision", "0.1%"]);
    let Some(lm) = lm.around(&format!("{small}; exec 3>history.json"), after) else {
        return;
    };
    let said = lm
        .run()
        .fails(1, &["disk is full", "--resume"])
        .left_nothing();
    let text = fs::read_to_string(said.dir.path().join("history.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&text).expect(&text);
    assert!(kept["runs"][0]["trials"].as_u64() > Some(0), "{text}");
}

#[test]
fn two_runs_at_once_share_a_store() {
    let one = Lm::new().measure(&["mock:take=10ms", "mock:ns=1500,take=10ms"]);
    let store = one.store();
    let two = Lm::new().mock().args(["--store"]).args([&store]);
    let (child, dir) = one.start();
    two.run().code(4);
    let said = Said::from(common::output(child), dir).code(4);
    assert_eq!(history(said.dir.path()).len(), 2);
}

#[test]
fn history_lists_runs_and_report_finds_them_again() {
    let empty = Lm::new()
        .args(["history"])
        .run()
        .code(0)
        .says("no runs yet")
        .says("hint: layermark run");
    assert!(empty.stdout.is_empty());
    let said = empty.then().args(["history", "--json"]).run().code(0);
    assert_eq!(said.json()["runs"].as_array().map(Vec::len), Some(0));
    said.then()
        .args(["report"])
        .run()
        .fails(2, &["no run `last`", "layermark history"]);
    let first = made();
    let id = history(first.dir.path())[0]["run"]
        .as_str()
        .unwrap()
        .to_owned();
    let second = first.then().mock().args(["--seed", "5"]).run().code(4);
    let runs = history(second.dir.path());
    assert_eq!((runs.len(), &runs[1]["run"]), (2, &id.as_str().into()));
    assert_eq!(
        (&runs[0]["status"], &runs[0]["plan"]),
        (&"done".into(), &"file".into())
    );
    let listed = second
        .then()
        .args(["history", "--limit", "1"])
        .run()
        .code(0)
        .prints("mock:ns=1500");
    assert_eq!(listed.stdout.lines().count(), 2);
    let said = listed.then().args(["report", &id, "--json"]).run().code(0);
    assert_eq!(said.json()["run"], id.as_str());
    let said = said.then().args(["report", &id[..20], "--json"]).run();
    // Two runs of one second share many letters.
    assert!(matches!(said.code, Some(0 | 2)), "{}", said.stderr);
    let said = said
        .then()
        .args(["report", &id.to_lowercase(), "--json"])
        .run();
    assert!(matches!(said.code, Some(0 | 2)), "{}", said.stderr);
    let said = said
        .then()
        .args(["report", &id[..2]])
        .run()
        .fails(2, &["more than one run"]);
    let said = said.then().args(["report", "last", "--json"]).run().code(0);
    assert_eq!(said.json()["seed"], 5);
    said.then()
        .args(["report", "ZZZZ", "--json"])
        .run()
        .fails(2, &["no run `ZZZZ`"]);
}
