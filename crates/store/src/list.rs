//! Lists runs, and finds the run for a name.

use std::{collections::HashMap, fmt::Write};

use layermark_model::{RunStatus, Spec};
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row, any::AnyArguments, query::Query};

use crate::{
    database::Inner,
    hosts::{self, Names},
    read::{json, whole},
};

/// Selects the runs that [`crate::Store::list`] returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Name of their plan.
    pub plan: Option<String>,
    /// A layer of theirs, matched by [`Spec::names`].
    pub layer: Option<Spec>,
    /// A host of theirs: one of a fleet's, or the label of the machine.
    pub host: Option<String>,
    /// Only runs started then or later, milliseconds since 1970 UTC.
    pub since_ms: Option<i64>,
    /// At most this many.
    pub limit: usize,
}

/// The newest runs, without other conditions.
impl From<usize> for Filter {
    fn from(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }
}

/// One line of `layermark history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The run's id.
    pub id: String,
    /// Its position among all runs in the order of their start, from 1.
    pub number: u64,
    /// Name of its plan.
    pub name: String,
    /// The user's name for the machine; absent if none was given.
    pub label: Option<String>,
    /// Names of a fleet's hosts; empty if it is none.
    pub hosts: Vec<String>,
    /// When it started, milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// When it ended, milliseconds since 1970 UTC; absent while it is running or after a crash.
    pub ended_ms: Option<i64>,
    /// Its state.
    pub status: RunStatus,
    /// Names of its layers, the baseline first.
    pub layers: Vec<String>,
    /// Number of points.
    pub points: u64,
    /// Number of trials so far.
    pub trials: u64,
}

/// The layers of all runs that a spec matches, as stored.
async fn named(c: &mut AnyConnection, name: &Spec) -> Result<Vec<String>, Inner> {
    let mut specs: Vec<String> =
        sqlx::query_scalar("SELECT DISTINCT spec FROM layers WHERE control = 0")
            .fetch_all(c)
            .await?;
    specs.retain(|spec| spec.parse().is_ok_and(|spec| name.names(&spec)));
    Ok(specs)
}

/// More conditions on runs, and the values that they bind after plan, earliest start and limit. Only numbers of
/// placeholders are in the text.
#[derive(Default)]
struct Conditions {
    text: String,
    values: Vec<String>,
}

impl Conditions {
    /// Placeholders of these values.
    fn places(&mut self, values: impl IntoIterator<Item = String>) -> String {
        let first = FIXED + self.values.len() + 1;
        self.values.extend(values);
        let last = FIXED + self.values.len();
        let places: Vec<String> = (first..=last).map(|n| format!("${n}")).collect();
        places.join(", ")
    }

    fn of_layers(&mut self, specs: Vec<String>) {
        let places = self.places(specs);
        let _ = write!(
            self.text,
            "AND id IN (SELECT run_id FROM layers WHERE control = 0 AND spec IN ({places})) "
        );
    }

    /// Runs of a host: by the index of hosts, if it is there, and those that it lacks.
    fn of_host(&mut self, host: &str, is_indexed: bool, lacked: Vec<String>) {
        let mut any = Vec::new();
        if is_indexed {
            let place = self.places([host.to_owned()]);
            any.push(format!(
                "id IN (SELECT run_id FROM hosts WHERE host = {place})"
            ));
        }
        if !lacked.is_empty() {
            let places = self.places(lacked.into_iter().take(MOST_LACKED));
            any.push(format!("id IN ({places})"));
        }
        let any = any.join(" OR ");
        let any = if any.is_empty() { "1 = 0" } else { &any };
        let _ = write!(self.text, "AND ({any}) ");
    }
}

/// Number of values that every query of runs binds: plan, earliest start, limit.
const FIXED: usize = 3;
/// Most runs that are named one by one: `SQLite` binds 32,766 values.
const MOST_LACKED: usize = 30_000;

/// Selects runs, newest first.
fn chosen(columns: &str, conditions: &Conditions) -> String {
    let more = &conditions.text;
    format!(
        "SELECT {columns} FROM runs WHERE ($1 = '' OR name = $1) AND started_ms >= $2 {more}
         ORDER BY started_ms DESC, id DESC LIMIT $3"
    )
}

/// The query for runs. It selects them first, so that it counts only their trials. All runs are numbered once:
/// counting the older ones of each run took 6.5 s for 10,000 runs.
fn listing(conditions: &Conditions) -> String {
    let chosen = chosen(
        "id, name, started_ms, ended_ms, status, point_count, run",
        conditions,
    );
    format!(
        "SELECT chosen.id AS id, name, started_ms, ended_ms, status, point_count, run, number,
                (SELECT count(*) FROM trials WHERE trials.run_id = chosen.id) AS trials
         FROM ({chosen}) AS chosen
         JOIN (SELECT id, row_number() OVER (ORDER BY started_ms, id) AS number FROM runs) AS numbered
         ON numbered.id = chosen.id
         ORDER BY started_ms DESC, chosen.id DESC"
    )
}

/// The query for the layers of the same runs.
fn layers_of(conditions: &Conditions) -> String {
    let chosen = chosen("id", conditions);
    format!("SELECT run_id, name FROM layers WHERE run_id IN ({chosen}) ORDER BY run_id, idx")
}

/// Binds the arguments of [`chosen`].
fn bound<'q>(
    query: Query<'q, Any, AnyArguments>,
    filter: &'q Filter,
    conditions: &'q Conditions,
) -> Query<'q, Any, AnyArguments> {
    let query = query
        .bind(filter.plan.as_deref().unwrap_or_default())
        .bind(filter.since_ms.unwrap_or(i64::MIN))
        .bind(i64::try_from(filter.limit).unwrap_or(i64::MAX));
    conditions.values.iter().fold(query, Query::bind)
}

pub(crate) async fn list(c: &mut AnyConnection, filter: &Filter) -> Result<Vec<Summary>, Inner> {
    let mut conditions = Conditions::default();
    if let Some(name) = &filter.layer {
        let specs = named(c, name).await?;
        if specs.is_empty() {
            return Ok(Vec::new());
        }
        conditions.of_layers(specs);
    }
    if let Some(host) = filter.host.as_deref().filter(|host| !host.is_empty()) {
        let is_indexed = hosts::is_there(c).await;
        let lacked = hosts::not_indexed(c, host, is_indexed).await?;
        conditions.of_host(host, is_indexed, lacked);
    }
    let query = |text: fn(&Conditions) -> String| sqlx::query(AssertSqlSafe(text(&conditions)));
    let rows = bound(query(listing), filter, &conditions)
        .fetch_all(&mut *c)
        .await?;
    let mut layers: HashMap<String, Vec<String>> = HashMap::new();
    for row in bound(query(layers_of), filter, &conditions)
        .fetch_all(c)
        .await?
    {
        let name = row.try_get("name")?;
        layers.entry(row.try_get("run_id")?).or_default().push(name);
    }
    let mut summaries = Vec::with_capacity(rows.len());
    for row in &rows {
        let id: String = row.try_get("id")?;
        let names = Names::read(row.try_get("run")?);
        summaries.push(Summary {
            layers: layers.remove(&id).unwrap_or_default(),
            id,
            number: whole(row, "number")?,
            name: row.try_get("name")?,
            label: names.label,
            hosts: names.fleet,
            started_ms: row.try_get("started_ms")?,
            ended_ms: row.try_get("ended_ms")?,
            status: json(
                "runs.status",
                &format!("{:?}", row.try_get::<&str, _>("status")?),
            )?,
            points: whole(row, "point_count")?,
            trials: whole(row, "trials")?,
        });
    }
    Ok(summaries)
}

/// A run by its position among all.
enum Place {
    /// Counted from the newest one that has measured anything or has not ended, since it can go on: `last`, `last~1`.
    FromLast(i64),
    /// By the number that `history` shows, from 1: `#12`, or `12`, since no id begins with it.
    Number(i64),
}

impl Place {
    fn of(name: &str) -> Option<Self> {
        let number = |text: &str| -> Option<i64> {
            let whole = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
            // A number that overflows matches no run.
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

/// Most ids with the same prefix that an error lists.
const LISTED: usize = 8;

/// The id for a name: the whole id, the prefix of exactly one, `last`, `last~1` or `#12`. The only
/// place where names of runs are resolved.
pub(crate) async fn find(c: &mut AnyConnection, id: &str) -> Result<String, Inner> {
    if let Some(place) = Place::of(id) {
        let (query, skip) = match place {
            // No EXISTS: SQLite 3.51 makes a join of it, whose OFFSET counts trials. The order is that of the index.
            Place::FromLast(n) => (
                "SELECT id FROM runs WHERE status = 'running' \
                 OR (SELECT seq FROM trials WHERE run_id = runs.id ORDER BY seq LIMIT 1) IS NOT NULL \
                 ORDER BY started_ms DESC, id DESC LIMIT 1 OFFSET $1",
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
    // `%` and `_` would match anything. Ids contain neither.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::reading::memory;

    /// The query plan of `SQLite`. With 20,000 runs, a query that reads every row takes seconds.
    fn plan(sql: &str) -> Vec<String> {
        plan_with([], sql)
    }

    /// Likewise, with these tables beside those of the format.
    fn plan_with(tables: impl IntoIterator<Item = &'static str>, sql: &str) -> Vec<String> {
        sqlx::any::install_default_drivers();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut store = memory(Path::new("s.db")).await.unwrap();
            for table in tables {
                sqlx::query(table).execute(&mut store).await.unwrap();
            }
            let explained = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let rows = sqlx::query(explained).fetch_all(&mut store).await.unwrap();
            rows.iter()
                .map(|row| row.try_get("detail").unwrap())
                .collect()
        })
    }

    #[test]
    fn runs_of_a_host_are_found_by_indexes() {
        let mut conditions = Conditions::default();
        conditions.of_host("n1", true, vec!["01A".into(), "01B".into()]);
        for text in [listing, layers_of] {
            let steps = plan_with(hosts::TABLES, &text(&conditions));
            let by = |what: &str| steps.iter().any(|step| step.contains(what));
            assert!(by("SEARCH hosts USING COVERING INDEX"), "{steps:#?}");
            // All runs are only numbered, by an index.
            let scans = steps.iter().filter(|step| step.starts_with("SCAN runs"));
            let mut reads = scans.filter(|step| !step.contains("COVERING INDEX"));
            assert_eq!(reads.next(), None, "{steps:#?}");
        }
        let steps = plan_with(hosts::TABLES, hosts::MISSING);
        let by = |what: &str| steps.iter().any(|step| step.contains(what));
        assert!(
            by("SEARCH hosts USING COVERING INDEX hosts_by_run"),
            "{steps:#?}"
        );
        assert!(
            by("SCAN runs USING COVERING INDEX runs_by_time"),
            "{steps:#?}"
        );
    }

    #[test]
    fn runs_of_a_layer_are_found_by_indexes() {
        for specs in [0, 3] {
            let mut conditions = Conditions::default();
            if specs > 0 {
                conditions.of_layers(vec!["fuse".into(); specs]);
            }
            let steps = plan(&listing(&conditions));
            let by = |what: &str| steps.iter().any(|step| step.contains(what));
            // By time, or by the run numbers from the index of layers.
            let found = if specs > 0 {
                by("SEARCH runs USING INDEX")
            } else {
                by("runs USING INDEX runs_by_time (started_ms>?)")
            };
            assert!(found && by(" chosen"), "{steps:#?}");
            assert_eq!(
                by("layers USING COVERING INDEX layers_by_spec"),
                specs > 0,
                "{steps:#?}"
            );
            // All runs are numbered by the index of their starts, and nothing else is read as a whole.
            let all = steps.iter().filter(|step| step.starts_with("SCAN "));
            let known = |step: &&String| {
                ["SCAN chosen", "SCAN numbered", "SCAN (subquery"]
                    .iter()
                    .any(|k| step.starts_with(k))
                    || step.contains("USING COVERING INDEX runs_by_time")
            };
            let other: Vec<_> = all.filter(|step| !known(step)).collect();
            assert!(other.is_empty(), "{steps:#?}");
            let steps = plan(&layers_of(&conditions));
            let found = "SEARCH layers USING INDEX sqlite_autoindex_layers_1 (run_id=?)";
            assert!(steps.iter().any(|step| step == found), "{steps:#?}");
        }
        let steps = plan("SELECT DISTINCT spec FROM layers WHERE control = 0");
        assert!(
            steps[0].contains("COVERING INDEX layers_by_spec"),
            "{steps:#?}"
        );
    }
}
