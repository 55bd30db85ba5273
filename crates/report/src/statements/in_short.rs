//! One line for each layer: what everyday work costs there, and whether flushed data reaches the disk.

use crate::{
    statements::{
        Selection,
        everyday::{Everyday, factor, lost},
        headline::{Named, named},
        late::is_late,
        locks::is_open,
    },
    types::{DurabilityVerdict, ResultRow, Verdict},
};

/// A line about layers.
#[derive(Debug)]
pub enum ShortLine<'a> {
    /// A layer of which something is known.
    Layer(InShort<'a>),
    /// Layers without a decided difference.
    Open(Vec<&'a str>),
}

/// A layer in one line.
#[derive(Debug)]
pub struct InShort<'a> {
    /// The layer.
    pub name: Named<'a>,
    /// Whether its flushed data reaches the disk.
    pub kept: Kept,
    /// What its work costs, in the order of [`Everyday`].
    pub told: Vec<Told<'a>>,
    /// How many of its operations have no verdict, although one was asked.
    pub open: usize,
    /// How many operations failed in each of their trials.
    pub failed: usize,
    /// The results behind it.
    pub rows: Vec<&'a ResultRow>,
}

/// Whether flushed data reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// Nothing was flushed.
    NotAsked,
    /// Every flush was followed to the device.
    Yes,
    /// Flushes are skipped.
    Skipped,
    /// Flushes are answered before the device is flushed.
    Early,
    /// The data is in memory.
    Memory,
    /// Nothing shows it, of some flushes at least.
    NotProved,
}

/// What some operations cost.
#[derive(Debug)]
pub struct Told<'a> {
    /// The work; `None` for all operations, where none of such work is decided.
    pub work: Option<Everyday>,
    /// How it compares.
    pub how: How<'a>,
    /// How many operations of the work have a verdict.
    pub known: usize,
    /// All operations of the work.
    pub all: usize,
}

/// How work in a layer compares with the baseline.
#[derive(Debug)]
pub enum How<'a> {
    /// It takes longer: the operation with the largest ratio of the work, or that loses most time of all.
    Slower(&'a ResultRow),
    /// It takes less time: the operation that gains most.
    Faster(&'a ResultRow),
    /// It takes the same time, at this many operations.
    Same(usize),
}

/// The lines of all layers, the slowest first. None if the headline says as much.
pub fn in_short<'a>(f: &Selection<'a>) -> Vec<ShortLine<'a>> {
    if f.baseline_skips().next().is_some() {
        return Vec::new();
    }
    let lines = f.compared().into_iter().map(|l| InShort::of(f, l));
    let lines: Vec<InShort> = lines.filter(|line| !line.rows.is_empty()).collect();
    let said = lines.iter().any(|line| !line.told.is_empty());
    let alone = lines.len() == 1 && lines[0].rows.len() == 1;
    if !said || alone {
        return Vec::new();
    }
    let (open, mut known): (Vec<InShort>, Vec<InShort>) =
        lines.into_iter().partition(InShort::is_open);
    known.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
    let open: Vec<&str> = open.iter().map(|line| line.name.layer).collect();
    let open = (!open.is_empty()).then_some(ShortLine::Open(open));
    known
        .into_iter()
        .map(ShortLine::Layer)
        .chain(open)
        .collect()
}

impl<'a> ShortLine<'a> {
    /// Its layers.
    pub fn layers(&self) -> Vec<&'a str> {
        match self {
            Self::Layer(of) => vec![of.name.layer],
            Self::Open(layers) => layers.clone(),
        }
    }

    /// The results behind it.
    pub fn rows(&self) -> Vec<&'a ResultRow> {
        match self {
            Self::Layer(of) => of.rows.clone(),
            Self::Open(_) => Vec::new(),
        }
    }
}

impl<'a> InShort<'a> {
    fn of(f: &Selection<'a>, layer: &'a str) -> Self {
        let mut rows = f.rows(layer);
        // Neither is a cost of an operation; a finding has them.
        rows.retain(|r| !is_late(r) && !is_open(r));
        let everyday = |work: Everyday| {
            let own = rows.iter().copied();
            let own: Vec<&ResultRow> = own
                .filter(|r| Everyday::of(&r.meaning) == Some(work))
                .collect();
            Told::of(Some(work), &own)
        };
        let mut told: Vec<Told> = Everyday::ALL.into_iter().filter_map(everyday).collect();
        if told.is_empty() {
            told.extend(Told::of(None, &rows));
        }
        Self {
            name: named(f, layer),
            kept: kept(f, layer),
            told,
            open: rows.iter().filter(|r| !is_known(r)).count(),
            failed: f.never_succeeded(layer),
            rows,
        }
    }

    /// Whether nothing is known of it.
    fn is_open(&self) -> bool {
        let unknown = matches!(self.kept, Kept::NotAsked | Kept::NotProved);
        self.told.is_empty() && self.failed == 0 && unknown
    }

    /// The largest ratio that is said; 0 if none is.
    fn worst(&self) -> f64 {
        let ratio = |told: &Told| match told.how {
            How::Slower(row) | How::Faster(row) => factor(row),
            How::Same(_) => 1.0,
        };
        self.told.iter().map(ratio).fold(0.0, f64::max)
    }
}

impl<'a> Told<'a> {
    /// What these operations cost; `None` if that is not known of any.
    fn of(work: Option<Everyday>, rows: &[&'a ResultRow]) -> Option<Self> {
        let known: Vec<&ResultRow> = rows.iter().copied().filter(|r| is_known(r)).collect();
        let leaning = |v: Verdict| known.iter().copied().filter(move |r| r.leaning() == v);
        // Unlike operations are compared by the time that each loses, those of one kind of work by their ratios.
        let size = |r: &ResultRow| match work {
            Some(_) => factor(r),
            None => lost(r),
        };
        let slowest = leaning(Verdict::Slower).max_by(|a, b| size(a).total_cmp(&size(b)));
        let fastest = leaning(Verdict::Faster).min_by(|a, b| factor(a).total_cmp(&factor(b)));
        let same = leaning(Verdict::Same).count();
        let how = match (slowest, fastest) {
            (Some(row), _) => How::Slower(row),
            (None, Some(row)) => How::Faster(row),
            (None, None) if same > 0 => How::Same(same),
            (None, None) => return None,
        };
        Some(Self {
            work,
            how,
            known: known.len(),
            all: rows.len(),
        })
    }
}

/// Whether a result has a certain or probable verdict, and a number that holds for the whole run.
fn is_known(row: &ResultRow) -> bool {
    let verdict = matches!(
        row.leaning(),
        Verdict::Slower | Verdict::Faster | Verdict::Same
    );
    verdict && row.is_told() && row.ratio.is_some() && row.steady != Some(false)
}

fn kept(f: &Selection, layer: &str) -> Kept {
    let mut rows = f.measured();
    rows.retain(|r| r.layer == layer);
    Kept::of(&rows, f.in_memory(layer))
}

impl Kept {
    /// By what a layer measured, and whether its data is in memory.
    pub fn of(rows: &[&ResultRow], in_memory: bool) -> Self {
        let own = || rows.iter().map(|r| &r.durability);
        let flushes = || own().filter(|d| d.verdict != DurabilityVerdict::NotAsked);
        let late = |late: bool| {
            flushes().any(move |d| d.skips() && (d.verdict == DurabilityVerdict::Late) == late)
        };
        let honoured = DurabilityVerdict::Honoured;
        if late(false) {
            Self::Skipped
        } else if late(true) {
            Self::Early
        } else if in_memory {
            Self::Memory
        } else if flushes().next().is_none() {
            Self::NotAsked
        } else if flushes().all(|d| d.verdict == honoured && d.suspicion.is_none()) {
            Self::Yes
        } else {
            Self::NotProved
        }
    }
}

#[cfg(test)]
mod tests {
    use layermark_testkit::fixtures::fixture;

    use super::*;
    use crate::Report;

    /// A layer of which single operations alone are decided had a line without any, at the end.
    #[test]
    fn where_no_application_is_decided_the_others_are_told() {
        let kept = fixture("quiet").read();
        let mut results = Report::build(&kept.run, &kept.trials).results;
        let told = |results: &[ResultRow]| -> Vec<(Option<Everyday>, usize)> {
            let f = Selection {
                run: &kept.run,
                results,
                alternatives: &[],
                locks: &[],
                study: None,
            };
            let line = InShort::of(&f, "fuse");
            line.told.iter().map(|told| (told.work, told.all)).collect()
        };
        assert!(told(&results).iter().all(|(work, _)| work.is_some()));
        for row in &mut results {
            if Everyday::of(&row.meaning).is_some() {
                (row.verdict, row.probably) = (Verdict::Undecided, None);
            }
        }
        let asked = results.iter().filter(|r| r.layer == "fuse");
        assert_eq!(told(&results), [(None, asked.count())]);
    }
}
