//! What a comparison of two runs says.

use crate::{
    group,
    statements::alike::{AlikeCheck, Checked},
    types::{Estimate, ResultRow, Verdict},
};

/// What changed between two runs, as their headline.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeHeadline<'a> {
    /// Layers are slower: those, and the result with the largest change.
    Slower(Vec<&'a str>, &'a ResultRow),
    /// A layer has new stalls.
    NewStalls(&'a ResultRow),
    /// Layers are faster, and nothing is slower.
    Faster(Vec<&'a str>, &'a ResultRow),
    /// This result is probably slower, and nothing certainly.
    ProbablySlower(&'a ResultRow),
    /// No result changed, of so many.
    Unchanged(usize),
    /// None of so many results is certain.
    Unknown(usize),
    /// Nothing is known to be slower or faster.
    NothingKnown {
        /// Results that are the same.
        same: usize,
        /// All results.
        of: usize,
    },
}

/// A sentence about two runs.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeFinding<'a> {
    /// The runs are not alike: the checks that found differences.
    NotAlike(Vec<&'a Checked<'a>>),
    /// Only this layer, the baseline, is in both runs.
    OnlyBaseline(&'a str, Vec<&'a ResultRow>),
    /// No baseline is in both runs; this is the one of the newer run, if they have one of the same name.
    NoBaseline(&'a str),
    /// The baseline itself changed, or is not known not to have.
    BaselineChange(BaselineChange<'a>, Vec<&'a ResultRow>),
    /// A layer is slower or faster.
    Changed {
        /// Its changed results.
        rows: Vec<&'a ResultRow>,
        /// All its results.
        of: usize,
        /// The one with the largest change.
        most: &'a ResultRow,
    },
    /// Results of a layer with new stalls.
    NewStalls(Vec<&'a ResultRow>, &'a ResultRow),
    /// Results that are not decided.
    Open {
        /// Too noisy.
        undecided: Vec<&'a ResultRow>,
        /// Not trusted.
        untrusted: Vec<&'a ResultRow>,
        /// All results.
        of: usize,
    },
}

/// Why a JSON document cannot be compared as a report.
#[derive(Debug)]
pub enum NotAReport {
    /// It is not JSON.
    NotJson(serde_json::Error),
    /// Its schema is another one.
    OtherSchema,
    /// A part is missing.
    Incomplete(serde_json::Error),
    /// It is a comparison itself.
    Comparison,
    /// An older version wrote it, without the ratios of its blocks.
    WithoutBlocks,
}

/// How the baseline itself changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BaselineChange<'a> {
    /// Its name.
    pub baseline: &'a str,
    /// Its results.
    pub of: usize,
    /// How they changed.
    pub how: Drifted<'a>,
}

/// How results of the baseline changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drifted<'a> {
    /// So many changed; the one with the largest change.
    Changed(usize, &'a ResultRow),
    /// So many are the same, and none is known to have changed.
    Same(usize),
}

/// Rows of the layers, or of the baseline if there are no others.
fn judged<'a>(rows: &'a [ResultRow], baseline: Option<&str>) -> Vec<&'a ResultRow> {
    let is_own = |r: &&ResultRow| baseline == Some(&*r.layer);
    let others: Vec<&ResultRow> = rows.iter().filter(|r| !is_own(r)).collect();
    if others.is_empty() {
        rows.iter().collect()
    } else {
        others
    }
}

fn having<'a>(rows: &[&'a ResultRow], verdict: Verdict) -> Vec<&'a ResultRow> {
    let of = rows
        .iter()
        .copied()
        .filter(|r| r.verdict == verdict && r.probably.is_none());
    of.collect()
}

fn size(row: &ResultRow) -> f64 {
    row.ratio.as_ref().map_or(0.0, Estimate::distance)
}

/// The row with the largest change.
fn most<'a>(rows: &[&'a ResultRow]) -> Option<&'a ResultRow> {
    let rows = rows.iter().copied();
    rows.max_by(|a, b| size(a).total_cmp(&size(b)))
}

/// Layers in the order of the rows, each with its rows.
fn by_layer<'a>(rows: &[&'a ResultRow]) -> Vec<(&'a str, Vec<&'a ResultRow>)> {
    group::by(rows.iter().copied(), |row| row.layer.as_str())
}

/// One sentence for both runs.
pub fn headline<'a>(rows: &'a [ResultRow], baseline: Option<&str>) -> ChangeHeadline<'a> {
    let all = judged(rows, baseline);
    let layers = |rows: &[&'a ResultRow]| group::distinct(rows.iter().map(|r| r.layer.as_str()));
    let slower = having(&all, Verdict::Slower);
    if let Some(row) = most(&slower) {
        return ChangeHeadline::Slower(layers(&slower), row);
    }
    if let Some(row) = all.iter().find(|r| r.has_stalls()) {
        return ChangeHeadline::NewStalls(row);
    }
    let faster = having(&all, Verdict::Faster);
    if let Some(row) = most(&faster) {
        return ChangeHeadline::Faster(layers(&faster), row);
    }
    let probable = all.iter().copied();
    let probable = probable.filter(|r| r.probably == Some(Verdict::Slower));
    if let Some(row) = most(&probable.collect::<Vec<_>>()) {
        return ChangeHeadline::ProbablySlower(row);
    }
    let (same, of) = (having(&all, Verdict::Same).len(), all.len());
    match same {
        _ if same == of => ChangeHeadline::Unchanged(of),
        0 => ChangeHeadline::Unknown(of),
        _ => ChangeHeadline::NothingKnown { same, of },
    }
}

/// All findings, most serious first, undecided results last.
pub fn findings<'a>(
    checks: &'a [Checked<'a>],
    rows: &'a [ResultRow],
    baseline: Option<&'a str>,
) -> Vec<ChangeFinding<'a>> {
    let all = judged(rows, baseline);
    not_alike(checks)
        .into_iter()
        .chain(machine(rows, baseline))
        .chain(changed(&all, Verdict::Slower))
        .chain(stalls(&all))
        .chain(changed(&all, Verdict::Faster))
        .chain(open(&all))
        .collect()
}

/// What differs between the runs.
fn not_alike<'a>(checks: &'a [Checked<'a>]) -> Option<ChangeFinding<'a>> {
    // Set-ups limit the intervals of runs that are alike, too.
    let not = |c: &&Checked| !c.is_alike() && c.check != AlikeCheck::SetUps;
    let checks: Vec<&Checked> = checks.iter().filter(not).collect();
    (!checks.is_empty()).then_some(ChangeFinding::NotAlike(checks))
}

/// The change of the machine, if it is worth a sentence.
fn machine<'a>(rows: &'a [ResultRow], baseline: Option<&'a str>) -> Option<ChangeFinding<'a>> {
    let name = baseline.unwrap_or_default();
    let own: Vec<&ResultRow> = rows.iter().filter(|r| r.layer == name).collect();
    if own.len() == rows.len() {
        return Some(ChangeFinding::OnlyBaseline(name, own));
    }
    match drift(rows, baseline) {
        Some(drift) if drift.is_none() => None,
        Some(drift) => Some(ChangeFinding::BaselineChange(drift, own)),
        None => Some(ChangeFinding::NoBaseline(name)),
    }
}

impl BaselineChange<'_> {
    /// Whether there is none to speak of: most of its results are the same, and none is known to have changed.
    pub fn is_none(&self) -> bool {
        matches!(self.how, Drifted::Same(same) if 2 * same >= self.of)
    }
}

/// The change of the baseline between the runs; `None` if it is unknown.
pub fn drift<'a>(rows: &'a [ResultRow], baseline: Option<&'a str>) -> Option<BaselineChange<'a>> {
    let baseline = baseline?;
    let own: Vec<&ResultRow> = rows.iter().filter(|r| r.layer == baseline).collect();
    let moved = |r: &&ResultRow| matches!(r.leaning(), Verdict::Slower | Verdict::Faster);
    let changed: Vec<&ResultRow> = own.iter().copied().filter(moved).collect();
    let same = own.iter().filter(|r| r.verdict == Verdict::Same).count();
    let how = most(&changed).map_or(Drifted::Same(same), |row| {
        Drifted::Changed(changed.len(), row)
    });
    let of = own.len();
    (of > 0).then_some(BaselineChange { baseline, of, how })
}

/// Each layer that changed, largest change first.
fn changed<'a>(all: &[&'a ResultRow], verdict: Verdict) -> Vec<ChangeFinding<'a>> {
    let mut layers = by_layer(&having(all, verdict));
    let largest = |rows: &[&ResultRow]| most(rows).map_or(0.0, size);
    layers.sort_by(|a, b| largest(&b.1).total_cmp(&largest(&a.1)));
    let finding = |(layer, rows): (&str, Vec<&'a ResultRow>)| {
        let of = all.iter().filter(|r| r.layer == layer).count();
        let most = most(&rows)?;
        Some(ChangeFinding::Changed { rows, of, most })
    };
    layers.into_iter().filter_map(finding).collect()
}

/// Each layer with new stalls.
fn stalls<'a>(all: &[&'a ResultRow]) -> Vec<ChangeFinding<'a>> {
    let having: Vec<&ResultRow> = all.iter().copied().filter(|r| r.has_stalls()).collect();
    let finding = |(_, rows): (&str, Vec<&'a ResultRow>)| {
        let first = *rows.first()?;
        let known = first.ratio.is_some_and(|r| r.average.is_some());
        known.then_some(ChangeFinding::NewStalls(rows, first))
    };
    by_layer(&having).into_iter().filter_map(finding).collect()
}

/// The undecided results.
fn open<'a>(all: &[&'a ResultRow]) -> Option<ChangeFinding<'a>> {
    let undecided = having(all, Verdict::Undecided);
    let untrusted = having(all, Verdict::Untrusted);
    let some = !undecided.is_empty() || !untrusted.is_empty();
    some.then_some(ChangeFinding::Open {
        undecided,
        untrusted,
        of: all.len(),
    })
}

impl<'a> ChangeFinding<'a> {
    /// Its layer, if it is about one, and its results.
    pub fn evidence(&self) -> (&'a str, Vec<&'a ResultRow>) {
        match self {
            Self::NotAlike(_) => ("", Vec::new()),
            Self::NoBaseline(layer) => (*layer, Vec::new()),
            Self::OnlyBaseline(layer, rows) => (*layer, rows.clone()),
            Self::BaselineChange(drift, rows) => (drift.baseline, rows.clone()),
            Self::Changed { rows, most, .. } | Self::NewStalls(rows, most) => {
                (most.layer.as_str(), rows.clone())
            }
            Self::Open {
                undecided,
                untrusted,
                ..
            } => ("", [undecided.clone(), untrusted.clone()].concat()),
        }
    }
}
