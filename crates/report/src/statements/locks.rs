//! Locks that exclude nobody on the other side of a layer's directory.

use layermark_model::Target;

use crate::{
    statements::Selection,
    types::{LockVerdict, ResultRow},
};

/// Kinds of lock of a layer that the other side took while they were held.
#[derive(Debug)]
pub struct OpenLocks<'a> {
    /// The layer.
    pub layer: &'a str,
    /// The kinds, such as `flock`.
    pub kinds: Vec<&'a str>,
    /// The results behind it.
    pub rows: Vec<&'a ResultRow>,
}

impl<'a> OpenLocks<'a> {
    /// Of a layer, if it has any.
    pub fn of(f: &Selection<'a>, layer: &'a str) -> Option<Self> {
        let is_open = |v: LockVerdict| v == LockVerdict::DoesNotExclude;
        let open = f
            .locks
            .iter()
            .filter(|r| r.layer == layer && is_open(r.verdict));
        let open: Vec<_> = open.collect();
        let behind = |row: &&ResultRow| open.iter().any(|lock| lock.evidence.contains(&row.id));
        (!open.is_empty()).then(|| Self {
            layer,
            kinds: open.iter().map(|lock| lock.kind.as_str()).collect(),
            rows: f.results.iter().filter(behind).collect(),
        })
    }
}

/// Whether a result is a lock that was held on one side while the other one took it.
pub fn is_open(row: &ResultRow) -> bool {
    row.meaning.target == Target::SharedLock && row.not_seen()
}
