//! The store: bad files are refused before anything is measured and stay as they are.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use layermark_report::TALLY_RULES;
use layermark_store::Store;
use layermark_testkit::fixtures;

use crate::common::{self, Lm, Said, history, is_root, skipped};

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
fn made() -> Lm {
    Lm::stored(&["scripted"])
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
    let lm = made();
    let mut bytes = fs::read(lm.store()).unwrap();
    let half = bytes.len() / 2;
    bytes[100..half].fill(0x5a);
    fs::write(lm.store(), &bytes).unwrap();
    let _ = fs::remove_file(lm.store().with_extension("db-wal"));
    refused(lm, &["layermark.db", "hint:"]);
    let lm = made();
    let bytes = fs::read(lm.store()).unwrap();
    fs::write(lm.store(), &bytes[..bytes.len() / 3]).unwrap();
    let said = lm.args(["report"]).run();
    assert!(matches!(said.code, Some(1 | 2)), "{}", said.stderr);
    said.says("error: ").says("hint: ");
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let lm = made();
    let store = lm.store();
    let future = "INSERT INTO _sqlx_migrations SELECT 99, 'future', installed_on, success, checksum, \
        execution_time FROM _sqlx_migrations; PRAGMA wal_checkpoint(TRUNCATE);";
    if !sql(&store, future) {
        skipped("sqlite3 is missing; hint: apt-get install sqlite3");
        return;
    }
    refused(lm, &["newer layermark", "format 99", "use that layermark"]);
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
    said.fails(1, &["/dev/null cannot be opened: it is not a file"])
        .left_nothing();
}

#[test]
fn a_store_in_a_directory_that_may_not_be_written_is_refused() {
    let said = Lm::new()
        .mock()
        .args(["--store", "/proc/x/layermark.db"])
        .run();
    said.fails(2, &["there is no directory /proc/x"])
        .left_nothing();
    let read_only = "mkdir ro; mount -t tmpfs -o ro,mode=700 none ro";
    let lm = Lm::new().mock().args(["--store", "ro/layermark.db"]);
    if let Some(lm) = lm.around(read_only, "") {
        lm.run().fails(1, &["ro/layermark.db"]);
    }
    if is_root() {
        skipped("the part about permissions: root may write everywhere");
        return;
    }
    let said = Lm::new()
        .mock()
        .args(["--store", "/usr/layermark.db"])
        .run();
    said.fails(1, &["/usr/layermark.db"]).left_nothing();
}

#[test]
fn a_store_on_a_full_disk_keeps_what_it_has() {
    let small = "mkdir s; mount -t tmpfs -o size=300k,mode=700 none s";
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

/// Whatever does not fit: the first run, its first trials, or that it has failed.
#[test]
fn a_disk_that_is_full_from_the_beginning_is_the_error() {
    for size in [60, 100, 140, 156, 180] {
        let small = format!("mkdir s; mount -t tmpfs -o size={size}k,mode=700 none s");
        let lm = Lm::new().mock().args(["--store", "s/l.db"]);
        let Some(lm) = lm.around(&small, "") else {
            return;
        };
        lm.run().fails(1, &["disk is full", "df -h"]).left_nothing();
    }
}

#[test]
fn two_runs_at_once_share_a_store() {
    let one = Lm::new().measure(&["mock:take=10ms", "mock:ns=1500,take=10ms"]);
    let store = one.store();
    fs::create_dir_all(store.parent().unwrap()).unwrap();
    let two = Lm::new().mock().args(["--store"]).args([&store]);
    let (child, dir) = one.start();
    two.run().code(4);
    let said = Said::from(common::output(child), dir).code(4);
    assert_eq!(history(said.dir.path()).len(), 2);
}

/// A store on a read-only medium, and on a disk with no room for one more byte, after `prepare`.
fn on_medium(prepare: &str, options: &str, words: &str) -> Option<Said> {
    let lm = made().args(["report", "last", "--store", "m/l.db"]);
    let before = format!(
        "mkdir m; mount -t tmpfs -o size=2m none m; cp data/layermark/layermark.db* m/; cd m; mv layermark.db l.db; \
         rm -f layermark.db-*; {prepare} cd ..; cat /dev/zero >m/filler 2>/dev/null || true; {options}"
    );
    let after = format!("$L history --store m/l.db {words}; ls m");
    Some(lm.around(&before, &after)?.run())
}

#[test]
fn what_is_stored_can_be_read_where_nothing_can_be_written() {
    for options in ["", "mount -o remount,bind,ro m;"] {
        let Some(said) = on_medium("", options, "") else {
            return;
        };
        let said = said.code(0).prints("Trust: ").prints(" done ");
        assert!(said.stdout.ends_with("\nfiller\nl.db\n"), "{}", said.stdout);
    }
    // Trials in a log that needs an index beside it.
    let killed = "printf 'x%.0s' $(seq 40) >l.db-wal;";
    if let Some(said) = on_medium(killed, "mount -o remount,bind,ro m;", "") {
        said.fails(1, &["was not closed", "l.db-wal", "cp "]);
    }
}

#[test]
fn a_killed_run_is_interrupted_and_goes_on() {
    let lm = Lm::new().measure(&["mock:take=200ms", "mock:ns=1500,take=200ms"]);
    let (mut child, home) = lm.start();
    let dir = home.path().to_owned();
    let status = || history(&dir).first().map(|run| run["status"].clone());
    common::wait_for("a trial", || {
        (common::trials_stored(&dir) > 0).then_some(())
    });
    assert_eq!(status(), Some("running".into()));
    Lm::with(&dir)
        .args(["run", "--resume", "last"])
        .run()
        .fails(2, &["another process is at work"]);
    child.kill().unwrap();
    child.wait().unwrap();
    // The run itself is a child of the command, and ends with it a moment later.
    common::wait_for("the run to end", || {
        (status() == Some("interrupted".into())).then_some(())
    });
    let said = Lm::with(&dir)
        .args(["history"])
        .run()
        .code(0)
        .prints("interrupted");
    let said = said.then().args(["report", "--json"]).run().code(0);
    assert_eq!(said.json()["status"], "interrupted");
    let said = said.then().args(["run", "--resume", "last"]).run().code(4);
    assert_eq!(history(said.dir.path())[0]["status"], "done");
}

#[test]
fn a_store_deleted_in_mid_run_is_written_anew() {
    let lm = Lm::new().measure(&["mock:take=200ms", "mock:ns=1500,take=200ms"]);
    let store = lm.store();
    let (child, home) = lm.start();
    let dir = home.path().to_owned();
    common::wait_for("a trial", || {
        (common::trials_stored(&dir) > 2).then_some(())
    });
    fs::remove_dir_all(store.parent().unwrap()).unwrap();
    let said = Said::from(common::output(child), home).code(4);
    let kept = store.with_file_name("layermark-2.db");
    let said = said
        .says("was deleted or replaced")
        .says(&format!("--store {}", kept.display()));
    assert!(!store.exists());
    let report = Lm::with(&dir)
        .args(["report", "--json", "--store"])
        .args([&kept])
        .run()
        .code(0)
        .json();
    assert_eq!(
        (&report["status"], report["trials"].as_array().map(Vec::len)),
        (&"done".into(), Some(18))
    );
    drop(said);
}

/// In a store of many machines it tells whose run each is.
#[test]
fn history_has_the_label_of_the_machine() {
    let run = Lm::new().mock().run();
    let said = run.then().mock().args(["--label", "build-7"]).run();
    let runs = history(said.dir.path());
    assert_eq!(runs[0]["label"], "build-7", "{runs:?}");
    assert!(runs[1]["label"].is_null(), "{runs:?}");
    let listed = said.then().args(["history"]).run().code(0);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    let id = runs[0]["run"].as_str().expect("an id");
    let at = lines.iter().position(|line| line.contains(id)).expect(id);
    let column = lines[0].find("label").expect("a column of labels");
    assert!(
        lines[at][column..].starts_with("build-7 "),
        "{}",
        listed.stdout
    );
    assert_eq!(listed.stdout.matches("build-7").count(), 1);
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
        .fails(2, &["no run `last`", "hint: measure one: layermark run"]);
    let second = Lm::stored(&["scripted", "scripted-later"]);
    let runs = history(second.dir.path());
    let id = runs[1]["run"].as_str().unwrap().to_owned();
    let first = fixtures::fixture("scripted").read().run.id;
    assert_eq!((runs.len(), &id), (2, &first));
    assert_eq!(
        (&runs[0]["status"], &runs[0]["plan"]),
        (&"done".into(), &"file".into())
    );
    let listed = second
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

/// A copied command looked in the user's own store, which has no such run.
#[test]
fn printed_commands_name_another_store_and_work() {
    let lm = Lm::new().args(["report", "-o", "x.html", "-o", "x.md"]);
    fixtures::store(&lm.dir.path().join("my runs.db"), &["scripted"]);
    let said = lm.args(["--store", "my runs.db"]).run().code(0);
    let file = |name: &str| fs::read_to_string(said.dir.path().join(name)).unwrap();
    let texts = [
        said.stdout.clone(),
        file("x.md"),
        file("x.html").replace("&#39;", "'"),
    ];
    let mut commands = BTreeSet::new();
    for text in &texts {
        let text = text.replace("\n  ", " ");
        let starts = text.split("layermark re").skip(1);
        let ends = starts.filter_map(|rest| rest.split(['`', '<', '\n']).next());
        commands.extend(ends.filter(|c| c.starts_with("port 0")).map(str::to_owned));
    }
    assert!(commands.len() > 1, "{texts:?}");
    let mut said = said;
    for command in commands {
        let words = shell_words::split(&format!("re{command}")).unwrap();
        said = said.then().args(&words).run().code(0);
    }
    said.then()
        .args(["report"])
        .run()
        .fails(2, &["no run `last`"]);
}

/// Verdicts take all trials of a run: they are counted when it ends, and lists read the counts.
#[test]
fn verdicts_of_a_run_are_kept() {
    let said = Lm::new().mock().run().code(4);
    let store = Lm::with(said.dir.path()).store();
    let read = || {
        let mut store = Store::open_read(&store).expect("a store");
        let runs = store.list(10_usize).expect("runs");
        let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        store.tallies(TALLY_RULES, &ids).expect("kept tallies")
    };
    let slower = |said: Said| {
        let said = said.then().args(["history", "--json"]).run().code(0);
        let slower = said.json()["runs"][0]["verdicts"]["slower"].clone();
        (said, slower)
    };
    assert_eq!(read().len(), 1);
    let (said, counted) = slower(said);
    assert_eq!(counted, 1);
    // Another count shows whether they are used.
    let changed: Vec<_> = read()
        .into_iter()
        .map(|(run, tally)| (run, tally.replace("\"slower\":1", "\"slower\":0")))
        .collect();
    let keep = |rules| {
        let mut own = Store::open(&store).expect("a store");
        own.keep_tallies(rules, &changed).expect("kept");
    };
    keep(TALLY_RULES);
    let (said, kept) = slower(said);
    assert_eq!(kept, 0);
    keep("other rules");
    assert_eq!(slower(said).1, 1);
}
