//! Two results of other programs, next to each other: no verdict, as they took no turns.

use std::collections::HashMap;

use layermark_model::{Import, ImportedPoint};

use super::external::describe;
use crate::{
    plain,
    statements::external::ImportDifference,
    types::{ImportComparison, ImportPair, ImportSide},
    words::{NO_NAMES, Words},
};

/// Name and version of the JSON.
const SCHEMA: &str = "layermark.imports/1";

impl ImportComparison {
    /// Pairs the points of two imports.
    pub fn of(old: &Import, new: &Import) -> Self {
        let (old, new) = (&plain::texts(old.clone()), &plain::texts(new.clone()));
        // Of several that do the same first the one that has the same name. By keys, because a file may
        // have a hundred thousand.
        let mut named: HashMap<(Key, &str), Vec<usize>> = HashMap::new();
        let mut alike: HashMap<Key, Vec<usize>> = HashMap::new();
        for (at, point) in old.points.iter().enumerate().rev() {
            let of_name = (key(point), point.name.as_str());
            named.entry(of_name).or_default().push(at);
            alike.entry(key(point)).or_default().push(at);
        }
        let mut pairs: Vec<Option<usize>> = vec![None; new.points.len()];
        let mut used = vec![false; old.points.len()];
        for by_name in [true, false] {
            for (point, place) in new.points.iter().zip(&mut pairs) {
                let bucket = match (*place, by_name) {
                    (Some(_), _) => continue,
                    (None, true) => named.get_mut(&(key(point), point.name.as_str())),
                    (None, false) if is_known(point) => alike.get_mut(&key(point)),
                    (None, false) => None,
                };
                let Some(bucket) = bucket else { continue };
                while bucket.last().is_some_and(|at| used[*at]) {
                    bucket.pop();
                }
                let fits = |at: &usize| !used[*at] && same_size(&old.points[*at], point);
                if let Some(at) = bucket.iter().rposition(fits).map(|n| bucket.remove(n)) {
                    used[at] = true;
                    *place = Some(at);
                }
            }
        }
        let (mut rows, mut only_new) = (Vec::new(), Vec::new());
        for (point, place) in new.points.iter().zip(pairs) {
            match place.map(|at| (at, pair(&old.points[at], point))) {
                Some((_, Some(row))) => rows.push(row),
                // They have no number of the same kind.
                Some((at, None)) => {
                    used[at] = false;
                    only_new.push(describe(point));
                }
                None => only_new.push(describe(point)),
            }
        }
        let left = old.points.iter().zip(used).filter(|(_, used)| !used);
        Self {
            schema: SCHEMA.into(),
            old: side(old),
            new: side(new),
            rows,
            only_old: left.map(|(point, _)| describe(point)).collect(),
            only_new,
        }
    }
}

/// What two points have to have in common: operation, record size, queue depth, threads, simultaneous
/// jobs.
type Key<'a> = (Option<&'a str>, Option<u64>, u64, u64, Option<u64>);

fn key(point: &ImportedPoint) -> Key<'_> {
    (
        point.op.as_deref(),
        point.record,
        point.queue_depth.unwrap_or(1),
        point.threads.unwrap_or(1),
        point.one_of,
    )
}

/// Whether what it does is known, so that its name does not matter.
fn is_known(point: &ImportedPoint) -> bool {
    point.op.is_some() && point.record.is_some()
}

/// A size that is not told fits any.
fn same_size(old: &ImportedPoint, new: &ImportedPoint) -> bool {
    let sizes = old.file_size.zip(new.file_size);
    sizes.is_none_or(|(old, new)| old == new)
}

fn side(import: &Import) -> ImportSide {
    ImportSide {
        import: import.id.clone(),
        tool: import.tool.clone(),
        file: import.file.clone(),
        measured: import.measured.clone(),
        notes: import.notes.clone(),
    }
}

/// `None` if they have no number of the same kind.
fn pair(old: &ImportedPoint, new: &ImportedPoint) -> Option<ImportPair> {
    // The rate of one of several jobs is only its own.
    let whole = old.one_of.is_none();
    let rates = [
        ("B/s", old.bytes_per_s.zip(new.bytes_per_s)),
        ("ops/s", old.ops_per_s.zip(new.ops_per_s)),
    ];
    let mut rates = rates.into_iter().filter(|_| whole);
    let rate = rates.find_map(|(unit, both)| Some((unit, both?)));
    let (unit, (from, to), ratio) = if let Some((unit, (from, to))) = rate {
        (unit, (from, to), from / to)
    } else {
        let (from, to) = old.op_us.zip(new.op_us)?;
        ("us", (from, to), to / from)
    };
    ratio.is_finite().then(|| ImportPair {
        point: describe(new),
        old_name: old.name.clone(),
        unit: unit.into(),
        old: from,
        new: to,
        ratio,
        differences: differences(old, new),
    })
}

fn differences(old: &ImportedPoint, new: &ImportedPoint) -> Vec<String> {
    let switch = |on: Option<bool>| match on {
        Some(true) => Some("on"),
        Some(false) => Some("off"),
        None => None,
    };
    let size = |of: &ImportedPoint| of.file_size.map(layermark_model::format_size);
    let (old_size, new_size) = (size(old), size(new));
    let all = [
        ("O_DIRECT", switch(old.direct), switch(new.direct)),
        ("flush", old.sync.as_deref(), new.sync.as_deref()),
        ("engine", old.engine.as_deref(), new.engine.as_deref()),
        ("file size", old_size.as_deref(), new_size.as_deref()),
    ];
    let differ = all.into_iter().filter(|(_, old, new)| old != new);
    let differ = differ.map(|(what, old, new)| ImportDifference { what, old, new });
    differ.map(|d| d.words(&NO_NAMES).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(tool: &str, points: Vec<ImportedPoint>) -> Import {
        Import {
            id: tool.into(),
            imported_ms: 0,
            file: "x".into(),
            format: "fio".into(),
            tool: tool.into(),
            measured: None,
            notes: Vec::new(),
            points,
        }
    }

    fn point(name: &str, ops: f64) -> ImportedPoint {
        ImportedPoint {
            name: name.into(),
            op: Some("rand-read".into()),
            record: Some(4096),
            ops_per_s: Some(ops),
            sync: Some("none".into()),
            ..ImportedPoint::default()
        }
    }

    #[test]
    fn points_are_paired_by_what_they_do_and_the_ratio_is_of_time() {
        let old = import("fio", vec![point("a", 1000.0), point("b", 100.0)]);
        let mut faster = point("b", 200.0);
        faster.sync = None;
        let other = ImportedPoint {
            record: Some(8192),
            ..point("c", 1.0)
        };
        let found = ImportComparison::of(&old, &import("diskspd", vec![faster, other]));
        let [row] = &found.rows[..] else {
            panic!("{found:?}")
        };
        // Of two that do the same, the one with the same name.
        assert_eq!((row.old_name.as_str(), row.ratio), ("b", 0.5));
        assert_eq!(row.differences, ["flush: older none, newer not told"]);
        assert_eq!(found.only_old, ["a, rand-read, 4K records"]);
        assert_eq!(found.only_new, ["c, rand-read, 8K records"]);
    }

    #[test]
    fn without_a_record_size_only_the_same_name_is_the_same_work() {
        let transactions = |name: &str| ImportedPoint {
            op: Some("transaction".into()),
            record: None,
            op_us: Some(10.0),
            ops_per_s: None,
            ..point(name, 0.0)
        };
        let old = import("pgbench 14", vec![transactions("TPC-B, scale 1")]);
        let same = import("pgbench 15", vec![transactions("TPC-B, scale 1")]);
        let found = ImportComparison::of(&old, &same);
        assert_eq!(
            (found.rows[0].unit.as_str(), found.rows[0].ratio),
            ("us", 1.0)
        );
        let other = import("pgbench 15", vec![transactions("TPC-B, scale 10")]);
        assert!(ImportComparison::of(&old, &other).rows.is_empty());
    }

    #[test]
    fn the_rate_of_one_of_several_jobs_is_not_compared() {
        let one = |ops, us| ImportedPoint {
            one_of: Some(4),
            op_us: Some(us),
            ..point("a", ops)
        };
        let old = import("fio", vec![one(10.0, 100.0)]);
        let found = ImportComparison::of(&old, &import("fio", vec![one(99.0, 300.0)]));
        assert_eq!(
            (found.rows[0].unit.as_str(), found.rows[0].ratio),
            ("us", 3.0)
        );
    }
}
