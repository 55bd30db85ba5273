//! Which layers are for code, for a database, and for what is only read: a finding of runs that measured more than one
//! of these.

use layermark_model::{Target, Unit};

use crate::{statements::Selection, types::ResultRow};

/// A layer is for something if it takes this many times the baseline's time at most, as in the plan `daily`.
const ENOUGH: f64 = 2.0;

/// What a layer may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Steps of git.
    Code,
    /// Transactions that flush.
    Database,
    /// Data and names that nothing changes.
    Reading,
}

impl Use {
    const ALL: [Self; 3] = [Self::Code, Self::Database, Self::Reading];

    /// Whether what is there must survive a power cut.
    fn is_kept(self) -> bool {
        self != Self::Reading
    }

    /// Whether its operation is named, because there is one.
    pub fn is_named(self) -> bool {
        self != Self::Reading
    }

    fn holds(self, r: &ResultRow) -> bool {
        let meaning = &r.meaning;
        match self {
            Self::Code => meaning.program() == Some("git"),
            Self::Database => meaning.unit == Unit::Transaction && meaning.flushes,
            Self::Reading => {
                matches!(meaning.target, Target::Data | Target::Names) && !meaning.changes
            }
        }
    }
}

/// What the layers are for.
#[derive(Debug)]
pub struct Uses<'a>(pub Vec<UseOf<'a>>);

/// Which layers are for something.
#[derive(Debug)]
pub struct UseOf<'a> {
    /// What for.
    pub what: Use,
    /// The label of an operation.
    pub label: &'a str,
    /// Layers that are for it.
    pub good: Vec<&'a str>,
    /// Rows of the largest ratio of layers that are not, the slowest first.
    pub slow: Vec<&'a ResultRow>,
    /// Layers that lose what they are given.
    pub loses: Vec<&'a str>,
    /// Layers of which it is not known.
    pub open: Vec<&'a str>,
    /// The results behind it.
    pub rows: Vec<&'a ResultRow>,
}

/// What a layer is for, as far as the run can tell.
enum Answer<'a> {
    Yes,
    /// The row with the largest ratio.
    No(&'a ResultRow),
    Loses,
    Open,
}

/// `None` if the run has work of one kind only, or claims of its own.
pub fn uses<'a>(f: &Selection<'a>) -> Option<Uses<'a>> {
    if !f.run.plan.claim.is_empty() {
        return None;
    }
    let found = Use::ALL.into_iter().filter_map(|of| use_of(f, of));
    let found: Vec<UseOf> = found.collect();
    (found.len() > 1).then_some(Uses(found))
}

impl<'a> Uses<'a> {
    /// The results behind all.
    pub fn rows(&self) -> Vec<&'a ResultRow> {
        self.0.iter().flat_map(|of| of.rows.clone()).collect()
    }
}

fn use_of<'a>(f: &Selection<'a>, what: Use) -> Option<UseOf<'a>> {
    let mut rows = f.asked();
    // A layer in memory is not a place to keep anything.
    rows.retain(|r| what.holds(r) && !f.in_memory(&r.layer));
    let mut layers: Vec<&str> = Vec::new();
    for row in &rows {
        if !layers.contains(&row.layer.as_str()) {
            layers.push(&row.layer);
        }
    }
    let (mut good, mut open, mut loses, mut slow) = (vec![], vec![], vec![], vec![]);
    for layer in layers {
        let failed = |r: &&ResultRow| r.layer == layer && what.holds(r);
        let failed = f.failures().iter().any(failed);
        match answer(f, &rows, layer, what.is_kept()) {
            Answer::Yes if failed => open.push(layer),
            Answer::Yes => good.push(layer),
            Answer::Open => open.push(layer),
            Answer::Loses => loses.push(layer),
            Answer::No(row) => slow.push(row),
        }
    }
    slow.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    Some(UseOf {
        what,
        label: &rows.first()?.label,
        good,
        slow,
        loses,
        open,
        rows,
    })
}

fn ratio(row: &ResultRow) -> f64 {
    row.ratio.map_or(0.0, |e| e.estimate)
}

fn answer<'a>(f: &Selection, rows: &[&'a ResultRow], layer: &str, kept: bool) -> Answer<'a> {
    let own = || rows.iter().copied().filter(|r| r.layer == layer);
    if kept && own().any(|r| r.durability.skips()) {
        return Answer::Loses;
    }
    // A ratio that changed holds for a part of the run, and one with stalls for most operations only. What is suspected
    // of skipping flushes has no time for them.
    let ends = |r: &ResultRow| {
        let flushes = !kept || r.durability.suspicion.is_none();
        let sure = r.is_told() && r.steady != Some(false) && !r.has_stalls() && flushes;
        r.ratio.and_then(|e| e.interval).filter(|_| sure)
    };
    let slow = own().filter(|r| ends(r).is_some_and(|[low, _]| low > ENOUGH));
    if let Some(worst) = slow.max_by(|a, b| ratio(a).total_cmp(&ratio(b))) {
        return Answer::No(worst);
    }
    // Another operation shows that the layer skips flushes; this one may have none.
    let mut measured = f.measured().into_iter();
    if kept && measured.any(|r| r.layer == layer && r.durability.skips()) {
        return Answer::Loses;
    }
    if own().all(|r| ends(r).is_some_and(|[_, high]| high <= ENOUGH)) {
        Answer::Yes
    } else {
        Answer::Open
    }
}
