//! The store as its users see it: what goes in comes out, whatever happens to the process or file.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use layermark_model::{
    Cell, CpuUse, Debt, DeviceBytes, DirectIo, Facts, Import, ImportedPoint, Latency, LayerRun,
    LayerStatus, Machine, Pass, Plan, Run, RunStatus, SelfTest, Trial, TrialRecord, Verified,
};
use layermark_store::{Store, StoreError};

fn layer(name: &str, control: bool) -> LayerRun {
    let mut facts = Facts::default();
    facts.backing.push("/a/b.img".into());
    facts.notes.insert("direct_io".into(), "on".into());
    LayerRun {
        spec: "loop:xfs,direct-io=off".parse().unwrap(),
        name: name.into(),
        status: LayerStatus::Ready,
        reason: None,
        hint: None,
        facts,
        setup_s: 0.1,
        self_test: SelfTest {
            clock_ns: 20.1,
            loop_ns: 0.3,
            null_ns: 1.0 / 3.0,
        },
        read_only: false,
        control,
    }
}

fn run(id: &str, started_ms: i64) -> Run {
    let plan = "name = 'x'\n[[work]]\nworkload = 'file'\nop = ['read', 'write']\nrecord = 4096\n";
    let params = serde_json::json!({ "op": "read", "record": 4096, "cache": "cold" });
    Run {
        id: id.into(),
        version: "0.1.0".into(),
        started_ms,
        ended_ms: None,
        status: RunStatus::Running,
        seed: u64::MAX,
        dir: "/tmp/'quoted' \u{e4}".into(),
        plan: Plan::from_toml(plan).unwrap(),
        machine: Machine {
            cpus: 2,
            memory: 1 << 34,
            ..Machine::default()
        },
        layers: vec![layer("native", false), layer("native (control)", true)],
        points: vec![layermark_model::Point::new("file", "large read".into(), &params).unwrap()],
    }
}

fn record(seq: u64) -> TrialRecord {
    TrialRecord {
        seq,
        cell: Cell {
            session: 1,
            block: 2,
            layer: 1,
            point: 0,
        },
        at_ms: 1234,
        trial: Some(Trial {
            passes: vec![
                Pass {
                    elapsed_ns: 100 + seq,
                    ops: 3,
                    bytes: 7
                };
                2
            ],
            latency: Some(Latency {
                min: 1,
                mean: 0.1 + 0.2,
                p50: 2,
                p99: 3,
                p999: 4,
                max: 5,
                histogram: "AAAB+/=".into(),
            }),
            cpu: CpuUse {
                user_ns: 1,
                sys_ns: 2,
            },
            device: Some(DeviceBytes {
                read: 1,
                written: 2,
                flushes: 3,
            }),
            guest_device: Some(DeviceBytes {
                read: 4,
                written: 5,
                flushes: 6,
            }),
            debt: Some(Debt {
                bytes: Some(9),
                seconds: 1e-9 / 3.0,
            }),
            resident: Some(0.1),
            direct: Some(DirectIo::Ignored),
            verified: Some(Verified { records: 5, bad: 1 }),
            syncs: 4,
            idle_flushes: Some(0.5),
            launch: Some(Box::new(layermark_model::Launch {
                program: "app".into(),
                start_ns: u64::MAX,
                trace: Some(layermark_model::Trace::default()),
                ..layermark_model::Launch::default()
            })),
            notes: vec!["a note".into()],
            response_ns: Some(1.5),
            busy: Some(0.25),
            ..Trial::default()
        }),
        error: None,
        upkeep_ns: 77,
        foreign_cpu: 0.3,
        steal: 0.0,
        backing_resident: Some(2.0 / 3.0),
        flags: vec!["contaminated".into()],
    }
}

#[test]
fn what_goes_in_comes_out() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("new/dir/store.db");
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.path(), path);
    let mut run = run("01AAA", 1000);
    store.begin(&run).unwrap();
    let failed = TrialRecord {
        trial: None,
        error: Some("no".into()),
        seq: 1,
        ..record(1)
    };
    let plain = TrialRecord {
        trial: Some(Trial::default()),
        backing_resident: None,
        ..record(2)
    };
    let records = vec![record(0), failed, plain];
    for record in &records {
        store.trial(&run.id, record).unwrap();
    }
    run.status = RunStatus::Done;
    run.ended_ms = Some(2000);
    run.layers[1].status = LayerStatus::Failed;
    run.layers[1].reason = Some("gone".into());
    run.layers[1].hint = Some("look".into());
    run.layers[0]
        .facts
        .versions
        .insert("linux".into(), "6".into());
    run.layers[0].setup_s = 0.2;
    store.update(&run).unwrap();
    drop(store);
    let mut store = Store::open(format!("sqlite://{}", path.display())).unwrap();
    assert_eq!(store.load("01AAA").unwrap(), (run.clone(), records.clone()));
    assert_eq!(store.load("last").unwrap().1, records);
    let list = store.list(9).unwrap();
    assert_eq!((list.len(), list[0].trials, list[0].points), (1, 3, 1));
    assert_eq!(
        (list[0].name.as_str(), list[0].status, list[0].ended_ms),
        ("x", RunStatus::Done, Some(2000))
    );
    assert_eq!(list[0].layers, ["native", "native (control)"]);
}

#[test]
fn runs_are_found_by_id_by_its_beginning_and_as_the_last() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = Store::open(temp.path().join("s.db")).unwrap();
    assert!(matches!(
        store.load("last"),
        Err(StoreError::NotFound { .. })
    ));
    for (id, at) in [("01AAA", 1), ("01AAB", 3), ("01B", 2)] {
        store.begin(&run(id, at)).unwrap();
    }
    assert_eq!(store.load("last").unwrap().0.id, "01AAB");
    assert_eq!(
        store.load("01b").unwrap().0.id,
        "01B",
        "case does not matter"
    );
    assert_eq!(store.load("01AAA").unwrap().0.id, "01AAA");
    for stranger in ["", "%", "0_", "02", "01AAAA", "x'; DROP TABLE runs; --"] {
        let e = store.load(stranger).unwrap_err();
        assert!(matches!(e, StoreError::NotFound { .. }), "{stranger}: {e}");
        assert_eq!(e.hint().unwrap(), "list them: layermark history");
    }
    let e = store.load("01A").unwrap_err();
    assert_eq!(
        e.to_string(),
        "`01A` is the beginning of more than one run or import: 01AAB, 01AAA"
    );
    let newest: Vec<String> = store.list(2).unwrap().into_iter().map(|s| s.id).collect();
    assert_eq!(newest, ["01AAB", "01B"]);
    assert!(matches!(
        store.update(&run("09", 1)),
        Err(StoreError::NotFound { .. })
    ));
}

#[test]
fn imports_are_kept_beside_the_runs() {
    let home = tempfile::tempdir().unwrap();
    let mut store = Store::open(home.path().join("s.db")).unwrap();
    let import = |id: &str, imported_ms| Import {
        id: id.into(),
        imported_ms,
        file: "/tmp/'x'.json".into(),
        format: "fio".into(),
        tool: "fio-3.33".into(),
        measured: None,
        notes: vec!["2 lines".into()],
        points: vec![ImportedPoint {
            name: "a".into(),
            bytes_per_s: Some(1.0 / 3.0),
            ..ImportedPoint::default()
        }],
    };
    assert!(matches!(
        store.load_import("last"),
        Err(StoreError::NoImport { .. })
    ));
    for (id, at) in [("01AAA", 5), ("01AAB", 4)] {
        store.import(&import(id, at)).unwrap();
    }
    assert_eq!(store.load_import("last").unwrap(), import("01AAA", 5));
    assert_eq!(store.load_import("01aab").unwrap().imported_ms, 4);
    for (id, words) in [
        ("01", "more than one"),
        ("%", "no import"),
        ("", "no import"),
    ] {
        let e = store.load_import(id).unwrap_err();
        assert!(e.to_string().contains(words) && e.hint().is_some(), "{e}");
    }
    let listed = store.list_imports(1).unwrap();
    assert_eq!((listed.len(), listed[0].points), (1, 1));
    assert!(
        store.import(&import("01AAA", 5)).is_err(),
        "an id is given once"
    );
}

/// A store of the first format gets what came later, and keeps what it had.
#[test]
fn an_older_store_is_taken_over() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.db");
    Store::open(&path).unwrap().begin(&run("01RUN", 1)).unwrap();
    sql(
        &path,
        "DROP TABLE imports; DELETE FROM _sqlx_migrations WHERE version = 2",
    );
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.load("01RUN").unwrap().0.id, "01RUN");
    assert!(store.list_imports(5).unwrap().is_empty());
}

#[test]
fn a_trial_is_stored_once_and_only_for_a_run_that_is_there() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = Store::open(temp.path().join("s.db")).unwrap();
    store.begin(&run("01", 1)).unwrap();
    store.trial("01", &record(0)).unwrap();
    assert!(
        store.trial("01", &record(0)).is_err(),
        "the same place in the order twice"
    );
    assert!(store.trial("02", &record(0)).is_err(), "no such run");
    assert!(store.begin(&run("01", 1)).is_err());
    let large = TrialRecord {
        upkeep_ns: u64::MAX,
        ..record(1)
    };
    assert!(matches!(
        store.trial("01", &large),
        Err(StoreError::Value { .. })
    ));
    assert_eq!(store.load("01").unwrap().1.len(), 1);
}

/// The file must be refused, and still be what it was.
fn refused(path: &Path) -> StoreError {
    let before = fs::read(path).unwrap();
    let Err(error) = Store::open(path) else {
        panic!("opened {}", path.display())
    };
    assert_eq!(fs::read(path).unwrap(), before, "the file was changed");
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
    error
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    fs::write(
        &path,
        "this is not a database, but it is long enough to have a header of one",
    )
    .unwrap();
    let e = refused(&path);
    assert!(matches!(e, StoreError::Corrupt { .. }), "{e:?}");
    let hint = format!(
        "set it aside and start a new one: mv {0} {0}.broken",
        path.display()
    );
    assert_eq!(e.hint().unwrap(), hint);

    fs::remove_file(&path).unwrap();
    let mut store = Store::open(&path).unwrap();
    store.begin(&run("01", 1)).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(refused(&path), StoreError::Corrupt { .. }));
    let mut torn = whole.clone();
    torn[100..4096].fill(0x5a);
    fs::write(&path, &torn).unwrap();
    assert!(matches!(refused(&path), StoreError::Corrupt { .. }));
}

#[test]
fn a_file_damaged_inside_is_an_error_when_it_is_read() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    store.begin(&run("01", 1)).unwrap();
    for seq in 0..200 {
        store.trial("01", &record(seq)).unwrap();
    }
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let first_pages = 8 * 4096;
    bytes[first_pages..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    // Opening may work: the first pages are good. Reading must say what is wrong.
    let error = match Store::open(&path) {
        Ok(mut store) => store.load("01").expect_err("the pages are rubbish"),
        Err(e) => e,
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[test]
fn a_newer_store_and_a_strangers_database_are_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    drop(Store::open(&path).unwrap());
    sql(
        &path,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'later', true, x'00', 0)",
    );
    let e = refused(&path);
    assert!(
        matches!(
            e,
            StoreError::Newer {
                found: 99,
                known: 2,
                ..
            }
        ),
        "{e:?}"
    );
    assert!(e.hint().unwrap().contains(".newer"));

    let other = temp.path().join("photos.db");
    sql(&other, "CREATE TABLE photos (id BIGINT)");
    assert!(matches!(refused(&other), StoreError::Foreign { table, .. } if table == "photos"));
    assert!(matches!(
        Store::open(temp.path()),
        Err(StoreError::Directory { .. })
    ));
}

fn sql(path: &Path, text: &'static str) {
    use sqlx::{ConnectOptions, Connection, Executor};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        connection.execute(text).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn a_place_that_cannot_be_made_is_a_clear_error() {
    let e = Store::open("/proc/nowhere/s.db").err().unwrap();
    assert!(matches!(e, StoreError::Directory { .. }), "{e:?}");
    assert!(
        e.to_string().contains("/proc/nowhere/s.db") && e.hint().unwrap().contains("XDG_DATA_HOME")
    );
}

/// The other process of the two tests below: this test again, told by the environment.
fn writer(test: &str, path: &Path, run: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
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

#[test]
fn a_full_disk_is_a_clear_error_and_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    let mut store = Store::open_limited(&path, 40).unwrap();
    store.begin(&run("01", 1)).unwrap();
    let mut stored = 0;
    let error = loop {
        match store.trial("01", &record(stored)) {
            Ok(()) => stored += 1,
            Err(e) => break e,
        }
        assert!(stored < 10_000, "40 pages hold no 10,000 trials");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("df -h"));
    drop(store);
    assert_eq!(
        Store::open(&path).unwrap().load("01").unwrap().1.len() as u64,
        stored
    );
    assert!(stored > 10);
}
