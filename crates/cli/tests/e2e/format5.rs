//! A store that a layermark of format 5 has written: commit 5e9b785b, the last one, built with the layer `mock`. It has two
//! runs of `file` in `mock` and `mock:ns=1500`, one of `meta` in `native` and `tmpfs`, one of 60 blocks that was stopped
//! by Ctrl-C, and an import of fio's.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use serde_json::Value;

use crate::common::{Lm, Said, history, result, skipped};

/// The file as it was closed.
const STORE: &[u8] = include_bytes!("stores/format5.db");
/// Its runs, the oldest first.
const RUNS: [&str; 4] = [
    "01M8H464147YMRQPAHANK9WGWG",
    "01M8H464KHBPG6ZGZNREPNQVK3",
    "01M8H4652TEWCAMK1ER3XD6YNA",
    STOPPED,
];
const STOPPED: &str = "01M8H468T49EZW09Q54AE3HY9A";
/// Label of the point of the first two.
const READ: &str = "read 4K of 64K, warm";

/// A test whose store is that file.
fn old() -> Lm {
    let lm = Lm::new();
    let path = lm.store();
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    fs::write(&path, STORE).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("private");
    lm
}

fn reported(said: &Said, run: &str) -> Value {
    let lm = Lm::with(said.dir.path());
    lm.args(["report", run, "--json"]).run().json()
}

#[test]
fn each_run_is_reported_alike_before_and_after_the_conversion() {
    let lm = old();
    let path = lm.store();
    let listed = lm.args(["history", "--json"]).run().code(0);
    let ids = history(listed.dir.path());
    let ids: Vec<&str> = ids.iter().filter_map(|run| run["run"].as_str()).collect();
    assert_eq!(ids, [RUNS[3], RUNS[2], RUNS[1], RUNS[0]]);
    assert_eq!(listed.json()["imports"].as_array().map(Vec::len), Some(1));
    let before = RUNS.map(|run| reported(&listed, run));
    for told in &before[..2] {
        let row = result(told, READ, "mock:ns=1500");
        assert_eq!(
            (&row["trials"], &row["verdict"]),
            (&8.into(), &"slower".into())
        );
        let ratio = row["ratio"]["estimate"].as_f64().expect("a ratio");
        assert!((ratio - 1.5).abs() < 1e-9, "{ratio}");
    }
    let created = result(&before[2], "create 20 files", "tmpfs");
    assert_eq!(created["trials"], 3, "{created:#}");
    assert_eq!(before[3]["status"], "stopped");
    assert_eq!(before[3]["trials"].as_array().map(Vec::len), Some(16));
    assert_eq!(
        fs::read(&path).expect("a store"),
        STORE,
        "a reader changed it"
    );
    // The first one that writes converts it.
    let said = listed.then().mock().run();
    assert_eq!(history(said.dir.path()).len(), RUNS.len() + 1);
    assert_ne!(fs::read(&path).expect("a store"), STORE);
    for (run, before) in RUNS.iter().zip(before) {
        assert_eq!(reported(&said, run), before, "{run}");
    }
}

#[test]
fn its_runs_are_compared_with_each_other_and_with_a_new_one() {
    let [first, second, ..] = RUNS;
    let said = old().args(["compare", first, second, "--json"]).run();
    let told = said.json();
    let row = result(&told, READ, "mock:ns=1500");
    let ratio = row["ratio"]["estimate"].as_f64().expect("a ratio");
    assert!((ratio - 1.0).abs() < 1e-9, "{row:#}");
    let said = said.then().mock().run();
    let said = said.then().args(["compare", first, "last", "--json"]).run();
    let told = said.json();
    let row = result(&told, READ, "mock:ns=1500");
    let ratio = row["ratio"]["estimate"].as_f64().expect("a ratio");
    assert!((ratio - 1.0).abs() < 0.01, "{row:#}");
}

#[test]
fn a_run_that_was_stopped_goes_on() {
    let (lm, here) = (old(), Lm::new().mock().run());
    // As if it had been made on this machine, in a directory of it.
    let store = Lm::with(here.dir.path()).store();
    let same = ["cpu", "cpus", "base"]
        .map(|key| format!("'$.{key}', json_extract(here.runs.run, '$.machine.{key}')"));
    let text = format!(
        "ATTACH '{}' AS here; UPDATE main.runs SET dir = '{}', \
         machine = (SELECT json_set(main.runs.machine, {}) FROM here.runs)",
        store.display(),
        lm.work().display(),
        same.join(", ")
    );
    let Ok(done) = Command::new("sqlite3").arg(lm.store()).arg(text).status() else {
        return skipped("sqlite3 is not installed");
    };
    assert!(done.success());
    let said = lm.args(["run", "--resume", STOPPED, "--json"]).run();
    let report = said.json();
    assert_eq!(
        (&report["run"], &report["status"]),
        (&STOPPED.into(), &"done".into())
    );
    let trials = report["trials"].as_array().map(Vec::len);
    assert_eq!(trials, Some(60 * 2 * 2), "{}", said.stderr);
    let row = result(&report, READ, "mock:ns=1500");
    assert_eq!(
        (&row["trials"], &row["verdict"]),
        (&60.into(), &"slower".into())
    );
    said.left_nothing();
}
