//! `--store postgres://...`: many machines write to one server, and its password is shown nowhere.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, thread, time::Duration};

use layermark_testkit::postgres::{PASSWORD, Server};
use serde_json::Value;

use crate::common::{self, Lm, Said, skipped};

/// A server of the test's own.
fn server() -> Option<Server> {
    let server = Server::start();
    if server.is_none() {
        skipped("no PostgreSQL; hint: apt-get install postgresql");
    }
    server
}

/// What a command said has no password.
#[track_caller]
fn safe(said: Said) -> Said {
    for text in [&said.stdout, &said.stderr] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    said
}

/// No file below a directory has the password.
#[track_caller]
fn no_file_tells(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().map_while(Result::ok) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            no_file_tells(&path);
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let found = bytes
            .windows(PASSWORD.len())
            .any(|part| part == PASSWORD.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

fn runs(store: &str) -> Vec<Value> {
    let said = safe(
        Lm::new()
            .args(["history", "--json", "--store", store])
            .run(),
    )
    .code(0);
    said.json()["runs"].as_array().unwrap().clone()
}

#[test]
fn two_machines_write_and_a_third_compares() {
    let Some(server) = server() else { return };
    let store = server.database();
    // At once, and from directories that share nothing.
    let files = ["-o", "r.html", "-o", "r.json", "-o", "r.junit.xml"];
    let started = [(), ()].map(|()| {
        Lm::new()
            .mock()
            .args(["--store", &store])
            .args(files)
            .start()
    });
    for (child, dir) in started {
        let said = safe(Said::from(common::output(child), dir))
            .code(4)
            .left_nothing();
        no_file_tells(said.dir.path());
        assert!(!said.dir.path().join("data/layermark/layermark.db").exists());
    }
    let listed = runs(&store);
    assert_eq!(listed.len(), 2);
    assert!(
        listed.iter().all(|run| run["status"] == "done"),
        "{listed:?}"
    );

    // By name, which a static binary has to look up too.
    let by_name = store.replace("127.0.0.1", "localhost");
    let compare = ["compare", "last~1", "last", "--store", &by_name];
    let said = safe(Lm::new().args(compare).args(["-o", "c.md"]).run());
    assert!(
        matches!(said.code, Some(0 | 4)),
        "{}{}",
        said.stdout,
        said.stderr
    );
    no_file_tells(said.dir.path());
    let report = [
        "report", "last", "--full", "--store", &store, "-o", "r.html", "-o", "r.xlsx",
    ];
    let said = safe(Lm::new().args(report).run()).code(0);
    no_file_tells(said.dir.path());
    let dump = server.dump(&store);
    assert!(dump.contains("mock:ns=1500") && !dump.contains(PASSWORD));
}

#[test]
fn the_password_is_taken_from_where_psql_takes_it() {
    let Some(server) = server() else { return };
    let store = server.database();
    let open = store.replace(&format!(":{PASSWORD}"), "");
    let history = || Lm::new().args(["history", "--store", &open]);
    history().env("PGPASSWORD", PASSWORD).run().code(0);
    let said = history().env("PGPASSWORD", "").run();
    said.fails(1, &["refuses the user", "~/.pgpass"]);
    let home = common::disk_dir();
    let file = home.path().join(".pgpass");
    fs::write(
        &file,
        format!("127.0.0.1:{}:*:team:{PASSWORD}\n", server.port),
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let said = Lm::new()
        .mock()
        .args(["--store", &open])
        .env("HOME", home.path())
        .run();
    safe(said).code(4);
    assert_eq!(runs(&store).len(), 1);
}

#[test]
fn a_server_that_cannot_be_used_is_told_before_anything_is_measured() {
    let Some(server) = server() else { return };
    let store = server.database();
    let port = server.port;
    for (at, code, words) in [
        (
            store.replace(PASSWORD, "wrong"),
            1,
            ["refuses the user", "PGPASSWORD"],
        ),
        (server.url("nowhere"), 1, ["is not there", "createdb"]),
        (
            format!("{store}?sslmode=require"),
            1,
            ["by TLS", "sslmode=disable"],
        ),
        (
            store.replace(&format!(":{port}/"), ":1/"),
            1,
            ["cannot be reached", "pg_isready"],
        ),
        (
            store.replace(&format!(":{port}/"), ":port/"),
            2,
            ["is not the address", "postgres://USER@HOST/DATABASE"],
        ),
        (
            format!("{store}?sslmode=perhaps"),
            2,
            ["is not the address", "sslmode"],
        ),
    ] {
        let said = safe(Lm::new().mock().args(["--store", &at]).run());
        assert!(!said.stderr.contains("wrong"), "{}", said.stderr);
        said.fails(code, &words).left_nothing();
        let said = safe(Lm::new().args(["history", "--json", "--store", &at]).run());
        assert_eq!(
            said.fails(code, &words).json()["schema"],
            "layermark.error/1"
        );
    }
    let said = Lm::new()
        .mock()
        .args(["--store", "mysql://me:s3cret@h/x"])
        .run();
    assert!(!said.stderr.contains("s3cret"), "{}", said.stderr);
    said.fails(2, &["`mysql://` stores", "postgres://"]);
}

#[test]
fn a_run_outlives_its_server_and_its_process() {
    let Some(server) = server() else { return };
    let store = server.database();
    let slow = ["mock:take=100ms", "mock:ns=1500,take=100ms"];
    let begun = || {
        let (child, home) = Lm::new().measure(&slow).args(["--store", &store]).start();
        common::wait_for("a trial", || {
            let trials = runs(&store).first().and_then(|run| run["trials"].as_u64());
            trials.filter(|n| *n > 1)
        });
        (child, home)
    };
    let (child, home) = begun();
    assert_eq!(runs(&store)[0]["status"], "running");
    server.stop();
    thread::sleep(Duration::from_secs(2));
    server.begin("");
    safe(Said::from(common::output(child), home))
        .code(4)
        .left_nothing();
    let once = &runs(&store)[0];
    assert_eq!(once["status"], "done");
    let seqs = server.sql(&store, "SELECT count(*), max(seq) + 1 FROM trials");
    let (count, last) = seqs.trim().split_once('|').expect("two numbers");
    assert_eq!(count, last, "a trial is missing");

    // The process is killed instead, and another one goes on.
    server.sql(&store, "TRUNCATE runs, layers, trials");
    let (mut child, home) = begun();
    let resume = ["run", "--resume", "last", "--store", &store];
    let said = safe(Lm::with(home.path()).args(resume).run());
    said.fails(2, &["another process is at work", "postgres://team:***@"]);
    child.kill().unwrap();
    child.wait().unwrap();
    common::wait_for("the end of its connection", || {
        (runs(&store)[0]["status"] == "interrupted").then_some(())
    });
    safe(Lm::with(home.path()).args(resume).run()).code(4);
    assert_eq!(runs(&store)[0]["status"], "done");
}

/// A run whose server stays away ends, and says how to go on.
#[test]
fn a_run_without_its_server_ends_with_what_it_had() {
    let Some(server) = server() else { return };
    let store = server.database();
    let slow = ["mock:take=100ms", "mock:ns=1500,take=100ms"];
    let lm = Lm::new().measure(&slow).args(["--store", &store]);
    let (child, home) = lm.env("LAYERMARK_STORE_PATIENCE", "3s").start();
    common::wait_for("a trial", || {
        let trials = runs(&store).first().and_then(|run| run["trials"].as_u64());
        trials.filter(|n| *n > 1)
    });
    server.stop();
    let said = safe(Said::from(common::output(child), home));
    let words = [
        "could not be restored",
        "pg_isready",
        "continue: layermark run --resume 0",
    ];
    let said = said.fails(1, &words).left_nothing();
    server.begin("");
    let kept = runs(&store)[0]["trials"].as_u64();
    assert!(kept > Some(1));
    let resume = ["run", "--resume", "last", "--store", &store];
    let said = safe(said.then().args(resume).run()).code(4);
    no_file_tells(said.dir.path());
    assert!(runs(&store)[0]["trials"].as_u64() > kept);
}

#[test]
fn how_long_a_lost_server_is_waited_for_is_a_time() {
    let lm = Lm::new().measure(&["mock"]);
    let said = lm.env("LAYERMARK_STORE_PATIENCE", "soon").run();
    let words = [
        "LAYERMARK_STORE_PATIENCE=soon",
        "LAYERMARK_STORE_PATIENCE=10m",
    ];
    said.fails(2, &words);
}
