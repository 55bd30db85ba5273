use std::sync::{Mutex, PoisonError};

use layermark_model::Trial;
use serde_json::{Value, json};

use super::{
    WORKLOAD,
    params::DbParams,
    sql::{self, Table},
};
use crate::{Context, TurnRequest, Work, Workload, workloads::ends::testing};

fn start(dir: &std::path::Path, params: Value) -> Box<dyn Work> {
    let point = testing::point(&WORKLOAD, params);
    WORKLOAD.prepare(dir, &point, &Context::least()).unwrap()
}

/// The counters belong to the whole process, and a probe does one job at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A trial with one turn of 30 ms.
fn trial(params: Value) -> Trial {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut work = start(dir.path(), params);
    let mut trial = Trial::default();
    let ask = TurnRequest {
        round: 0,
        ns: 30_000_000,
        lead_in_ns: 0,
    };
    work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
    work.settle(&mut trial).unwrap();
    work.end(&mut trial).unwrap();
    trial
}

#[test]
fn syncs_are_those_that_the_mode_asks_for() {
    for (journal, synchronous, least, most) in [
        // Flushes: the journal twice, the table, and the directory of the journal.
        ("rollback", "full", 2.0, 4.0),
        ("wal", "full", 1.0, 1.5),
        ("wal", "normal", 0.0, 0.5),
        ("rollback", "off", 0.0, 0.0),
    ] {
        let params = json!({"journal": journal, "synchronous": synchronous, "rows": 200});
        let trial = trial(params);
        let number = |name: &str| trial.figures.number(name).unwrap();
        let (commits, syncs) = (number("commits"), number("syncs"));
        let counted = (commits as u64, syncs as u64);
        assert_eq!(counted, (trial.ops(), trial.syncs));
        let each = syncs / commits;
        assert!(
            least <= each && each <= most,
            "{journal} {synchronous}: {each}"
        );
        assert!(number("written_bytes") >= number("committed_bytes"));
        assert_eq!(trial.verified.unwrap().records, 200);
        assert!(trial.latency.is_some() && trial.debt.is_some());
    }
}

#[test]
fn every_operation_leaves_a_whole_database() {
    for op in ["insert-batch", "read", "mixed"] {
        let trial = trial(json!({"op": op, "journal": "wal", "rows": 300}));
        let commits = trial.figures.number("commits").unwrap() as u64;
        let wanted = match op {
            "insert-batch" => trial.ops(),
            "read" => 0,
            _ => trial.ops() / 5,
        };
        assert_eq!(commits, wanted, "{op}");
        assert_eq!(trial.verified.unwrap().bad, 0);
    }
}

#[test]
fn a_full_log_is_copied_within_a_commit() {
    let params = json!({"op": "insert-batch", "journal": "wal", "synchronous": "off", "row_size": "64K", "rows": 100});
    let trial = trial(params);
    assert!(trial.figures.number("checkpoints") > Some(0.0), "{trial:?}");
    assert!(trial.figures.number("checkpoint_ns") > Some(0.0));
}

#[test]
fn a_lost_change_is_found() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let params = json!({"journal": "rollback", "rows": 100});
    let p: DbParams = testing::point(&WORKLOAD, params).typed().unwrap();
    let mut table = Table::make(&dir.path().join("t.db"), &p, 1).unwrap();
    assert_eq!(table.check(), Ok(100));
    table.changed += 1;
    let why = table.check().unwrap_err();
    assert_eq!(why, "it has 100 rows and 0 changes instead of 100 and 1");
}

#[test]
fn errors_that_may_have_lost_writes_or_filled_a_disk_have_their_errno() {
    for (code, errno) in [
        (rusqlite::ffi::SQLITE_IOERR_FSYNC, Some(libc::EIO)),
        (rusqlite::ffi::SQLITE_IOERR_WRITE, Some(libc::EIO)),
        (rusqlite::ffi::SQLITE_FULL, Some(libc::ENOSPC)),
        (rusqlite::ffi::SQLITE_IOERR_SHMMAP, None),
        (rusqlite::ffi::SQLITE_BUSY, None),
    ] {
        let of_sqlite =
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some("why".into()));
        let error = sql::error("run a transaction in", "/x/table.db".as_ref(), &of_sqlite);
        assert_eq!(error.errno, errno, "{error}");
        assert!(
            error.message.contains("in /x/table.db: ") && error.message.contains("why"),
            "{error:?}"
        );
        assert!(error.hint.is_some(), "{error:?}");
    }
}
