//! Processes that write at once, and one that is killed while it writes.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::{
    made::{record, run},
    places::{self, on_both},
};
use layermark_store::Store;

on_both!(
    processes_write_at_once,
    a_trial_that_was_stored_survives_a_kill
);

/// The other process of the two tests below: this test again, told by the environment.
fn writer(test: &str, at: &str, run: &str) -> Command {
    // What makes a store for it is not what it is given.
    let test = format!("processes::file::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture", "--test-threads=1"]);
    command
        .env("STORE_PATH", at)
        .env("STORE_RUN", run)
        .stdout(Stdio::piped());
    command
}

/// Writes trials for as long as it may, and says so after each.
fn write_as_told(limit: u64) -> bool {
    let (Some(path), Ok(id)) = (std::env::var_os("STORE_PATH"), std::env::var("STORE_RUN")) else {
        return false;
    };
    let mut store = Store::open(path).unwrap();
    store.begin(&run(&id, 1)).unwrap();
    for seq in 0..limit {
        store.trial(&id, &record(seq)).unwrap();
        println!("\nstored {seq}");
    }
    true
}

fn processes_write_at_once(at: &str) {
    if write_as_told(40) {
        return;
    }
    // None has made the store before: creating it at once must work too.
    let children: Vec<_> = (0..4)
        .map(|n| {
            writer("processes_write_at_once", at, &format!("0{n}"))
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let mut store = Store::open(at).unwrap();
    let runs = store.list(9).unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|r| r.trials == 40), "{runs:?}");
}

fn a_trial_that_was_stored_survives_a_kill(at: &str) {
    if write_as_told(1_000_000) {
        return;
    }
    // A process that is killed removes nothing.
    let temp = tempfile::tempdir().unwrap();
    let mut child = writer("a_trial_that_was_stored_survives_a_kill", at, "01")
        .env("TMPDIR", temp.path())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = lines
        .map_while(Result::ok)
        .filter_map(|l| {
            l.strip_prefix("stored ")
                .and_then(|n| n.parse::<u64>().ok())
        })
        .find(|n| *n >= 25)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, trials) = Store::open(at).unwrap().load("01").unwrap();
    assert!(trials.len() as u64 > last);
    assert!(trials.iter().zip(0..).all(|(t, seq)| *t == record(seq)));
}

fn many_make(at: &str) {
    let together = std::sync::Barrier::new(6);
    std::thread::scope(|scope| {
        for n in 0..6 {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                let mut store = Store::open(at).unwrap();
                store.begin(&run(&format!("0{n}"), 1)).unwrap();
            });
        }
        // A reader sees no store, or a whole one.
        while Store::open_read(at).unwrap().list(10).unwrap().is_empty() {}
    });
    assert_eq!(Store::open(at).unwrap().list(10).unwrap().len(), 6);
}

/// What `SQLite` does not wait for happens in microseconds: many tries meet it.
#[test]
fn a_store_that_many_make_at_once_opens_for_all() {
    for _ in 0..30 {
        many_make(&places::file().at);
    }
    for _ in 0..3 {
        let Some(database) = places::database() else {
            return;
        };
        many_make(&database.at);
    }
}
