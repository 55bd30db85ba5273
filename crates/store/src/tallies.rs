//! Counts of verdicts of ended runs, kept since they take all trials of a run to compute. They are no data: without
//! them a list of runs is slower.

use std::collections::HashMap;

use sqlx::{AnyConnection, Connection, Row};

use crate::{database::Inner, read::whole};

/// What a kept tally is of: a run, and how many trials it had then.
pub type TallyKey = (String, u64);

/// A store of this format may lack it: it is made when there is something to keep.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS tallies (
    run_id TEXT NOT NULL PRIMARY KEY,
    trials BIGINT NOT NULL,
    rules TEXT NOT NULL,
    tally TEXT NOT NULL
)";

pub(crate) async fn put(
    c: &mut AnyConnection,
    rules: &str,
    tallies: &[(TallyKey, String)],
) -> Result<(), Inner> {
    sqlx::query(TABLE).execute(&mut *c).await?;
    let mut tx = c.begin().await?;
    for ((run, trials), tally) in tallies {
        sqlx::query(
            "INSERT INTO tallies (run_id, trials, rules, tally) VALUES ($1, $2, $3, $4)
             ON CONFLICT (run_id) DO UPDATE SET trials = $2, rules = $3, tally = $4",
        )
        .bind(run)
        .bind(i64::try_from(*trials).unwrap_or(i64::MAX))
        .bind(rules)
        .bind(tally)
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(())
}

pub(crate) async fn all(
    c: &mut AnyConnection,
    rules: &str,
) -> Result<HashMap<TallyKey, String>, Inner> {
    let rows = sqlx::query("SELECT run_id, trials, tally FROM tallies WHERE rules = $1")
        .bind(rules)
        .fetch_all(c)
        .await?;
    let row = |row| {
        Ok((
            (Row::try_get(row, "run_id")?, whole(row, "trials")?),
            row.try_get("tally")?,
        ))
    };
    rows.iter().map(row).collect()
}
