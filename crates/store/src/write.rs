//! Writes rows. Each transaction begins with a write, so that `SQLite` waits for its lock at once
//! and never fails half-way.

use layermark_model::{LayerRun, LayerStatus, Point, Run, RunStatus, Trial, TrialRecord};
use serde::Serialize;
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
        "INSERT INTO runs (id, name, version, started_ms, ended_ms, status, seed, dir, plan, machine)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(&run.id)
    .bind(&run.plan.name)
    .bind(&run.version)
    .bind(run.started_ms)
    .bind(run.ended_ms)
    .bind(status(run.status))
    .bind(run.seed.to_string())
    .bind(&run.dir)
    .bind(json("runs.plan", &run.plan)?)
    .bind(json("runs.machine", &run.machine)?)
    .execute(&mut *tx)
    .await?;
    for (index, layer) in run.layers.iter().enumerate() {
        put_layer(&mut tx, &run.id, index, layer).await?;
    }
    for (index, point) in run.points.iter().enumerate() {
        put_point(&mut tx, &run.id, index, point).await?;
    }
    tx.commit().await?;
    Ok(())
}

pub(crate) async fn update(c: &mut AnyConnection, run: &Run) -> Result<(), Inner> {
    let mut tx = c.begin().await?;
    let done = sqlx::query("UPDATE runs SET ended_ms = $2, status = $3, plan = $4 WHERE id = $1")
        .bind(&run.id)
        .bind(run.ended_ms)
        .bind(status(run.status))
        .bind(json("runs.plan", &run.plan)?)
        .execute(&mut *tx)
        .await?;
    if done.rows_affected() == 0 {
        return Err(Inner::NotFound(run.id.clone()));
    }
    for (index, layer) in run.layers.iter().enumerate() {
        put_layer(&mut tx, &run.id, index, layer).await?;
    }
    tx.commit().await?;
    Ok(())
}

async fn put_layer(
    c: &mut AnyConnection,
    run_id: &str,
    index: usize,
    layer: &LayerRun,
) -> Result<(), Inner> {
    sqlx::query(
        "INSERT INTO layers (run_id, idx, name, spec, status, reason, hint, facts, setup_s,
                             self_test, read_only, control, skips)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (run_id, idx) DO UPDATE SET
             status = excluded.status, reason = excluded.reason, hint = excluded.hint,
             facts = excluded.facts, setup_s = excluded.setup_s, self_test = excluded.self_test,
             read_only = excluded.read_only",
    )
    .bind(run_id)
    .bind(index_of(index))
    .bind(&layer.name)
    .bind(layer.spec.to_string())
    .bind(match layer.status {
        LayerStatus::Ready => "ready",
        LayerStatus::Failed => "failed",
        LayerStatus::LeftOut => "left-out",
    })
    .bind(layer.reason.as_deref().map(text))
    .bind(layer.hint.as_deref().map(text))
    .bind(json("layers.facts", &layer.facts)?)
    .bind(layer.setup_s)
    .bind(json("layers.self_test", &layer.self_test)?)
    .bind(i64::from(layer.read_only))
    .bind(i64::from(layer.control))
    .bind(json("layers.skips", &layer.skips)?)
    .execute(c)
    .await?;
    Ok(())
}

async fn put_point(
    c: &mut AnyConnection,
    run_id: &str,
    index: usize,
    point: &Point,
) -> Result<(), Inner> {
    sqlx::query(
        "INSERT INTO points (run_id, idx, workload, label, params, meaning)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(run_id)
    .bind(index_of(index))
    .bind(&point.workload)
    .bind(&point.label)
    .bind(json("points.params", &point.params)?)
    .bind(json("points.meaning", &point.meaning)?)
    .execute(c)
    .await?;
    Ok(())
}

pub(crate) async fn trial(
    c: &mut AnyConnection,
    run_id: &str,
    record: &TrialRecord,
) -> Result<(), Inner> {
    let trial = record.trial.as_ref();
    let latency = trial.and_then(|t| t.latency.as_ref());
    let passes = trial
        .map(|t| json("trials.passes", &t.passes))
        .transpose()?;
    // The histogram and the passes have their own columns and are not stored twice.
    let detail = trial
        .map(|t| {
            json(
                "trials.detail",
                &Trial {
                    passes: Vec::new(),
                    latency: None,
                    ..t.clone()
                },
            )
        })
        .transpose()?;
    sqlx::query(
        "INSERT INTO trials (run_id, seq, session, block, layer, point, at_ms, error, ns_per_op,
                             passes, latency_min, latency_mean, latency_p50, latency_p99,
                             latency_p999, latency_max, histogram, detail, upkeep_ns, foreign_cpu,
                             steal, backing_resident, flags)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                 $19, $20, $21, $22, $23)",
    )
    .bind(run_id)
    .bind(whole("trials.seq", record.seq)?)
    .bind(i64::from(record.cell.session))
    .bind(i64::from(record.cell.block))
    .bind(index_of(record.cell.layer))
    .bind(index_of(record.cell.point))
    .bind(whole("trials.at_ms", record.at_ms)?)
    .bind(record.error.as_deref().map(text))
    .bind(trial.and_then(Trial::ns_per_op))
    .bind(passes)
    .bind(
        latency
            .map(|l| whole("trials.latency_min", l.min))
            .transpose()?,
    )
    .bind(latency.map(|l| l.mean))
    .bind(
        latency
            .map(|l| whole("trials.latency_p50", l.p50))
            .transpose()?,
    )
    .bind(
        latency
            .map(|l| whole("trials.latency_p99", l.p99))
            .transpose()?,
    )
    .bind(
        latency
            .map(|l| whole("trials.latency_p999", l.p999))
            .transpose()?,
    )
    .bind(
        latency
            .map(|l| whole("trials.latency_max", l.max))
            .transpose()?,
    )
    .bind(latency.map(|l| &l.histogram))
    .bind(detail)
    .bind(whole("trials.upkeep_ns", record.upkeep_ns)?)
    .bind(record.foreign_cpu)
    .bind(record.steal)
    .bind(record.backing_resident)
    .bind(json("trials.flags", &record.flags)?)
    .execute(c)
    .await?;
    Ok(())
}

pub(crate) fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Done => "done",
        RunStatus::Stopped => "stopped",
        RunStatus::Failed => "failed",
        RunStatus::Interrupted => "interrupted",
    }
}

pub(crate) fn json(what: &str, value: &impl Serialize) -> Result<String, Inner> {
    serde_json::to_string(value).map_err(|e| Inner::Value(what.into(), e.to_string()))
}

/// `PostgreSQL` does not allow NUL in a text, and the output of a program may contain one.
fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Neither database has unsigned numbers.
fn whole(what: &str, value: u64) -> Result<i64, Inner> {
    i64::try_from(value)
        .map_err(|_| Inner::Value(what.into(), format!("{value} is above {}", i64::MAX)))
}

/// An index of a list in memory is never too large.
fn index_of(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
