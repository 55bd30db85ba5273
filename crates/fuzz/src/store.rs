//! Fuzzes a corrupted store: the input selects what is changed in a valid one.

use std::{fs, path::Path, sync::OnceLock};

use layermark_report::Report;
use layermark_store::Store;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use crate::{SLOW, sample, texts, written};

/// Columns that are read back.
const COLUMNS: [(&str, &str); 15] = [
    ("runs", "name"),
    ("runs", "started_ms"),
    ("runs", "ended_ms"),
    ("runs", "status"),
    ("runs", "point_count"),
    ("runs", "run"),
    ("runs", "points"),
    ("layers", "idx"),
    ("layers", "name"),
    ("layers", "spec"),
    ("layers", "control"),
    ("trials", "seq"),
    ("trials", "trial"),
    ("runs", "run"),
    ("trials", "trial"),
];

/// The new values, as SQL; `OLD` is the old value.
const VALUES: [&str; 32] = [
    "NULL",
    "0",
    "-1",
    "1",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9e999",
    "-9e999",
    "1e308",
    "''",
    "'x'",
    "char(27) || '[31mred' || char(7, 8238, 65535)",
    "'{}'",
    "'[]'",
    "'null'",
    "'\"'",
    "replace(OLD, '0', '18446744073709551615')",
    "replace(OLD, '1', '-1')",
    "replace(OLD, '\"', '')",
    "substr(OLD, 1, length(OLD) / 2)",
    "replace(OLD, 'e', char(27))",
    "json_set(OLD, '$.cell.session', 4294967295)",
    "json_set(OLD, '$.cell.block', 4294967295)",
    "json_set(OLD, '$.cell.layer', 9223372036854775807)",
    "json_set(OLD, '$.cell.point', 9)",
    "json_set(OLD, '$.trial.latency.min', 9223372036854775807, '$.trial.latency.mean', 1e308)",
    "json_set(OLD, '$.trial.latency.histogram', 'x')",
    "json_set(OLD, '$.error', char(27, 7, 8238, 65535) || 'red', '$.trial', NULL)",
    "json_set(OLD, '$.layers[1].name', char(27, 7, 8238) || 'red', '$.dir', char(27, 65535))",
    "json_set(OLD, '$[0].label', char(27, 7, 8238) || 'red', '$[0].workload', char(27, 65535))",
    "replace(OLD, ':1', ':9')",
];

/// A valid store with one run in it, as bytes.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("s.db");
        let (run, trials) = sample().build();
        let mut store = Store::open(&path).expect("a store");
        store.begin(&run).expect("a run");
        for trial in &trials {
            store.trial(&run.id, trial).expect("a trial");
        }
        store.update(&run).expect("its end");
        drop(store);
        fs::read(path).expect("the store")
    })
}

/// Corrupts a store, one change for each four bytes, then exports whatever can still be read of it
/// in every format.
pub fn store(data: &[u8]) {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("s.db");
    fs::write(&path, good()).expect("a copy");
    doctor(&path, data);
    let Ok(mut store) = Store::open_read(&path) else {
        return;
    };
    let _ = store.list(10);
    let Ok((run, trials)) = store.load("last") else {
        return;
    };
    let report = Report::build(&run, &trials);
    texts(&report);
    let chosen = data.first().map_or(0, |b| usize::from(*b) % 16);
    if let Some(ending) = SLOW.get(chosen) {
        let file = written(&report, &format!("r.{ending}"));
        if *ending == "svg" {
            let text = String::from_utf8(file).expect("UTF-8");
            assert_eq!(layermark_model::plain(&text), text);
        }
    }
}

fn doctor(path: &Path, data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
        let mut connection = options.connect().await.expect("the store");
        for change in data.chunks_exact(4).take(16) {
            let (table, column) = COLUMNS[usize::from(change[0]) % COLUMNS.len()];
            let value = VALUES[usize::from(change[1]) % VALUES.len()].replace("OLD", column);
            let row = u16::from_le_bytes([change[2], change[3]]);
            let one = format!(
                "rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {row} % (SELECT count(*) FROM {table}))"
            );
            // One row number in eight stands for all rows of a table.
            let which = if row % 8 == 7 { "true" } else { &one };
            let sql = format!("UPDATE OR IGNORE {table} SET {column} = {value} WHERE {which}");
            // Values that violate a constraint are skipped.
            let _ = sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await;
        }
        connection.close().await.expect("closed");
    });
}
