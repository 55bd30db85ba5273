//! The store as its users see it: what goes in comes out.

use crate::{
    made::{record, run},
    places::{on_both, sql},
};
use layermark_model::{
    FleetHost, FleetOfRun, Import, ImportedPoint, LayerStatus, Run, RunStatus, Trial, TrialRecord,
};
use layermark_store::{Filter, Store, StoreError};

on_both!(
    what_goes_in_comes_out,
    runs_are_found_by_id_by_its_beginning_and_as_the_last,
    runs_are_named_by_their_place_too,
    runs_are_listed_by_plan_layer_and_time,
    runs_are_listed_by_host,
    hosts_of_a_store_of_an_earlier_version_are_found_and_indexed,
    a_run_that_begins_indexes_some_earlier_ones,
    imports_are_kept_beside_the_runs,
    tallies_are_kept_by_rules_and_trials,
    a_trial_is_stored_once_and_only_for_a_run_that_is_there,
    trials_are_stored_also_if_some_of_them_are_there,
    a_process_works_on_several_runs,
    a_run_nobody_works_on_is_interrupted,
);

fn what_goes_in_comes_out(at: &str) {
    let mut store = Store::open(at).unwrap();
    assert_eq!(store.path(), layermark_store::shown(at));
    let mut run = run("01AAA", 1000);
    store.begin(&run).unwrap();
    let failed = TrialRecord {
        trial: None,
        error: Some("no: \u{1f4a5} 'x'; --".into()),
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
    run.layers[0].status = LayerStatus::LeftOut;
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
    // The other way to write the same.
    let other = match at.strip_prefix("postgres://") {
        Some(rest) => format!("postgresql://{rest}"),
        None => format!("sqlite://{at}"),
    };
    let mut store = Store::open(other).unwrap();
    let named = Run {
        store: store.option(),
        ..run.clone()
    };
    assert_eq!(store.load("01AAA").unwrap(), (named, records.clone()));
    assert_eq!(store.load("last").unwrap().1, records);
    let list = store.list(9).unwrap();
    assert_eq!((list.len(), list[0].trials, list[0].points), (1, 3, 1));
    assert_eq!(
        (list[0].name.as_str(), list[0].status, list[0].ended_ms),
        ("x", RunStatus::Done, Some(2000))
    );
    assert_eq!(list[0].layers, ["native", "native (control)"]);
}

fn runs_are_found_by_id_by_its_beginning_and_as_the_last(at: &str) {
    let mut store = Store::open(at).unwrap();
    // The list of runs is empty as well.
    let none = store.load("last").unwrap_err();
    assert!(matches!(none, StoreError::NotFound { .. }));
    let hint = none.hint().unwrap();
    assert!(
        hint.starts_with("measure one: layermark run --store "),
        "{hint}"
    );
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
        let hint = e.hint().unwrap();
        assert!(
            hint.starts_with("list them: layermark history --store "),
            "{hint}"
        );
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

fn runs_are_named_by_their_place_too(at: &str) {
    let mut store = Store::open(at).unwrap();
    // Two that began in the same millisecond are told apart by their ids.
    for (id, at) in [("01C", 5), ("01A", 9), ("01B", 5)] {
        store.begin(&run(id, at)).unwrap();
    }
    // Each run counts once, however many trials it has.
    for seq in 0..3 {
        store.trial("01A", &record(seq)).unwrap();
    }
    for (name, id) in [
        ("last", "01A"),
        ("last~0", "01A"),
        ("last~1", "01C"),
        ("last~2", "01B"),
        ("#1", "01B"),
        ("#3", "01A"),
        ("2", "01C"),
    ] {
        assert_eq!(store.load(name).unwrap().0.id, id, "{name}");
    }
    for name in [
        "last~3",
        "last~",
        "last~-1",
        "last~x",
        "#4",
        "#0",
        "#",
        "last~99999999999999999999",
    ] {
        let found = store.load(name);
        assert!(matches!(found, Err(StoreError::NotFound { .. })), "{name}");
    }
    // No number, but the beginning of all three ids.
    assert!(matches!(store.load("0"), Err(StoreError::Ambiguous { .. })));
    let listed = store.list(9).unwrap();
    let numbers: Vec<(u64, &str)> = listed.iter().map(|r| (r.number, r.id.as_str())).collect();
    assert_eq!(numbers, [(3, "01A"), (2, "01C"), (1, "01B")]);
    // One that has ended and measured nothing is not the last, but keeps its number.
    let nothing = Run {
        status: RunStatus::Failed,
        ..run("01D", 11)
    };
    store.begin(&nothing).unwrap();
    assert_eq!(store.load("last").unwrap().0.id, "01A");
    assert_eq!(store.load("#4").unwrap().0.id, "01D");
    let many: Vec<String> = (10..22).map(|n| format!("02{n}")).collect();
    for id in &many {
        store.begin(&run(id, 1)).unwrap();
    }
    let error = store.load("02").unwrap_err().to_string();
    assert!(
        error.ends_with("0221, 0220, 0219, 0218, 0217, 0216, 0215, 0214 and 4 more"),
        "{error}"
    );
}

fn runs_are_listed_by_plan_layer_and_time(at: &str) {
    let mut store = Store::open(at).unwrap();
    for (id, at, plan, layer) in [
        ("01A", 10, "card", "fuse:cache=none,delay=2ms"),
        ("01B", 20, "card", "fuse"),
        ("01C", 30, "file", "vm..fuse:delay=2ms0"),
        ("01D", 40, "file", "fuse2"),
    ] {
        let mut run = run(id, at);
        run.plan.name = plan.into();
        run.layers[0].name = layer.into();
        run.layers[0].spec = layer.parse().unwrap();
        run.layers[1].spec = "native".parse().unwrap();
        store.begin(&run).unwrap();
    }
    let all = Filter::from(9);
    let mut ids = |filter: Filter| -> String {
        let runs = store.list(filter).unwrap();
        runs.iter().map(|r| r.id[2..].to_owned()).collect()
    };
    let plan = |name: &str| Some(name.to_owned());
    assert_eq!(ids(all.clone()), "DCBA");
    assert_eq!(
        ids(Filter {
            plan: plan("card"),
            ..all.clone()
        }),
        "BA"
    );
    assert_eq!(
        ids(Filter {
            plan: plan("car"),
            ..all.clone()
        }),
        ""
    );
    let layer = |name: &str| Some(name.parse().unwrap());
    for (name, found) in [
        ("fuse", "CBA"),
        ("fuse:delay=2ms,cache=none", "A"),
        ("fuse:delay=2ms", "A"),
        ("vm", "C"),
        ("vm..fuse", "C"),
        ("f_se", ""),
        ("fus", ""),
        // The control is no layer of the user's.
        ("native", ""),
    ] {
        let filter = Filter {
            layer: layer(name),
            ..all.clone()
        };
        assert_eq!(ids(filter), found, "{name}");
    }
    assert_eq!(
        ids(Filter {
            since_ms: Some(20),
            ..all.clone()
        }),
        "DCB"
    );
    let both = Filter {
        plan: plan("file"),
        since_ms: Some(35),
        ..all
    };
    assert_eq!(ids(both), "D");
    assert_eq!(
        ids(Filter {
            layer: layer("fuse"),
            ..Filter::from(1)
        }),
        "C"
    );
}

/// Runs of a machine with a label, of a fleet, of a machine without a label, and of one whose label no server stores.
fn of_hosts(store: &mut Store) {
    let host = |name: &str| FleetHost {
        name: name.into(),
        ..FleetHost::default()
    };
    let fleet = FleetOfRun {
        hosts: vec![host("n1"), host("n2")],
        ..FleetOfRun::default()
    };
    for (id, at, label, fleet) in [
        ("01A", 10, Some("n1"), None),
        ("01B", 20, Some("n1, n2"), Some(Box::new(fleet))),
        ("01C", 30, None, None),
        ("01D", 40, Some("n1\0"), None),
    ] {
        let mut run = run(id, at);
        run.machine.label = label.map(str::to_owned);
        run.fleet = fleet;
        store.begin(&run).unwrap();
    }
}

/// Ids of the runs of a host.
fn of_host(store: &mut Store, host: &str) -> String {
    let filter = Filter {
        host: Some(host.to_owned()),
        ..Filter::from(9)
    };
    let runs = store.list(filter).unwrap();
    runs.iter().map(|r| r.id[2..].to_owned()).collect()
}

const FOUND: [(&str, &str); 5] = [
    ("n1", "BA"),
    ("n2", "B"),
    ("n1, n2", ""),
    ("n", ""),
    ("", "DCBA"),
];

fn runs_are_listed_by_host(at: &str) {
    let mut store = Store::open(at).unwrap();
    of_hosts(&mut store);
    for (host, found) in FOUND {
        assert_eq!(of_host(&mut store, host), found, "{host}");
    }
    let all = store.list(9).unwrap();
    assert_eq!(all[2].hosts, ["n1", "n2"]);
    let newest = Filter {
        host: Some("n1".into()),
        plan: Some("x".into()),
        ..Filter::from(1)
    };
    assert_eq!(store.list(newest.clone()).unwrap()[0].id, "01B");
    let other = Filter {
        plan: Some("y".into()),
        ..newest
    };
    assert!(store.list(other).unwrap().is_empty());
    // A host that had not started has its name when the run goes on.
    let mut run = store.load("01B").unwrap().0;
    run.fleet.as_mut().unwrap().hosts[1].name = "n3".into();
    store.update_with_layers(&run).unwrap();
    store.add_hosts(&run);
    assert_eq!(of_host(&mut store, "n3"), "B");
    assert!(!of_host(&mut store, "n2").contains('B'), "its former name");
}

fn hosts_of_a_store_of_an_earlier_version_are_found_and_indexed(at: &str) {
    let mut store = Store::open(at).unwrap();
    of_hosts(&mut store);
    drop(store);
    sql(at, "DROP TABLE hosts");
    let mut read = Store::open_read(at).unwrap();
    for (host, found) in FOUND {
        assert_eq!(of_host(&mut read, host), found, "{host}");
    }
    drop(read);
    // The next run adds all others: no run has to be read then.
    let mut store = Store::open(at).unwrap();
    store.begin(&run("01E", 5)).unwrap();
    drop(store);
    sql(at, "UPDATE runs SET run = '{}'");
    let mut read = Store::open_read(at).unwrap();
    for (host, found) in &FOUND[..4] {
        assert_eq!(of_host(&mut read, host), *found, "{host}");
    }
    drop(read);
    // An earlier version has added a run since.
    sql(at, "DELETE FROM hosts WHERE run_id = '01B'");
    sql(
        at,
        "UPDATE runs SET run = '{\"machine\":{\"label\":\"n2\"}}' WHERE id = '01B'",
    );
    let mut read = Store::open_read(at).unwrap();
    assert_eq!(
        [of_host(&mut read, "n1"), of_host(&mut read, "n2")],
        ["A", "B"]
    );
}

/// The first run in a store of 20,000 runs waited until all of them were in the index.
fn a_run_that_begins_indexes_some_earlier_ones(at: &str) {
    let of = |id: &str, host: &str| {
        let mut run = run(id, 9_000);
        run.machine.label = Some(host.into());
        run
    };
    let mut store = Store::open(at).unwrap();
    store.begin(&of("A1", "n1")).unwrap();
    drop(store);
    sql(
        at,
        "INSERT INTO runs SELECT 'B' || n, name, n, ended_ms, status, point_count, run, points FROM runs,
         (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 450) SELECT n FROM c) AS c",
    );
    sql(at, "DROP TABLE hosts");
    for (id, indexed) in [("A2", 199), ("A3", 398), ("A4", 451), ("A5", 451)] {
        let mut store = Store::open(at).unwrap();
        store.begin(&of(id, "n2")).unwrap();
        drop(store);
        // Runs that are not in the index are read.
        sql(at, "UPDATE runs SET name = run, run = '{}'");
        let filter = Filter {
            host: Some("n1".into()),
            ..Filter::from(1_000)
        };
        let found = Store::open_read(at).unwrap().list(filter).unwrap();
        assert_eq!(found.len(), indexed, "{id}");
        sql(at, "UPDATE runs SET run = name");
    }
}

fn imports_are_kept_beside_the_runs(at: &str) {
    let mut store = Store::open(at).unwrap();
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

fn tallies_are_kept_by_rules_and_trials(at: &str) {
    let mut store = Store::open(at).unwrap();
    store.begin(&run("01", 1)).unwrap();
    assert!(
        store.tallies("a", &["01"]).is_err(),
        "a new store has no such table"
    );
    let tally = |trials: u64, text: &str| [(("01".to_owned(), trials), text.to_owned())];
    store.keep_tallies("a", &tally(1, "one")).unwrap();
    assert_eq!(store.tallies("a", &["01"]).unwrap(), tally(1, "one").into());
    assert_eq!(
        store.tallies("b", &["01"]).unwrap(),
        [].into(),
        "other rules"
    );
    store.keep_tallies("b", &tally(2, "two")).unwrap();
    assert_eq!(store.tallies("a", &["01"]).unwrap(), [].into(), "replaced");
    // The run asked for is found among more than one query takes.
    let many: Vec<String> = (0..1200).map(|n| format!("x{n}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(store.tallies("b", &many).unwrap(), [].into(), "other runs");
    many.push("01");
    assert_eq!(store.tallies("b", &many).unwrap(), tally(2, "two").into());
}

fn a_trial_is_stored_once_and_only_for_a_run_that_is_there(at: &str) {
    let mut store = Store::open(at).unwrap();
    store.begin(&run("01", 1)).unwrap();
    store.trial("01", &record(0)).unwrap();
    assert!(
        store.trial("01", &record(0)).is_err(),
        "the same place in the order twice"
    );
    assert!(store.trial("02", &record(0)).is_err(), "no such run");
    assert!(store.begin(&run("01", 1)).is_err());
    let large = TrialRecord {
        seq: u64::MAX,
        ..record(1)
    };
    assert!(matches!(
        store.trial("01", &large),
        Err(StoreError::Value { .. })
    ));
    assert_eq!(store.load("01").unwrap().1.len(), 1);
}

/// The reply to an earlier commit may have been lost: what it had is sent again, with more.
fn trials_are_stored_also_if_some_of_them_are_there(at: &str) {
    let mut store = Store::open(at).unwrap();
    store.begin(&run("01", 1)).unwrap();
    let all: Vec<TrialRecord> = (0..5).map(record).collect();
    store.trials("01", &all[..3]).unwrap();
    store.trials("01", &all).unwrap();
    assert_eq!(store.load("01").unwrap().1, all);
    store.trials("01", &all).unwrap();
    // Another trial with a number of a stored one is an error, and nothing of its commit stays.
    let other = TrialRecord {
        seq: 4,
        ..record(7)
    };
    let e = store.trials("01", &[record(5), other]).unwrap_err();
    assert!(e.to_string().contains("another trial is stored"), "{e}");
    assert_eq!(store.load("01").unwrap().1, all);
}

/// As a check of a fleet does.
fn a_process_works_on_several_runs(at: &str) {
    let mut store = Store::open(at).unwrap();
    for id in ["01A", "01B", "01C"] {
        store.begin(&run(id, 1)).unwrap();
    }
    let running = || {
        let all = Store::open_read(at).unwrap().list(9).unwrap();
        let running = all.into_iter().filter(|r| r.status == RunStatus::Running);
        let mut ids: Vec<String> = running.map(|r| r.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(running(), ["01A", "01B", "01C"]);
    let mut other = Store::open(at).unwrap();
    assert!(matches!(other.hold("01A"), Err(StoreError::AtWork { .. })));
    let ended = Run {
        status: RunStatus::Done,
        ..run("01B", 1)
    };
    store.update(&ended).unwrap();
    assert_eq!(running(), ["01A", "01C"]);
    assert!(matches!(other.hold("01C"), Err(StoreError::AtWork { .. })));
    other.hold("01B").unwrap();
}

fn a_run_nobody_works_on_is_interrupted(at: &str) {
    let mut store = Store::open(at).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    let status = || Store::open_read(at).unwrap().list(1).unwrap()[0].status;
    assert_eq!(status(), RunStatus::Running);
    let mut other = Store::open(at).unwrap();
    assert!(matches!(
        other.hold("01RUN"),
        Err(StoreError::AtWork { .. })
    ));
    drop(store);
    assert_eq!(status(), RunStatus::Interrupted);
    assert_eq!(
        other.load("01RUN").unwrap().0.status,
        RunStatus::Interrupted
    );
    other.hold("01RUN").unwrap();
    assert_eq!(status(), RunStatus::Running);
    other
        .update(&Run {
            status: RunStatus::Stopped,
            ..run("01RUN", 1)
        })
        .unwrap();
    assert_eq!(status(), RunStatus::Stopped);
    other.hold("01RUN").unwrap();
}
