//! The store as its users see it: what goes in comes out.

use crate::made::{record, run};
use layermark_model::{Import, ImportedPoint, LayerStatus, RunStatus, Trial, TrialRecord};
use layermark_store::{Store, StoreError};

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
