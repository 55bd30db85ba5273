//! A sentence for each layer.

use crate::{
    group,
    statements::{
        Selection,
        late::{Late, is_late},
        locks::OpenLocks,
        stalls,
    },
    types::{Cause, DurabilityVerdict, ResultRow, Verdict},
};

/// Smallest difference for an operation to have its own clause, microseconds. Smaller ones share a
/// clause.
const TOLD_ALONE: f64 = 1_000.0;
/// More operations than this with a clause of their own are only named.
pub const ALONE: usize = 3;

/// What is said of a layer.
#[derive(Debug)]
pub struct LayerVerdict<'a> {
    /// The layer.
    pub layer: &'a str,
    /// The clauses of its sentence.
    pub clauses: Vec<Clause<'a>>,
    /// The results behind it.
    pub rows: Vec<&'a ResultRow>,
}

/// A clause of a layer's sentence.
#[derive(Debug)]
pub enum Clause<'a> {
    /// The same as the baseline.
    Same(RowGroup<'a>),
    /// An operation that costs much.
    CostsMore(&'a ResultRow),
    /// More operations that cost much.
    SlowerToo(Vec<&'a ResultRow>),
    /// Operations that cost less, for one reason.
    Adds(RowGroup<'a>),
    /// Faster, for one reason.
    Faster(RowGroup<'a>),
    /// Locks that exclude nobody.
    Locks(OpenLocks<'a>),
    /// Changes that are seen later.
    Late(Late<'a>),
    /// An operation with stalls.
    Stalls(&'a ResultRow),
    /// A known direction without a single number: the ratio changed during the run.
    Changed(Verdict, Vec<&'a ResultRow>),
    /// Flushes are skipped, at no gain: the row with most flushes, and all.
    SkipsFlush(&'a ResultRow, Vec<&'a ResultRow>),
    /// Fewer flushes than calls: the row with most flushes, and all.
    FewerFlushes(&'a ResultRow, Vec<&'a ResultRow>),
    /// No verdict, because it waited for a CPU.
    Withheld(Vec<&'a ResultRow>),
    /// Probably slower, for one reason.
    ProbablySlower(RowGroup<'a>),
    /// Probably faster, for one reason.
    ProbablyFaster(RowGroup<'a>),
    /// Too noisy, of so many operations.
    Noisy(usize, usize),
    /// Too noisy, with what is known of each.
    TooNoisy(Vec<&'a ResultRow>),
    /// Too few blocks, and how many more are needed.
    TooFew(Vec<&'a ResultRow>, usize),
    /// The ratio changed, and no direction is known.
    Drifts(Vec<&'a ResultRow>),
    /// Not trusted, for one reason.
    Untrusted(Vec<&'a ResultRow>),
    /// Trials failed, for one reason.
    Failed(Vec<&'a ResultRow>),
}

/// Results of a layer that a clause is about.
#[derive(Debug)]
pub struct RowGroup<'a> {
    /// All results of the layer, to tell whether a kind of work is complete.
    pub all: Vec<&'a ResultRow>,
    /// Those of the clause.
    pub rows: Vec<&'a ResultRow>,
    /// The first cause of each of these.
    pub cause: Option<Cause>,
}

impl<'a> RowGroup<'a> {
    /// The lowest and the highest end of the intervals.
    pub fn hull(&self) -> Option<[f64; 2]> {
        let spans = self.rows.iter().filter_map(|r| r.ratio?.interval);
        spans.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
    }

    /// Rows of which one has an interval.
    fn with_hull(
        all: &[&'a ResultRow],
        rows: &[&'a ResultRow],
        cause: Option<Cause>,
    ) -> Option<Self> {
        let group = Self {
            all: all.to_vec(),
            rows: rows.to_vec(),
            cause,
        };
        group.hull().is_some().then_some(group)
    }
}

/// A sentence for each layer of which there is something to say.
pub fn verdicts<'a>(f: &Selection<'a>) -> Vec<LayerVerdict<'a>> {
    let layers = f.compared().into_iter();
    layers.filter_map(|layer| verdict(f, layer)).collect()
}

fn verdict<'a>(f: &Selection<'a>, layer: &'a str) -> Option<LayerVerdict<'a>> {
    let all = f.rows(layer);
    let mut rest = all.clone();
    rest.retain(|r| !is_late(r));
    let having = |v: Verdict| -> Vec<&ResultRow> {
        rest.iter()
            .copied()
            .filter(|r| r.verdict == v)
            .filter(|r| v == Verdict::Undecided || r.steady != Some(false))
            // Results with stalls are reported with their average.
            .filter(|r| !(r.has_stalls() && r.is_told()))
            .collect()
    };
    let mut failed = f.failures();
    failed.retain(|r| r.layer == layer);
    let mut clauses = Vec::new();
    let same = RowGroup::with_hull(&all, &having(Verdict::Same), None);
    clauses.extend(same.map(Clause::Same));
    clauses.extend(slower(&all, having(Verdict::Slower)));
    clauses.extend(by_cause(&all, &having(Verdict::Faster)).map(Clause::Faster));
    clauses.extend(OpenLocks::of(f, layer).map(Clause::Locks));
    clauses.extend(Late::among(layer, &all).map(Clause::Late));
    let stalling = rest
        .iter()
        .filter(|r| r.is_told() && stalls::has_average(r));
    clauses.extend(stalling.map(|r| Clause::Stalls(r)));
    clauses.extend(changed(&rest, Verdict::Slower));
    clauses.extend(changed(&rest, Verdict::Faster));
    clauses.extend(skips_flush(&all));
    clauses.extend(fewer_flushes(&all));
    clauses.extend(undecided(&all, having(Verdict::Undecided)));
    let untrusted = having(Verdict::Untrusted);
    let untrusted = group::alike(untrusted, |a, b| a.distrust == b.distrust);
    clauses.extend(untrusted.into_iter().map(Clause::Untrusted));
    let why = |row: &ResultRow| layermark_model::brief(row.error.as_deref().unwrap_or_default());
    let failures = group::alike(failed.iter().copied(), |a, b| why(a) == why(b));
    clauses.extend(failures.into_iter().map(Clause::Failed));
    let never = failed.iter().copied().filter(|r| r.trials == 0);
    (!clauses.is_empty()).then(|| LayerVerdict {
        layer,
        clauses,
        rows: all.iter().copied().chain(never).collect(),
    })
}

/// Groups rows by their first cause, in order of first appearance.
pub fn by_cause<'a>(
    all: &[&'a ResultRow],
    rows: &[&'a ResultRow],
) -> impl Iterator<Item = RowGroup<'a>> + use<'a> {
    let is_like = |a: &ResultRow, b: &ResultRow| match (a.causes.first(), b.causes.first()) {
        (Some(a), Some(b)) => a.is_like(b),
        (a, b) => a.is_none() && b.is_none(),
    };
    let all = all.to_vec();
    group::alike(rows.iter().copied(), |a, b| is_like(a, b))
        .into_iter()
        .map(move |rows| {
            let mut causes = rows.iter().filter_map(|r| r.causes.first());
            let mut cause = causes.next().cloned();
            for more in causes {
                if let Some(told) = &mut cause {
                    told.count(more);
                }
            }
            RowGroup {
                all: all.clone(),
                rows,
                cause,
            }
        })
}

fn slower<'a>(all: &[&'a ResultRow], mut rows: Vec<&'a ResultRow>) -> Vec<Clause<'a>> {
    let extra = |r: &ResultRow| r.extra_us.map_or(0.0, |e| e.estimate);
    rows.sort_by(|a, b| extra(b).total_cmp(&extra(a)));
    let (mut large, small): (Vec<&ResultRow>, Vec<&ResultRow>) =
        rows.into_iter().partition(|r| extra(r) >= TOLD_ALONE);
    let more = large.split_off(large.len().min(ALONE));
    let mut clauses: Vec<Clause> = large.into_iter().map(Clause::CostsMore).collect();
    if !more.is_empty() {
        clauses.push(Clause::SlowerToo(more));
    }
    // Operations that are slower for one reason share a clause.
    clauses.extend(by_cause(all, &small).map(Clause::Adds));
    clauses
}

fn changed<'a>(all: &[&'a ResultRow], verdict: Verdict) -> Option<Clause<'a>> {
    let changed = |r: &&ResultRow| r.verdict == verdict && r.steady == Some(false);
    let rows: Vec<&ResultRow> = all.iter().copied().filter(changed).collect();
    (!rows.is_empty()).then_some(Clause::Changed(verdict, rows))
}

/// A skipped flush is reported even if it saves no time.
fn skips_flush<'a>(all: &[&'a ResultRow]) -> Option<Clause<'a>> {
    let skips = |r: &&ResultRow| {
        let told = r.leaning() == Verdict::Faster;
        r.durability.verdict == DurabilityVerdict::Absorbed && !told
    };
    let rows: Vec<&ResultRow> = all.iter().copied().filter(skips).collect();
    let most = *rows.iter().max_by_key(|r| r.durability.syncs)?;
    Some(Clause::SkipsFlush(most, rows))
}

/// Fewer flushes than calls are reported at any speed.
fn fewer_flushes<'a>(all: &[&'a ResultRow]) -> Option<Clause<'a>> {
    let fewer = |r: &&ResultRow| {
        let told = matches!(r.causes.first(), Some(Cause::FlushesPerSync(_)));
        r.durability.per_sync.is_some() && !told
    };
    let rows: Vec<&ResultRow> = all.iter().copied().filter(fewer).collect();
    let most = *rows.iter().max_by_key(|r| r.durability.syncs)?;
    Some(Clause::FewerFlushes(most, rows))
}

/// Undecided results, with what is still known about them.
fn undecided<'a>(all: &[&'a ResultRow], rows: Vec<&'a ResultRow>) -> Vec<Clause<'a>> {
    type Rows<'a> = Vec<&'a ResultRow>;
    let (withheld, rest): (Rows, Rows) = rows.into_iter().partition(|r| r.withheld.is_some());
    let (drifting, rest): (Rows, Rows) = rest.into_iter().partition(|r| r.steady == Some(false));
    let has_interval = |r: &&ResultRow| r.ratio.is_some_and(|e| e.interval.is_some());
    let (wide, short): (Rows, Rows) = rest.into_iter().partition(has_interval);
    let (probable, wide): (Rows, Rows) = wide.into_iter().partition(|r| r.probably.is_some());
    let mut clauses = Vec::new();
    clauses.extend(about(withheld).map(Clause::Withheld));
    let leaning = |side: Verdict| -> Rows {
        let leans = probable
            .iter()
            .copied()
            .filter(|r| r.probably == Some(side));
        leans.collect()
    };
    let slower = by_cause(all, &leaning(Verdict::Slower));
    clauses.extend(slower.map(Clause::ProbablySlower));
    let faster = by_cause(all, &leaning(Verdict::Faster));
    clauses.extend(faster.map(Clause::ProbablyFaster));
    let differs = |r: &&ResultRow| matches!(r.verdict, Verdict::Slower | Verdict::Faster);
    if all.iter().any(differs) && wide.len() > 1 {
        // Next to findings, only their number is given; the table has what is known of each.
        clauses.push(Clause::Noisy(wide.len(), all.len()));
    } else {
        clauses.extend(about(wide).map(Clause::TooNoisy));
    }
    let more = short.iter().filter_map(|r| r.more_blocks).max();
    clauses.extend(about(short).map(|short| Clause::TooFew(short, more.unwrap_or(0))));
    clauses.extend(about(drifting).map(Clause::Drifts));
    clauses
}

fn about<T>(rows: Vec<T>) -> Option<Vec<T>> {
    (!rows.is_empty()).then_some(rows)
}
