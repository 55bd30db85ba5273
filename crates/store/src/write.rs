//! Writes rows. Each transaction begins with a write, so that `SQLite` waits for its lock at once
//! and never fails half-way.

use layermark_model::{LayerRun, Run, RunStatus, TrialRecord};
use serde::Serialize;
use serde_json::Value;
use sqlx::{AnyConnection, Connection};

use crate::database::Inner;

/// Sets whether commits wait until the log is on the disk.
pub(crate) async fn synchronous(c: &mut AnyConnection, full: bool) -> Result<(), Inner> {
    let pragma = if full {
        "PRAGMA synchronous = FULL"
    } else {
        "PRAGMA synchronous = NORMAL"
    };
    sqlx::query(pragma).execute(c).await?;
    Ok(())
}

/// Rolls back a transaction, if there is one.
pub(crate) async fn rollback(c: &mut AnyConnection) -> Result<(), Inner> {
    sqlx::query("ROLLBACK").execute(c).await?;
    Ok(())
}

/// Copies the whole store to an empty file.
pub(crate) async fn copy(c: &mut AnyConnection, to: &std::path::Path) -> Result<(), Inner> {
    sqlx::query("VACUUM INTO $1")
        .bind(to.to_string_lossy().into_owned())
        .execute(c)
        .await?;
    Ok(())
}

pub(crate) async fn begin(c: &mut AnyConnection, run: &Run) -> Result<(), Inner> {
    let mut tx = c.begin().await?;
    sqlx::query(
        "INSERT INTO runs (id, name, started_ms, ended_ms, status, point_count, run, points)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(&run.id)
    .bind(&run.plan.name)
    .bind(run.started_ms)
    .bind(run.ended_ms)
    .bind(word(run.status)?)
    .bind(index_of(run.points.len()))
    .bind(without_points(run)?)
    .bind(json("runs.points", &run.points)?)
    .execute(&mut *tx)
    .await?;
    for at in run.layers.iter().enumerate() {
        layer(&mut tx, run, at).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// A layer for the list of runs. One that is there stays as it is.
async fn layer(
    c: &mut AnyConnection,
    run: &Run,
    (index, layer): (usize, &LayerRun),
) -> Result<(), Inner> {
    sqlx::query(
        "INSERT INTO layers (run_id, idx, name, spec, control) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (run_id, idx) DO NOTHING",
    )
    .bind(&run.id)
    .bind(index_of(index))
    .bind(&layer.name)
    .bind(layer.spec.to_string())
    .bind(i64::from(layer.control))
    .execute(c)
    .await?;
    Ok(())
}

pub(crate) async fn update(c: &mut AnyConnection, run: &Run) -> Result<(), Inner> {
    let done = sqlx::query("UPDATE runs SET ended_ms = $2, status = $3, run = $4 WHERE id = $1")
        .bind(&run.id)
        .bind(run.ended_ms)
        .bind(word(run.status)?)
        .bind(without_points(run)?)
        .execute(c)
        .await?;
    match done.rows_affected() {
        0 => Err(Inner::NotFound(run.id.clone())),
        _ => Ok(()),
    }
}

/// Layers that came while the run was made, in place of [`update`]: a fleet of fewer hosts has other numbers of them
/// at once.
pub(crate) async fn update_with_layers(c: &mut AnyConnection, run: &Run) -> Result<(), Inner> {
    let mut tx = c.begin().await?;
    update(&mut tx, run).await?;
    for at in run.layers.iter().enumerate() {
        layer(&mut tx, run, at).await?;
    }
    Ok(tx.commit().await?)
}

/// Trials that began together: all of them, or none. Those that are stored already stay as they are: the reply to an
/// earlier commit of theirs may have been lost. Another trial with the number of a stored one is an error.
pub(crate) async fn trials(
    c: &mut AnyConnection,
    run_id: &str,
    records: &[TrialRecord],
) -> Result<(), Inner> {
    let mut tx = c.begin().await?;
    for record in records {
        // The same text again changes nothing, but counts as a row.
        let rows = insert(
            &mut tx,
            "INSERT INTO trials (run_id, seq, trial) VALUES ($1, $2, $3)
             ON CONFLICT (run_id, seq) DO UPDATE SET trial = excluded.trial
             WHERE trials.trial = excluded.trial",
            (run_id, record),
        );
        if rows.await? == 0 {
            let text = format!("{}: another trial is stored under this number", record.seq);
            return Err(Inner::Value("trials.seq".into(), text));
        }
    }
    Ok(tx.commit().await?)
}

/// A trial. One that is stored already is an error.
pub(crate) async fn trial(
    c: &mut AnyConnection,
    run_id: &str,
    record: &TrialRecord,
) -> Result<(), Inner> {
    let sql = "INSERT INTO trials (run_id, seq, trial) VALUES ($1, $2, $3)";
    insert(c, sql, (run_id, record)).await?;
    Ok(())
}

/// Returns the number of rows that were written.
async fn insert(
    c: &mut AnyConnection,
    sql: &'static str,
    (run_id, record): (&str, &TrialRecord),
) -> Result<u64, Inner> {
    let seq = i64::try_from(record.seq)
        .map_err(|e| Inner::Value("trials.seq".into(), format!("{}: {e}", record.seq)))?;
    let done = sqlx::query(sql)
        .bind(run_id)
        .bind(seq)
        .bind(json("trials.trial", record)?)
        .execute(c)
        .await?;
    Ok(done.rows_affected())
}

/// A run as JSON, without its points, which have a column of their own.
fn without_points(run: &Run) -> Result<String, Inner> {
    let failed = |e: serde_json::Error| Inner::Value("runs.run".into(), e.to_string());
    let mut run = serde_json::to_value(run).map_err(failed)?;
    run["points"] = Value::Array(Vec::new());
    Ok(run.to_string())
}

/// The word for a state, as in the run's JSON.
fn word(status: RunStatus) -> Result<String, Inner> {
    Ok(json("runs.status", &status)?.replace('"', ""))
}

pub(crate) fn json(what: &str, value: &impl Serialize) -> Result<String, Inner> {
    serde_json::to_string(value).map_err(|e| Inner::Value(what.into(), e.to_string()))
}

/// An index of a list in memory is never too large.
fn index_of(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
