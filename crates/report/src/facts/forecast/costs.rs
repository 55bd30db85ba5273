//! What the system calls of each kind cost in a layer.

use std::collections::BTreeSet;

use layermark_model::{Meaning, Quantity, Run, Target, Unit};

use crate::types::ResultRow;

/// The result whose difference from native is the cost of a call.
pub struct Source {
    /// Operations on whole files and names are counted, and reads and writes of open files by their bytes.
    unit: Unit,
    operation: &'static str,
    flushes: bool,
    /// An operation that it contains, and whose cost is not a part of the call's.
    without: Option<&'static str>,
}

const fn whole(operation: &'static str) -> Source {
    Source {
        unit: Unit::Operation,
        operation,
        flushes: false,
        without: None,
    }
}

const fn bytes(operation: &'static str) -> Source {
    Source {
        unit: Unit::Byte,
        ..whole(operation)
    }
}

/// A kind of call, and the sources of its cost.
pub struct Kind {
    pub id: &'static str,
    /// Several: of different sizes.
    sources: &'static [Source],
}

pub const KINDS: [Kind; 9] = [
    Kind {
        id: "stat",
        sources: &[whole("stat")],
    },
    Kind {
        id: "open",
        sources: &[whole("open-stat")],
    },
    Kind {
        id: "list",
        sources: &[whole("list")],
    },
    Kind {
        id: "create",
        sources: &[whole("create")],
    },
    Kind {
        id: "unlink",
        sources: &[whole("unlink")],
    },
    Kind {
        id: "set-attr",
        sources: &[whole("set-attr")],
    },
    Kind {
        id: "read",
        sources: &[
            Source {
                without: Some("open-stat"),
                ..whole("small-read")
            },
            bytes("read"),
        ],
    },
    Kind {
        id: "write",
        sources: &[
            Source {
                without: Some("create"),
                ..whole("small-write")
            },
            bytes("write"),
        ],
    },
    Kind {
        id: "flush",
        sources: &[Source {
            flushes: true,
            without: Some("small-write"),
            ..whole("small-write")
        }],
    },
];

/// The cost of a call with this many bytes.
#[derive(Clone)]
pub struct Anchor {
    bytes: f64,
    us: f64,
    pub rested_ms: Option<u64>,
    pub evidence: Vec<String>,
}

/// What each call of a kind takes longer in a layer than natively, by size, where nothing has used its files for
/// `every_s`. Of costs after several rests, those after the longest that is no longer than that, else the shortest.
pub fn anchors(results: &[ResultRow], layer: &str, kind: &Kind, every_s: f64) -> Vec<Anchor> {
    let rest = |r: &ResultRow| r.meaning.rested_ms.unwrap_or(0);
    let found = |unit: Unit, operation: &'static str, flushes: bool| {
        let mut rows = results.iter().collect::<Vec<_>>();
        rows.retain(|r| {
            let m = &r.meaning;
            r.layer == layer
                && m.unit == unit
                && m.operation == operation
                && m.flushes == flushes
                && r.is_told()
                && is_plain(m)
        });
        let rests = || rows.iter().map(|r| rest(r));
        let within = rests().filter(|ms| *ms as f64 <= every_s * 1e3).max();
        let chosen = within.or(rests().min());
        rows.retain(|r| Some(rest(r)) == chosen);
        rows
    };
    let of = |source: &Source, row: &ResultRow| {
        let (mut us, mut natively) = extra(row)?;
        let mut evidence = vec![row.id.clone()];
        if let Some(part) = source.without {
            let part = *found(source.unit, part, false).first()?;
            let (more, native) = extra(part)?;
            (us, natively) = (us - more, natively - native);
            evidence.push(part.id.clone());
        }
        let bytes = row.meaning.value(Quantity::RequestSize).unwrap_or(0) as f64;
        Some(Anchor {
            bytes,
            // No call takes less than no time.
            us: us.max(-natively.max(0.0)),
            rested_ms: row.meaning.rested_ms,
            evidence,
        })
    };
    let mut all = Vec::new();
    for source in kind.sources {
        let rows = found(source.unit, source.operation, source.flushes);
        all.extend(rows.into_iter().filter_map(|row| of(source, row)));
    }
    // Of several of one size, the first of the plan.
    all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    all.dedup_by(|later, first| later.bytes.total_cmp(&first.bytes).is_eq());
    all
}

/// Whether it may be the cost of a call: on files that nobody else uses, one at a time, through the page cache, which is
/// warm.
fn is_plain(m: &Meaning) -> bool {
    let own_files = matches!(m.target, Target::Names | Target::Data);
    own_files && !m.is_cold() && !m.is_direct() && m.concurrency <= 1
}

/// Microseconds more than natively, and native ones.
fn extra(row: &ResultRow) -> Option<(f64, f64)> {
    Some((row.extra_us?.estimate, row.native_us?))
}

/// The cost at a size: between two known ones on a line, and beyond the largest in proportion.
pub fn at(anchors: &[Anchor], bytes: f64) -> Option<f64> {
    let (first, last) = (anchors.first()?, anchors.last()?);
    if bytes <= first.bytes || last.bytes == 0.0 {
        return Some(first.us);
    }
    if bytes >= last.bytes {
        return Some(last.us * bytes / last.bytes);
    }
    let pair = anchors.windows(2).find(|pair| bytes <= pair[1].bytes)?;
    let share = (bytes - pair[0].bytes) / (pair[1].bytes - pair[0].bytes);
    Some(pair[0].us + share * (pair[1].us - pair[0].us))
}

/// Whether the run has a point with the cost of this kind.
pub fn is_measured(run: &Run, kind: &Kind) -> bool {
    kind.sources.iter().any(|source| {
        let has = |operation: &str, flushes: bool| {
            run.points.iter().any(|p| {
                p.meaning.unit == source.unit
                    && p.meaning.operation == operation
                    && p.meaning.flushes == flushes
                    && is_plain(&p.meaning)
            })
        };
        has(source.operation, source.flushes) && source.without.is_none_or(|op| has(op, false))
    })
}

/// The operations that a plan lacks, without and with a flush. `None` if it has all.
pub fn lacking(missing: &[&Kind]) -> Option<[Vec<&'static str>; 2]> {
    let (mut plain, mut flushed) = (BTreeSet::new(), BTreeSet::new());
    for source in missing.iter().map(|kind| &kind.sources[0]) {
        let to = if source.flushes {
            &mut flushed
        } else {
            &mut plain
        };
        to.insert(source.operation);
        plain.extend(source.without);
    }
    (!missing.is_empty()).then(|| [plain, flushed].map(Vec::from_iter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{types::Estimate, words::forecast::instead};

    #[test]
    fn every_kind_of_call_has_its_advice() {
        for kind in &KINDS {
            assert!(!instead(kind.id).is_empty(), "{}", kind.id);
        }
    }

    #[test]
    fn a_cost_lies_between_those_of_known_sizes() {
        let anchor = |bytes, us| Anchor {
            bytes,
            us,
            rested_ms: None,
            evidence: Vec::new(),
        };
        let two = [anchor(4096.0, 10.0), anchor(131_072.0, 100.0)];
        assert_eq!(at(&two, 100.0), Some(10.0));
        assert_eq!(at(&two, 4096.0), Some(10.0));
        let middle = at(&two, f64::midpoint(4096.0, 131_072.0)).unwrap();
        assert!((middle - 55.0).abs() < 1e-9);
        assert_eq!(at(&two, 262_144.0), Some(200.0));
        assert_eq!(at(&[anchor(0.0, 7.0)], 0.0), Some(7.0));
        assert_eq!(at(&[], 1.0), None);
    }

    #[test]
    fn a_cost_is_of_files_that_have_rested_as_long_as_those_of_the_step() {
        let row = |rested_ms: Option<u64>, us: f64| ResultRow {
            layer: "sshfs".into(),
            meaning: Meaning {
                operation: "stat".into(),
                rested_ms,
                ..Meaning::default()
            },
            trials: 8,
            extra_us: Some(Estimate {
                estimate: us,
                interval: None,
                average: None,
            }),
            native_us: Some(1.0),
            ..ResultRow::default()
        };
        let stat = KINDS.iter().find(|kind| kind.id == "stat").unwrap();
        let cost = |results: &[ResultRow], every_s: f64| {
            let found = anchors(results, "sshfs", stat, every_s);
            assert_eq!(found.len(), 1);
            (found[0].us, found[0].rested_ms)
        };
        let all = [
            row(None, 1.0),
            row(Some(1_200), 40.0),
            row(Some(21_000), 400.0),
        ];
        assert_eq!(cost(&all, 0.1), (1.0, None));
        assert_eq!(cost(&all, 3.0), (40.0, Some(1_200)));
        assert_eq!(cost(&all, 75.0), (400.0, Some(21_000)));
        // Better one that does not fit than none.
        assert_eq!(cost(&all[1..], 0.1), (40.0, Some(1_200)));
    }
}
