//! Reads rows. Columns are found by name, so added columns are not a problem.

use layermark_model::{
    Cell, Latency, LayerRun, LayerStatus, Meaning, Point, Run, RunStatus, Spec, Trial, TrialRecord,
};
use serde::de::DeserializeOwned;
use sqlx::{AnyConnection, Row, any::AnyRow};

use crate::database::Inner;

pub(crate) async fn run(c: &mut AnyConnection, id: &str) -> Result<Run, Inner> {
    let row = sqlx::query(
        "SELECT id, version, started_ms, ended_ms, status, seed, dir, plan, machine
         FROM runs WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(&mut *c)
    .await?
    .ok_or_else(|| Inner::NotFound(id.into()))?;
    let layers = sqlx::query(
        "SELECT name, spec, status, reason, hint, facts, setup_s, self_test, read_only, skips, control
         FROM layers WHERE run_id = $1 ORDER BY idx",
    )
    .bind(id)
    .fetch_all(&mut *c)
    .await?;
    let points = sqlx::query(
        "SELECT workload, label, params, meaning FROM points WHERE run_id = $1 ORDER BY idx",
    )
    .bind(id)
    .fetch_all(c)
    .await?;
    Ok(Run {
        id: row.try_get("id")?,
        version: row.try_get("version")?,
        started_ms: row.try_get("started_ms")?,
        ended_ms: row.try_get("ended_ms")?,
        status: status(row.try_get("status")?)?,
        seed: parse("runs.seed", row.try_get("seed")?)?,
        dir: row.try_get("dir")?,
        plan: json("runs.plan", row.try_get("plan")?)?,
        machine: json("runs.machine", row.try_get("machine")?)?,
        layers: layers.iter().map(layer).collect::<Result<_, _>>()?,
        points: points.iter().map(point).collect::<Result<_, _>>()?,
    })
}

fn layer(row: &AnyRow) -> Result<LayerRun, Inner> {
    Ok(LayerRun {
        spec: parse::<Spec>("layers.spec", row.try_get("spec")?)?,
        name: row.try_get("name")?,
        status: match row.try_get("status")? {
            "ready" => LayerStatus::Ready,
            "failed" => LayerStatus::Failed,
            "left-out" => LayerStatus::LeftOut,
            other => {
                return Err(Inner::Value(
                    "layers.status".into(),
                    format!("unknown `{other}`"),
                ));
            }
        },
        reason: row.try_get("reason")?,
        hint: row.try_get("hint")?,
        facts: json("layers.facts", row.try_get("facts")?)?,
        setup_s: finite(row, "setup_s")?,
        self_test: json("layers.self_test", row.try_get("self_test")?)?,
        read_only: row.try_get::<i64, _>("read_only")? != 0,
        skips: json("layers.skips", row.try_get("skips")?)?,
        control: row.try_get::<i64, _>("control")? != 0,
    })
}

fn point(row: &AnyRow) -> Result<Point, Inner> {
    let mut point = Point {
        workload: row.try_get("workload")?,
        label: row.try_get("label")?,
        params: json("points.params", row.try_get("params")?)?,
        meaning: Meaning::default(),
    };
    // Absent: an older layermark stored it. Invalid: a newer layermark stored it, with terms
    // unknown here.
    let said = row.try_get::<Option<&str>, _>("meaning")?;
    let said = said.and_then(|said| serde_json::from_str(said).ok());
    point.meaning = said.unwrap_or_else(|| layermark_probe::workloads::meaning(&point));
    // Stored before workloads declared their figures.
    if point.meaning.figures.is_none() {
        point.meaning.figures = layermark_probe::workloads::meaning(&point).figures;
    }
    Ok(point)
}

pub(crate) async fn trials(c: &mut AnyConnection, id: &str) -> Result<Vec<TrialRecord>, Inner> {
    let rows = sqlx::query(
        "SELECT seq, session, block, layer, point, at_ms, error, passes, latency_min, latency_mean,
                latency_p50, latency_p99, latency_p999, latency_max, histogram, detail, upkeep_ns,
                foreign_cpu, steal, backing_resident, flags
         FROM trials WHERE run_id = $1 ORDER BY seq",
    )
    .bind(id)
    .fetch_all(c)
    .await?;
    rows.iter().map(record).collect()
}

fn record(row: &AnyRow) -> Result<TrialRecord, Inner> {
    Ok(TrialRecord {
        seq: whole(row, "seq")?,
        cell: Cell {
            session: small(row, "session")?,
            block: small(row, "block")?,
            layer: whole(row, "layer")? as usize,
            point: whole(row, "point")? as usize,
        },
        at_ms: whole(row, "at_ms")?,
        trial: trial(row)?,
        error: row.try_get("error")?,
        upkeep_ns: whole(row, "upkeep_ns")?,
        foreign_cpu: finite(row, "foreign_cpu")?,
        steal: finite(row, "steal")?,
        backing_resident: match row.try_get::<Option<f64>, _>("backing_resident")? {
            Some(_) => Some(finite(row, "backing_resident")?),
            None => None,
        },
        flags: json("trials.flags", row.try_get("flags")?)?,
    })
}

fn trial(row: &AnyRow) -> Result<Option<Trial>, Inner> {
    let detail: Option<&str> = row.try_get("detail")?;
    let Some(detail) = detail else {
        return Ok(None);
    };
    let histogram: Option<String> = row.try_get("histogram")?;
    let latency = match histogram {
        None => None,
        Some(histogram) => Some(Latency {
            min: whole(row, "latency_min")?,
            mean: finite(row, "latency_mean")?,
            p50: whole(row, "latency_p50")?,
            p99: whole(row, "latency_p99")?,
            p999: whole(row, "latency_p999")?,
            max: whole(row, "latency_max")?,
            histogram,
        }),
    };
    let passes = json("trials.passes", row.try_get("passes")?)?;
    Ok(Some(Trial {
        passes,
        latency,
        ..json("trials.detail", detail)?
    }))
}

pub(crate) fn status(word: &str) -> Result<RunStatus, Inner> {
    [
        RunStatus::Running,
        RunStatus::Done,
        RunStatus::Stopped,
        RunStatus::Failed,
        RunStatus::Interrupted,
    ]
    .into_iter()
    .find(|s| crate::write::status(*s) == word)
    .ok_or_else(|| Inner::Value("runs.status".into(), format!("unknown `{word}`")))
}

pub(crate) fn whole(row: &AnyRow, column: &str) -> Result<u64, Inner> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| Inner::Value(column.into(), format!("{value} is below 0")))
}

fn small(row: &AnyRow, column: &str) -> Result<u32, Inner> {
    let value = whole(row, column)?;
    u32::try_from(value).map_err(|_| Inner::Value(column.into(), format!("{value} is too large")))
}

/// JSON has no infinity. No share or time is infinite.
fn finite(row: &AnyRow, column: &str) -> Result<f64, Inner> {
    let value: f64 = row.try_get(column)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Inner::Value(
            column.into(),
            format!("{value} is not a number"),
        ))
    }
}

pub(crate) fn json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Inner> {
    serde_json::from_str(text).map_err(|e| Inner::Value(what.into(), e.to_string()))
}

fn parse<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Inner>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|e: T::Err| Inner::Value(what.into(), e.to_string()))
}
