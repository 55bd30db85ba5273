//! Locks that exclude nobody on the other side of a layer's directory, and those that are not proved.

use crate::{
    statements::Selection,
    types::{LockRow, LockVerdict, ResultRow},
};

/// Kinds of lock that do not exclude the other side, in a layer.
#[derive(Debug)]
pub struct OpenLocks<'a> {
    /// The layer.
    pub layer: &'a str,
    /// The kinds.
    pub kinds: Vec<&'a LockRow>,
    /// The results behind them.
    pub rows: Vec<&'a ResultRow>,
}

impl<'a> OpenLocks<'a> {
    /// Of a layer, if it has any.
    pub fn of(f: &Selection<'a>, layer: &'a str) -> Option<Self> {
        let of_layer = |r: &&LockRow| r.layer == layer && r.verdict == LockVerdict::DoesNotExclude;
        let kinds: Vec<&LockRow> = f.locks.iter().filter(of_layer).collect();
        let ids = kinds.iter().flat_map(|r| &r.evidence);
        let rows = ids.filter_map(|id| f.results.iter().find(|r| r.id == *id));
        let rows = rows.collect();
        (!kinds.is_empty()).then_some(Self { layer, kinds, rows })
    }
}

/// Layers whose locks are not proved, for one reason.
#[derive(Debug)]
pub struct UnprovedLocks<'a> {
    /// The layers.
    pub layers: Vec<&'a str>,
    /// The reason.
    pub why: &'a str,
}

/// The layers whose locks are not proved, by reason.
pub fn unproved(rows: &[LockRow]) -> Vec<UnprovedLocks<'_>> {
    let mut whys: Vec<UnprovedLocks> = Vec::new();
    for row in rows.iter().filter(|r| r.verdict == LockVerdict::NotProved) {
        let layer = row.layer.as_str();
        match whys.iter_mut().find(|known| known.why == row.because) {
            Some(known) if known.layers.contains(&layer) => {}
            Some(known) => known.layers.push(layer),
            None => whys.push(UnprovedLocks {
                layers: vec![layer],
                why: &row.because,
            }),
        }
    }
    whys
}
