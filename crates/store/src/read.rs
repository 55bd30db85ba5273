//! Reads rows.

use layermark_model::{Run, TrialRecord};
use serde::de::DeserializeOwned;
use sqlx::{AnyConnection, Row, any::AnyRow};

use crate::database::Inner;

pub(crate) async fn run(c: &mut AnyConnection, id: &str) -> Result<Run, Inner> {
    let row = sqlx::query("SELECT run, points FROM runs WHERE id = $1")
        .bind(id)
        .fetch_optional(c)
        .await?
        .ok_or_else(|| Inner::NotFound(id.into()))?;
    Ok(Run {
        points: json("runs.points", row.try_get("points")?)?,
        ..json("runs.run", row.try_get("run")?)?
    })
}

pub(crate) async fn trials(c: &mut AnyConnection, id: &str) -> Result<Vec<TrialRecord>, Inner> {
    let rows = sqlx::query("SELECT trial FROM trials WHERE run_id = $1 ORDER BY seq")
        .bind(id)
        .fetch_all(c)
        .await?;
    rows.iter()
        .map(|row| json("trials.trial", row.try_get("trial")?))
        .collect()
}

pub(crate) fn whole(row: &AnyRow, column: &str) -> Result<u64, Inner> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| Inner::Value(column.into(), format!("{value} is below 0")))
}

pub(crate) fn json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Inner> {
    serde_json::from_str(text).map_err(|e| Inner::Value(what.into(), e.to_string()))
}
