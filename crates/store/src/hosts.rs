//! The hosts of runs: those of a fleet, otherwise the label of the machine. They are in the run's JSON, which takes too
//! long to read for each of tens of thousands of runs, so the names are indexed in a table.
//!
//! It is only an index: a store of this format may lack it, and earlier versions add runs without it. Runs that are not
//! in it are read, and each new run adds some of them.

use layermark_model::Run;
use serde::Deserialize;
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use crate::database::Inner;

/// A run without hosts has a row with an empty name.
pub(crate) const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS hosts (
        host TEXT NOT NULL,
        run_id TEXT NOT NULL,
        PRIMARY KEY (host, run_id)
    )",
    "CREATE INDEX IF NOT EXISTS hosts_by_run ON hosts (run_id)",
];

/// Runs that the index lacks, newest first. No NOT IN: a server scans all hosts for each run if they do not fit its
/// memory for a hash.
pub(crate) const MISSING: &str = "SELECT id FROM runs \
     WHERE NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.run_id = runs.id) ORDER BY started_ms DESC, id DESC";
const ALL: &str = "SELECT id FROM runs ORDER BY started_ms DESC, id DESC";

/// Runs that are read, or rows that are written, by one statement.
const AT_ONCE: usize = 200;
/// Most hosts of a run that are indexed. A fleet has fewer, but a run may be somebody else's.
const MOST: usize = 20_000;
/// Bytes of the longest name: a row of a server's index has 2,704 at most.
const LONGEST: usize = 1024;

/// The part of a run that names its hosts.
#[derive(Deserialize)]
struct OfRun {
    machine: OfMachine,
    fleet: Option<OfFleet>,
}

#[derive(Deserialize)]
struct OfMachine {
    label: Option<String>,
}

#[derive(Deserialize)]
struct OfFleet {
    hosts: Vec<OfHost>,
}

#[derive(Deserialize)]
struct OfHost {
    name: String,
}

/// The label of a run's machine, and the hosts of its fleet.
#[derive(Default)]
pub(crate) struct Names {
    pub label: Option<String>,
    pub fleet: Vec<String>,
}

impl Names {
    /// From a stored run, of which nothing else is read. One that cannot be read has none.
    pub(crate) fn read(run: &str) -> Self {
        let Ok(run) = serde_json::from_str::<OfRun>(run) else {
            return Self::default();
        };
        let fleet = run.fleet.map(|fleet| fleet.hosts).unwrap_or_default();
        Self {
            label: run.machine.label,
            fleet: fleet.into_iter().map(|host| host.name).collect(),
        }
    }

    fn of(run: &Run) -> Self {
        let fleet = run.fleet.iter().flat_map(|fleet| &fleet.hosts);
        Self {
            label: run.machine.label.clone(),
            fleet: fleet.map(|host| host.name.clone()).collect(),
        }
    }

    /// The label of a fleet's run lists its hosts, and is no host.
    fn hosts(self) -> Vec<String> {
        let label = self.label.filter(|_| self.fleet.is_empty());
        let mut hosts: Vec<String> = self.fleet.into_iter().chain(label).take(MOST).collect();
        // PostgreSQL stores no NUL and indexes no long text, and no host has such a name.
        let is_name = |host: &String| (1..=LONGEST).contains(&host.len()) && !host.contains('\0');
        hosts.retain(is_name);
        hosts
    }
}

/// Adds the newest runs that are not in the index: not all of them, because somebody waits for it.
pub(crate) async fn add_missing(c: &mut AnyConnection) -> Result<(), Inner> {
    // First, because CREATE needs a privilege on a server, also if the table is there.
    if !is_there(c).await {
        let mut tx = c.begin().await?;
        for table in TABLES {
            sqlx::query(table).execute(&mut *tx).await?;
        }
        tx.commit().await?;
    }
    let some = format!("{MISSING} LIMIT {AT_ONCE}");
    let ids: Vec<String> = sqlx::query_scalar(AssertSqlSafe(some))
        .fetch_all(&mut *c)
        .await?;
    let mut rows = Vec::new();
    for (id, names) in names_of(c, &ids).await? {
        add(&mut rows, &id, names);
    }
    let mut tx = c.begin().await?;
    put(&mut tx, &rows).await?;
    Ok(tx.commit().await?)
}

/// Replaces the hosts of a run that is in the index already.
pub(crate) async fn update(c: &mut AnyConnection, run: &Run) -> Result<(), Inner> {
    let mut rows = Vec::new();
    add(&mut rows, &run.id, Names::of(run));
    let mut tx = c.begin().await?;
    let old = sqlx::query("DELETE FROM hosts WHERE run_id = $1").bind(&run.id);
    old.execute(&mut *tx).await?;
    put(&mut tx, &rows).await?;
    Ok(tx.commit().await?)
}

fn add(rows: &mut Vec<(String, String)>, id: &str, names: Names) {
    let mut hosts = names.hosts();
    if hosts.is_empty() {
        hosts.push(String::new());
    }
    rows.extend(hosts.into_iter().map(|host| (host, id.to_owned())));
}

/// In a transaction, because a run that has one row is not looked at again.
async fn put(tx: &mut AnyConnection, rows: &[(String, String)]) -> Result<(), Inner> {
    for some in rows.chunks(AT_ONCE) {
        // Only the numbers of placeholders are inserted into the text.
        let places = (0..some.len()).map(|n| format!("(${}, ${})", 2 * n + 1, 2 * n + 2));
        let places: Vec<String> = places.collect();
        let text = format!(
            "INSERT INTO hosts (host, run_id) VALUES {} ON CONFLICT (host, run_id) DO NOTHING",
            places.join(", ")
        );
        let query = sqlx::query(AssertSqlSafe(text));
        let query = some
            .iter()
            .fold(query, |query, (host, run)| query.bind(host).bind(run));
        query.execute(&mut *tx).await?;
    }
    Ok(())
}

/// Names from the JSON of these runs.
async fn names_of(c: &mut AnyConnection, ids: &[String]) -> Result<Vec<(String, Names)>, Inner> {
    let mut all = Vec::with_capacity(ids.len());
    for some in ids.chunks(AT_ONCE) {
        let places: Vec<String> = (1..).take(some.len()).map(|n| format!("${n}")).collect();
        let text = format!(
            "SELECT id, run FROM runs WHERE id IN ({})",
            places.join(", ")
        );
        let query = sqlx::query(AssertSqlSafe(text));
        let query = some.iter().fold(query, sqlx::query::Query::bind);
        for row in query.fetch_all(&mut *c).await? {
            all.push((row.try_get("id")?, Names::read(row.try_get("run")?)));
        }
    }
    Ok(all)
}

/// Whether this user can read the index.
pub(crate) async fn is_there(c: &mut AnyConnection) -> bool {
    let any = sqlx::query("SELECT host FROM hosts LIMIT 1");
    any.fetch_optional(c).await.is_ok()
}

/// Runs of a host that are not in the index, newest first. Each is read, which is slow for many.
pub(crate) async fn not_indexed(
    c: &mut AnyConnection,
    host: &str,
    is_there: bool,
) -> Result<Vec<String>, Inner> {
    let missing = if is_there { MISSING } else { ALL };
    let ids: Vec<String> = sqlx::query_scalar(missing).fetch_all(&mut *c).await?;
    let mut found = Vec::new();
    for (id, names) in names_of(c, &ids).await? {
        if names.hosts().iter().any(|name| name == host) {
            found.push(id);
        }
    }
    Ok(found)
}
