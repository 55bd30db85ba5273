//! What may be the matter with the file, and that it is told without doing more harm.

use std::{fs, path::Path};

use crate::{
    made::{record, run},
    places::assert_newer,
};
use layermark_model::{LayerStatus, Meaning, Run, RunStatus, Trial, TrialRecord};
use layermark_store::{Store, StoreError};

/// Makes a store one of format 5, with the run and the trials of [`earlier`] as that version wrote
/// them.
pub const FORMAT_5: &str = include_str!("format5.sql");

/// What [`FORMAT_5`] contains.
pub fn earlier() -> (Run, Vec<TrialRecord>) {
    let mut run = run("01RUN", 1);
    run.status = RunStatus::Done;
    run.ended_ms = Some(2000);
    run.layers[1].status = LayerStatus::LeftOut;
    run.layers[1].reason = Some("a \"quoted\" reason, \u{1f4a5}".into());
    run.layers[1].hint = Some("look".into());
    run.layers[1]
        .skips
        .insert("large read".into(), "no 'x'".into());
    run.layers[0].setup_s = 0.1 + 0.2;
    let failed = TrialRecord {
        trial: None,
        error: Some("no: \u{1f4a5} 'x'; \"y\" --\n".into()),
        seq: 1,
        ..record(1)
    };
    let plain = TrialRecord {
        trial: Some(Trial::default()),
        backing_resident: None,
        ..record(2)
    };
    (run, vec![record(0), failed, plain])
}

/// [`earlier`] as a store loads it.
pub fn earlier_in(store: &Store) -> (Run, Vec<TrialRecord>) {
    let (run, trials) = earlier();
    let store = store.option();
    (Run { store, ..run }, trials)
}

#[test]
fn a_store_of_the_earlier_format_is_read_and_converted() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.db");
    drop(Store::open(&path).unwrap());
    sql(&path, FORMAT_5);
    let before = fs::read(&path).unwrap();
    let mut read = Store::open_read(&path).unwrap();
    assert_eq!(read.load("last").unwrap(), earlier_in(&read));
    let list = read.list(9).unwrap();
    assert_eq!(
        (list[0].points, list[0].trials, list[0].layers.len()),
        (1, 3, 2)
    );
    drop(read);
    assert_eq!(fs::read(&path).unwrap(), before, "it was changed");
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.load("last").unwrap(), earlier_in(&store));
    assert_eq!(store.list(9).unwrap(), list);
    store.trial("01RUN", &record(3)).unwrap();
    assert_eq!(store.load("last").unwrap().1.len(), 4);
    drop(store);
    sql(
        &path,
        "DELETE FROM _sqlx_migrations WHERE version = 6; UPDATE _sqlx_migrations SET version = 4",
    );
    let error = refused(&path);
    assert!(
        matches!(error, StoreError::Older { found: 4, .. }),
        "{error:?}"
    );
    assert!(error.hint().unwrap().contains(".kept"));
}

/// A child of a process that was killed has its files until it has begun its own program.
#[test]
fn a_run_is_taken_over_from_a_process_that_ends() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.db");
    let mut ends = Store::open(&path).unwrap();
    ends.begin(&run("01RUN", 1)).unwrap();
    let mut other = Store::open(&path).unwrap();
    let ending = std::thread::spawn(move || {
        // So that the other one finds it at work.
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(ends);
    });
    other.hold("01RUN").unwrap();
    ending.join().unwrap();
}

/// Otherwise the earlier layermark could not store its next trial.
#[test]
fn a_store_of_the_earlier_format_is_not_converted_during_a_run() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.db");
    let mut at_work = Store::open(&path).unwrap();
    at_work.begin(&run("01RUN", 1)).unwrap();
    sql(&path, FORMAT_5);
    sql(&path, "UPDATE runs SET status = 'running'");
    let e = refused(&path);
    assert!(
        matches!(&e, StoreError::AtWork { run, .. } if run == "01RUN"),
        "{e:?}"
    );
    let mut read = Store::open_read(&path).unwrap();
    let (run, trials) = read.load("last").unwrap();
    assert_eq!((run.status, &trials), (RunStatus::Running, &earlier().1));
    drop((at_work, read));
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.load("last").unwrap().1, trials);
}

/// A later layermark may describe points with terms that this one does not know.
#[test]
fn a_meaning_with_an_unknown_term_is_empty() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.db");
    Store::open(&path).unwrap().begin(&run("01RUN", 1)).unwrap();
    sql(
        &path,
        "UPDATE runs SET points = json_set(points, '$[0].meaning.target', 'sockets')",
    );
    let (run, _) = Store::open_read(&path).unwrap().load("01RUN").unwrap();
    assert_eq!(run.points[0].meaning, Meaning::default());
    assert_eq!(run.points[0].label, "large read");
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
    assert_newer(&e);
    assert!(e.hint().unwrap().contains(".kept"));

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
    let hint = error.hint().unwrap();
    assert!(hint.contains("df -h"), "{hint}");
    let again = format!("continue: layermark run --resume last{}", store.option());
    assert!(hint.ends_with(&again), "{hint}");
    drop(store);
    assert_eq!(
        Store::open(&path).unwrap().load("01").unwrap().1.len() as u64,
        stored
    );
    assert!(stored > 10);
}

/// Everything in a directory, so that nothing is written unseen.
fn listing(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = entries
        .map(|p| (p.display().to_string(), fs::read(&p).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn reading_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sub/s.db");
    let mut none = Store::open_read(&path).unwrap();
    assert!(none.list(9).unwrap().is_empty() && none.list_imports(9).unwrap().is_empty());
    assert!(matches!(
        none.load("last"),
        Err(StoreError::NotFound { .. })
    ));
    assert!(!path.parent().unwrap().exists());
    let mut store = Store::open(&path).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    store.trial("01RUN", &record(0)).unwrap();
    // Beside a writer, whose trials are in its log.
    assert_eq!(
        Store::open_read(&path)
            .unwrap()
            .load("last")
            .unwrap()
            .1
            .len(),
        1
    );
    drop(store);
    for doctored in [false, true] {
        if doctored {
            sql(&path, FORMAT_5);
        }
        let before = listing(path.parent().unwrap());
        let mut read = Store::open_read(&path).unwrap();
        assert_eq!(read.load("01").unwrap().1[0], record(0));
        assert!(read.list_imports(5).unwrap().is_empty());
        assert!(read.trial("01RUN", &record(1)).is_err() || doctored);
        drop(read);
        assert_eq!(listing(path.parent().unwrap()), before);
    }
}

#[test]
fn a_file_that_is_refused_is_refused_for_reading_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.db");
    fs::write(
        &path,
        "these are memoirs, long enough to have a header of some kind in them",
    )
    .unwrap();
    assert!(matches!(
        Store::open_read(&path),
        Err(StoreError::Corrupt { .. })
    ));
    fs::remove_file(&path).unwrap();
    sql(&path, "CREATE TABLE recipes (name TEXT)");
    assert!(matches!(
        Store::open_read(&path),
        Err(StoreError::Foreign { .. })
    ));
    assert!(matches!(
        Store::open_read(temp.path()),
        Err(StoreError::Directory { .. })
    ));
}

/// What was read while somebody wrote is read again.
#[test]
fn a_reader_sees_what_was_written_after_it_was_opened() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.db");
    Store::open(&path).unwrap().begin(&run("01A", 1)).unwrap();
    let mut read = Store::open_read(&path).unwrap();
    Store::open(&path).unwrap().begin(&run("01B", 2)).unwrap();
    assert_eq!(read.list(9).unwrap().len(), 2);
}

#[test]
fn a_store_that_is_deleted_is_written_anew_with_all_it_had() {
    for whole_directory in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("sub/s.db");
        Store::open(&path).unwrap().begin(&run("01OLD", 1)).unwrap();
        let mut store = Store::open(&path).unwrap();
        store.begin(&run("01RUN", 2)).unwrap();
        store.trial("01RUN", &record(0)).unwrap();
        assert_eq!(store.lost(), None);
        if whole_directory {
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
            // Somebody else begins another one in its place.
            Store::open(&path).unwrap().begin(&run("01NEW", 3)).unwrap();
        }
        store.trial("01RUN", &record(1)).unwrap();
        assert_eq!(store.lost().as_deref(), Some(&*path));
        assert_eq!(store.path(), path.with_file_name("s-2.db"));
        store.trial("01RUN", &record(2)).unwrap();
        let going_on = Store::open_read(store.path())
            .unwrap()
            .load("01RUN")
            .unwrap()
            .0;
        assert_eq!(going_on.status, RunStatus::Running);
        drop(store);
        let mut kept = Store::open_read(path.with_file_name("s-2.db")).unwrap();
        assert_eq!(kept.load("01RUN").unwrap().1.len(), 3);
        assert_eq!(kept.list(9).unwrap().len(), 2);
        let new = Store::open_read(&path).unwrap().list(9).unwrap();
        assert_eq!(new.len(), usize::from(!whole_directory));
    }
}
