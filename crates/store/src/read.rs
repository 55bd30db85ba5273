//! What is read back. Rows come by column name, so a later column is no trouble.

use layermark_model::{
    Cell, Latency, LayerRun, LayerStatus, Meaning, Point, Run, RunStatus, Spec, Trial, TrialRecord,
};
use serde::de::DeserializeOwned;
use sqlx::{AnyConnection, AssertSqlSafe, Row, any::AnyRow};

use crate::{Filter, Summary, error::Inner};

/// A run by its place among all.
enum Place {
    /// So many before the newest one: `last`, `last~1`.
    FromLast(i64),
    /// By the number that `history` shows, from 1: `#12`, or `12`, which no id begins with.
    Number(i64),
}

impl Place {
    fn of(name: &str) -> Option<Self> {
        let number = |text: &str| -> Option<i64> {
            let whole = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
            // One too large for a number is nobody's.
            whole.then(|| text.parse().unwrap_or(i64::MAX))
        };
        if name == "last" {
            return Some(Self::FromLast(0));
        }
        if let Some(back) = name.strip_prefix("last~") {
            return number(back).map(Self::FromLast);
        }
        let bare = Some(name).filter(|name| !name.starts_with('0'));
        let digits = name.strip_prefix('#').or(bare)?;
        number(digits).filter(|n| *n > 0).map(Self::Number)
    }
}

/// Longest list of ids that begin alike.
const LISTED: usize = 8;

/// The id that is meant, the one place where runs are named: the whole id, the beginning of exactly
/// one, `last`, `last~1` or `#12`.
pub(crate) async fn find(c: &mut AnyConnection, id: &str) -> Result<String, Inner> {
    if let Some(place) = Place::of(id) {
        let (query, skip) = match place {
            Place::FromLast(n) => (
                "SELECT id FROM runs ORDER BY started_ms DESC, id DESC LIMIT 1 OFFSET $1",
                n,
            ),
            Place::Number(n) => (
                "SELECT id FROM runs ORDER BY started_ms, id LIMIT 1 OFFSET $1",
                n - 1,
            ),
        };
        let found = sqlx::query_scalar(query)
            .bind(skip)
            .fetch_optional(c)
            .await?;
        return found.ok_or_else(|| Inner::NotFound(id.into()));
    }
    let exact: Option<String> = sqlx::query_scalar("SELECT id FROM runs WHERE id = $1")
        .bind(id)
        .fetch_optional(&mut *c)
        .await?;
    if let Some(exact) = exact {
        return Ok(exact);
    }
    // `%` and `_` would match anything; ids have neither.
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(Inner::NotFound(id.into()));
    }
    let like: Vec<String> =
        sqlx::query_scalar("SELECT id FROM runs WHERE upper(id) LIKE $1 ORDER BY id DESC")
            .bind(format!("{}%", id.to_ascii_uppercase()))
            .fetch_all(c)
            .await?;
    match like.as_slice() {
        [] => Err(Inner::NotFound(id.into())),
        [one] => Ok(one.clone()),
        _ => Err(Inner::Ambiguous(id.into(), listed(&like))),
    }
}

fn listed(ids: &[String]) -> String {
    let shown = ids[..ids.len().min(LISTED)].join(", ");
    match ids.len() - ids.len().min(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

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
    // Not there: stored before points said it. Not understood: stored by a layermark with more words.
    let said = row.try_get::<Option<&str>, _>("meaning")?;
    let said = said.and_then(|said| serde_json::from_str(said).ok());
    point.meaning = said.unwrap_or_else(|| layermark_probe::workloads::meaning(&point));
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

/// Layers of any run that a name stands for, as they are stored.
async fn named(c: &mut AnyConnection, name: &Spec) -> Result<Vec<String>, Inner> {
    let mut specs: Vec<String> =
        sqlx::query_scalar("SELECT DISTINCT spec FROM layers WHERE control = 0")
            .fetch_all(c)
            .await?;
    specs.retain(|spec| spec.parse().is_ok_and(|spec| name.names(&spec)));
    Ok(specs)
}

pub(crate) async fn list(c: &mut AnyConnection, filter: &Filter) -> Result<Vec<Summary>, Inner> {
    let specs = match &filter.layer {
        Some(name) => named(c, name).await?,
        None => Vec::new(),
    };
    let of_layer = if filter.layer.is_none() {
        String::new()
    } else if specs.is_empty() {
        return Ok(Vec::new());
    } else {
        let places: Vec<String> = (4..).take(specs.len()).map(|n| format!("${n}")).collect();
        let places = places.join(", ");
        format!("AND id IN (SELECT run_id FROM layers WHERE control = 0 AND spec IN ({places}))")
    };
    // Nothing but numbers of places is put into the text.
    let sql = AssertSqlSafe(format!(
        "SELECT id, name, started_ms, ended_ms, status,
                (SELECT count(*) FROM runs AS older
                 WHERE older.started_ms < runs.started_ms
                    OR (older.started_ms = runs.started_ms AND older.id <= runs.id)) AS number,
                (SELECT count(*) FROM points WHERE points.run_id = runs.id) AS points,
                (SELECT count(*) FROM trials WHERE trials.run_id = runs.id) AS trials
         FROM runs
         WHERE ($1 = '' OR name = $1) AND started_ms >= $2 {of_layer}
         ORDER BY started_ms DESC, id DESC LIMIT $3"
    ));
    let query = sqlx::query(sql)
        .bind(filter.plan.as_deref().unwrap_or_default())
        .bind(filter.since_ms.unwrap_or(i64::MIN))
        .bind(i64::try_from(filter.limit).unwrap_or(i64::MAX));
    let query = specs.into_iter().fold(query, sqlx::query::Query::bind);
    let rows = query.fetch_all(&mut *c).await?;
    let mut summaries = Vec::with_capacity(rows.len());
    for row in &rows {
        let id: String = row.try_get("id")?;
        let layers = sqlx::query_scalar("SELECT name FROM layers WHERE run_id = $1 ORDER BY idx")
            .bind(&id)
            .fetch_all(&mut *c)
            .await?;
        summaries.push(Summary {
            id,
            number: whole(row, "number")?,
            name: row.try_get("name")?,
            started_ms: row.try_get("started_ms")?,
            ended_ms: row.try_get("ended_ms")?,
            status: status(row.try_get("status")?)?,
            layers,
            points: whole(row, "points")?,
            trials: whole(row, "trials")?,
        });
    }
    Ok(summaries)
}

fn status(word: &str) -> Result<RunStatus, Inner> {
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

/// JSON has no infinity, and no share or time is one.
fn finite(row: &AnyRow, column: &str) -> Result<f64, Inner> {
    let value: f64 = row.try_get(column)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Inner::Value(column.into(), format!("{value} is no number")))
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
