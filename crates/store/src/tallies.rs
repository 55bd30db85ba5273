//! Counts of verdicts of ended runs, kept since they take all trials of a run to compute. They are no data: without
//! them a list of runs is slower.

use std::collections::HashMap;

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use crate::{database::Inner, read::whole};

/// What a kept tally is of: a run, and how many trials it had then.
pub type TallyKey = (String, u64);

/// Runs of one query.
const AT_ONCE: usize = 500;

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
    let any = sqlx::query("SELECT run_id FROM tallies LIMIT 1");
    // First, because CREATE needs a privilege on a server, also if the table is there.
    if any.fetch_optional(&mut *c).await.is_err() {
        sqlx::query(TABLE).execute(&mut *c).await?;
    }
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

/// The tallies of these runs. Those of all runs take longer than a list of the newest: there may be tens of thousands.
pub(crate) async fn of(
    c: &mut AnyConnection,
    rules: &str,
    runs: &[&str],
) -> Result<HashMap<TallyKey, String>, Inner> {
    let mut all = HashMap::with_capacity(runs.len());
    for some in runs.chunks(AT_ONCE) {
        // Only the numbers of placeholders are inserted into the text.
        let places: Vec<String> = (2..).take(some.len()).map(|n| format!("${n}")).collect();
        let text = format!(
            "SELECT run_id, trials, tally FROM tallies WHERE rules = $1 AND run_id IN ({})",
            places.join(", ")
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(rules);
        let query = some.iter().fold(query, |query, run| query.bind(*run));
        for row in query.fetch_all(&mut *c).await? {
            let key = (row.try_get("run_id")?, whole(&row, "trials")?);
            all.insert(key, row.try_get("tally")?);
        }
    }
    Ok(all)
}
