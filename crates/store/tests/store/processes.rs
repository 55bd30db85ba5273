//! Processes that write at once, and one that is killed while it writes.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use crate::made::{record, run};
use layermark_store::Store;

/// The other process of the two tests below: this test again, told by the environment.
fn writer(test: &str, path: &Path, run: &str) -> Command {
    let test = format!("processes::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture", "--test-threads=1"]);
    command
        .env("STORE_PATH", path)
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

#[test]
fn processes_write_at_once() {
    if write_as_told(40) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    // None has made the store before: creating it at once must work too.
    let children: Vec<_> = (0..4)
        .map(|n| {
            writer("processes_write_at_once", &path, &format!("0{n}"))
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
    let mut store = Store::open(&path).unwrap();
    let runs = store.list(9).unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|r| r.trials == 40), "{runs:?}");
}

#[test]
fn a_trial_that_was_stored_survives_a_kill() {
    if write_as_told(1_000_000) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    let mut child = writer("a_trial_that_was_stored_survives_a_kill", &path, "01")
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
    let (_, trials) = Store::open(&path).unwrap().load("01").unwrap();
    assert!(trials.len() as u64 > last);
    assert!(trials.iter().zip(0..).all(|(t, seq)| *t == record(seq)));
}

/// What `SQLite` does not wait for happens in microseconds: many tries meet it.
#[test]
fn a_store_that_many_make_at_once_opens_for_all() {
    for _ in 0..30 {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("s.db");
        let together = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            for n in 0..6 {
                let (path, together) = (&path, &together);
                scope.spawn(move || {
                    together.wait();
                    let mut store = Store::open(path).unwrap();
                    store.begin(&run(&format!("0{n}"), 1)).unwrap();
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().list(10).unwrap().len(), 6);
    }
}
