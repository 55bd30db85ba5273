//! Key findings: at most five short sentences, most serious first.

use crate::{
    facts::sustained,
    statements::{
        MOST, Selection,
        late::{Late, is_late},
        locks::OpenLocks,
        stalls,
    },
    types::{Cause, DurabilityVerdict, ResultRow, Verdict},
};

/// A key finding.
#[derive(Debug)]
pub enum Finding<'a> {
    /// The baseline's results whose flushes did not reach the device: comparisons with it are invalid.
    BaselineSkips(Vec<&'a ResultRow>),
    /// Layers that skip flushes, and their results.
    SkipsFlushes(Vec<Skipped<'a>>, Vec<&'a ResultRow>),
    /// A layer that answers fsync and flushes the device later.
    AnsweredEarly(&'a ResultRow),
    /// A layer that is configured to drop flushes, although the device counted them all.
    Contradicted(&'a ResultRow),
    /// The result that is slower by most without pauses, its least ratio, and all that are.
    Sustained(&'a ResultRow, f64, Vec<&'a ResultRow>),
    /// A layer that stores less than it is given: its cell with the smallest share.
    FewerBytes(&'a ResultRow),
    /// The cell with the most failed trials, and all with some.
    Failures(&'a ResultRow, Vec<&'a ResultRow>),
    /// Of a layer with stalls, the result whose average differs most from its typical ratio, and all.
    Stalls(&'a ResultRow, Vec<&'a ResultRow>),
    /// Locks of a layer that exclude nobody.
    Locks(OpenLocks<'a>),
    /// Changes that are seen later.
    Late(Late<'a>),
    /// The result of a layer that is slower by most, all that are slower, and of how many.
    Slower(&'a ResultRow, Vec<&'a ResultRow>, usize),
    /// Layers that cost nothing at most points, and nothing known anywhere; the points, and delta.
    Near(Vec<&'a str>, Vec<&'a ResultRow>, f64),
    /// Layers that are faster without a known reason, and the results.
    Unexplained(Vec<&'a str>, Vec<&'a ResultRow>),
    /// What could not be decided.
    Open(Open<'a>),
}

/// Flushes of a layer that skips them: the sums of the trials in which no other program flushed.
#[derive(Debug)]
pub struct Skipped<'a> {
    /// The layer.
    pub layer: &'a str,
    /// Flushes at the device.
    pub at_device: u64,
    /// Flushes that were asked for; 0 for a program, whose own are not counted.
    pub asked: u64,
    /// For a program: flushes of the baseline.
    pub reference: u64,
}

/// Results that are not decided, by reason.
#[derive(Debug)]
pub struct Open<'a> {
    /// Too few blocks.
    pub few: Vec<&'a ResultRow>,
    /// Too noisy.
    pub noisy: Vec<&'a ResultRow>,
    /// Too much of the time was spent waiting for a CPU.
    pub waiting: Vec<&'a ResultRow>,
    /// Not trusted.
    pub untrusted: Vec<&'a ResultRow>,
    /// Results with a requested verdict.
    pub asked: usize,
}

impl<'a> Finding<'a> {
    /// The layers that it is about; none if it is about all.
    pub fn layers(&self) -> Vec<&'a str> {
        match self {
            Self::BaselineSkips(rows) => vec![&rows[0].layer],
            Self::SkipsFlushes(layers, _) => layers.iter().map(|s| s.layer).collect(),
            Self::AnsweredEarly(row)
            | Self::Contradicted(row)
            | Self::Sustained(row, ..)
            | Self::FewerBytes(row)
            | Self::Failures(row, _)
            | Self::Stalls(row, _)
            | Self::Slower(row, ..) => vec![&row.layer],
            Self::Locks(open) => vec![open.layer],
            Self::Late(late) => vec![late.layer],
            Self::Near(layers, ..) | Self::Unexplained(layers, _) => layers.clone(),
            Self::Open(_) => Vec::new(),
        }
    }

    /// The results behind it.
    pub fn rows(&self) -> Vec<&'a ResultRow> {
        match self {
            Self::AnsweredEarly(row) | Self::Contradicted(row) | Self::FewerBytes(row) => vec![row],
            Self::BaselineSkips(rows)
            | Self::SkipsFlushes(_, rows)
            | Self::Sustained(.., rows)
            | Self::Failures(_, rows)
            | Self::Stalls(_, rows)
            | Self::Slower(_, rows, _)
            | Self::Near(_, rows, _)
            | Self::Unexplained(_, rows) => rows.clone(),
            Self::Locks(open) => open.rows.clone(),
            Self::Late(late) => late.rows(),
            Self::Open(open) => open.rows(),
        }
    }
}

/// The findings of a run.
pub fn findings<'a>(f: &Selection<'a>) -> Vec<Finding<'a>> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(baseline_skips(f));
    found.extend(skips_flushes(f));
    found.extend(answered_early(f));
    found.extend(contradicted(f));
    found.extend(slower_at_a_stretch(f));
    found.extend(fewer_bytes(f));
    found.extend(failures(f));
    found.extend(stalls_of_layers(f));
    let locks = f.compared().into_iter();
    found.extend(
        locks
            .filter_map(|layer| OpenLocks::of(f, layer))
            .map(Finding::Locks),
    );
    let late = f.compared().into_iter();
    found.extend(
        late.filter_map(|layer| Late::of(f, layer))
            .map(Finding::Late),
    );
    found.extend(slower(f));
    found.extend(near(f));
    found.extend(unexplained(f));
    // The last place is for results that could not be decided.
    let open = open(f);
    found.truncate(MOST - usize::from(open.is_some()));
    found.extend(open);
    found
}

fn baseline_skips<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let rows: Vec<&ResultRow> = f.baseline_skips().collect();
    (!rows.is_empty()).then_some(Finding::BaselineSkips(rows))
}

/// Names of the layers of rows, sorted, each once.
pub fn layers_of<'a>(rows: &[&'a ResultRow]) -> Vec<&'a str> {
    let mut layers: Vec<&str> = rows.iter().map(|r| r.layer.as_str()).collect();
    layers.sort_unstable();
    layers.dedup();
    layers
}

fn skips_flushes<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let mut rows = f.measured();
    rows.retain(|r| r.durability.verdict == DurabilityVerdict::Absorbed);
    let of = |layer: &'a str| {
        let own = || {
            rows.iter()
                .filter(|r| r.layer == layer)
                .map(|r| &r.durability)
        };
        Skipped {
            layer,
            at_device: own().filter_map(|d| d.flushes).sum(),
            asked: own().map(|d| d.syncs).sum(),
            reference: own().filter_map(|d| d.reference_flushes).sum(),
        }
    };
    let layers: Vec<Skipped> = layers_of(&rows).into_iter().map(of).collect();
    (!layers.is_empty()).then_some(Finding::SkipsFlushes(layers, rows))
}

fn answered_early<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let is_late = |r: &&ResultRow| r.durability.verdict == DurabilityVerdict::Late;
    let row = f.results.iter().find(is_late)?;
    row.durability.because.as_ref()?;
    Some(Finding::AnsweredEarly(row))
}

fn contradicted<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let row = f.results.iter().find(|r| r.durability.contradicted)?;
    row.durability.because.as_ref()?;
    Some(Finding::Contradicted(row))
}

/// A limit that refills while a layer rests.
fn slower_at_a_stretch<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let mut rows = f.measured();
    rows.retain(|row| sustained::is_slower(row));
    // The ratio of the stretch that was slower by least.
    let least = |row: &ResultRow| {
        let ratios = row.sustained.iter().flat_map(|s| &s.ratios);
        ratios.copied().fold(f64::MAX, f64::min)
    };
    let most = *rows.iter().max_by(|a, b| least(a).total_cmp(&least(b)))?;
    Some(Finding::Sustained(most, least(most), rows))
}

fn fewer_bytes<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let rows = f.results.iter().filter(|r| r.is_told());
    let share = |r: &&ResultRow| {
        let fewer = r.fewer_bytes.as_ref();
        let device = fewer.and_then(|f| Some(f.device? as f64 / f.application as f64));
        device.unwrap_or(1.0)
    };
    let row = rows
        .filter(|r| r.fewer_bytes.is_some())
        .min_by(|a, b| share(a).total_cmp(&share(b)))?;
    Some(Finding::FewerBytes(row))
}

fn failures<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let rows = f.failures();
    let worst = *rows.iter().max_by_key(|r| r.failed_trials)?;
    Some(Finding::Failures(worst, rows))
}

fn stalls_of_layers<'a>(f: &Selection<'a>) -> Vec<Finding<'a>> {
    let all = stalls::rows(f);
    let mut layers: Vec<&str> = all.iter().map(|r| r.layer.as_str()).collect();
    layers.dedup();
    let of_layer = |layer: &str| {
        let own = all.iter().copied().filter(|r| r.layer == layer);
        let own: Vec<&ResultRow> = own.collect();
        Some(Finding::Stalls(stalls::worst(&own)?, own))
    };
    layers.into_iter().filter_map(of_layer).collect()
}

/// Layers that are slower somewhere, largest ratio first.
fn slower<'a>(f: &Selection<'a>) -> Vec<Finding<'a>> {
    let ratio = |r: &ResultRow| r.ratio.map_or(1.0, |e| e.estimate);
    let mut found: Vec<(f64, Finding)> = Vec::new();
    for layer in f.compared() {
        let all = f.rows(layer);
        let slower = |r: &&ResultRow| r.verdict == Verdict::Slower && !is_late(r);
        let rows: Vec<&ResultRow> = all.iter().copied().filter(slower).collect();
        let worst = rows.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        if let Some(worst) = worst.copied() {
            found.push((ratio(worst), Finding::Slower(worst, rows, all.len())));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, s)| s).collect()
}

fn near<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let is_near = |layer: &&str| {
        let rows = f.rows(layer);
        let same = rows.iter().filter(|r| r.verdict == Verdict::Same).count();
        let other = |r: &&&ResultRow| !matches!(r.leaning(), Verdict::Same | Verdict::Undecided);
        let works = f.never_succeeded(layer) == 0 && !f.differs_unasked(layer);
        works && same * 2 > rows.len() && rows.iter().filter(other).count() == 0
    };
    let layers: Vec<&str> = f.compared().into_iter().filter(is_near).collect();
    let mut rows: Vec<&ResultRow> = layers.iter().flat_map(|l| f.rows(l)).collect();
    rows.retain(|r| r.verdict == Verdict::Same);
    (!layers.is_empty()).then_some(Finding::Near(layers, rows, f.run.plan.delta))
}

fn unexplained<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let mut rows = f.measured();
    rows.retain(|r| r.verdict == Verdict::Faster && r.causes.first() == Some(&Cause::Unexplained));
    (!rows.is_empty()).then(|| Finding::Unexplained(layers_of(&rows), rows))
}

/// How many results are undecided, and whether other programs are the reason.
fn open<'a>(f: &Selection<'a>) -> Option<Finding<'a>> {
    let asked = f.asked();
    let having = |v: Verdict| -> Vec<&ResultRow> {
        let certain = |r: &&ResultRow| r.verdict == v && r.probably.is_none();
        let of = asked.iter().copied().filter(certain);
        of.collect()
    };
    let (waiting, open): (Vec<&ResultRow>, Vec<&ResultRow>) = having(Verdict::Undecided)
        .into_iter()
        .partition(|r| r.withheld.is_some());
    let (few, noisy): (Vec<&ResultRow>, Vec<&ResultRow>) =
        open.into_iter().partition(|r| r.more_blocks.is_some());
    let open = Open {
        few,
        noisy,
        waiting,
        untrusted: having(Verdict::Untrusted),
        asked: asked.len(),
    };
    (!open.rows().is_empty()).then_some(Finding::Open(open))
}

impl<'a> Open<'a> {
    fn rows(&self) -> Vec<&'a ResultRow> {
        [&self.few[..], &self.noisy, &self.waiting, &self.untrusted].concat()
    }
}
