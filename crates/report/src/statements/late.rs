//! Changes that the other side of a shared directory sees later, or not in time. Nothing waits for them, so the delay is
//! not a cost of an operation.

use layermark_model::Target;

use crate::{
    statements::{Selection, locks::is_open},
    types::{ResultRow, Verdict},
};

/// Whether a result is the time until a change is seen, and certainly or probably longer than in the baseline; or a lock
/// that excludes nobody, whose time is none.
pub fn is_late(row: &ResultRow) -> bool {
    let later = row.not_seen() || row.leaning() == Verdict::Slower;
    row.is_told() && (is_open(row) || is_change(row) && later)
}

fn is_change(row: &ResultRow) -> bool {
    row.meaning.target == Target::SharedDirectory
}

/// Late changes of a layer.
#[derive(Debug)]
pub struct Late<'a> {
    /// The layer.
    pub layer: &'a str,
    /// Changes that a verdict was asked on.
    pub asked: usize,
    /// Changes that are seen later, the most delayed first.
    pub slower: Vec<&'a ResultRow>,
    /// Changes that probably are.
    pub probably: Vec<&'a ResultRow>,
    /// Changes that are not seen in time, the shortest wait first.
    pub unseen: Vec<&'a ResultRow>,
}

impl<'a> Late<'a> {
    /// Of a layer, if it has any.
    pub fn of(f: &Selection<'a>, layer: &'a str) -> Option<Self> {
        Self::among(layer, &f.rows(layer))
    }

    /// Of a layer's rows with a requested verdict, without locks that exclude nobody.
    pub fn among(layer: &'a str, rows: &[&'a ResultRow]) -> Option<Self> {
        let late = rows.iter().copied();
        let late = late.filter(|r| is_late(r) && !is_open(r));
        let (mut unseen, delayed): (Vec<&ResultRow>, Vec<&ResultRow>) =
            late.partition(|r| r.not_seen());
        let (mut slower, probably): (Vec<&ResultRow>, Vec<&ResultRow>) = delayed
            .into_iter()
            .partition(|r| r.verdict == Verdict::Slower);
        let delay = |r: &ResultRow| r.extra_us.map_or(0.0, |e| e.estimate);
        slower.sort_by(|a, b| delay(b).total_cmp(&delay(a)));
        let wait = |r: &ResultRow| r.op_us.unwrap_or_default();
        unseen.sort_by(|a, b| wait(a).total_cmp(&wait(b)));
        let late = Self {
            layer,
            asked: rows.iter().filter(|r| is_change(r)).count(),
            slower,
            probably,
            unseen,
        };
        (!late.rows().is_empty()).then_some(late)
    }

    /// How much later than in the baseline the most delayed is seen, microseconds. `None` if a delay changed during the
    /// run.
    pub fn longest(&self) -> Option<f64> {
        let known = self.slower.iter().all(|r| r.extra_us.is_some());
        let extra = self.slower.first().filter(|_| known)?.extra_us?;
        Some(extra.estimate)
    }

    /// How long each of those not seen was waited for at least, microseconds.
    pub fn within(&self) -> Option<f64> {
        self.unseen.first()?.op_us
    }

    /// All its rows.
    pub fn rows(&self) -> Vec<&'a ResultRow> {
        [&self.slower[..], &self.probably, &self.unseen].concat()
    }
}
