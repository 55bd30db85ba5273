//! The meaning of a point of `file`.

use layermark_model::{CacheState, Divided, Meaning, PointError, Target, TurnCost, Unit};

use super::params::{Cache, FileParams, Op};
use crate::param::{Means, Params};

impl Means for FileParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let p = self;
        let cache = match p.cache {
            Cache::Warm => CacheState::Warm,
            Cache::Cold => CacheState::Cold,
        };
        let said = Meaning {
            operation: p.op.id().into(),
            target: match p.op {
                Op::FirstWrite => Target::PackagedFile,
                _ => Target::Data,
            },
            direction: p.op.direction(),
            changes: p.op.writes() && p.touches(),
            in_order: matches!(p.op, Op::Read | Op::Reread),
            unit: match p.op {
                Op::FirstWrite => Unit::Operation,
                _ => Unit::Byte,
            },
            concurrency: p.threads.saturating_mul(p.iodepth),
            flushes: !p.sync.leaves_debt(),
            sync: p.op.writes().then(|| p.sync.id().to_owned()),
            cache: (!p.op.makes()).then_some(cache),
            direct: Some(p.direct),
            engine: Some(p.engine.clone()),
            divided: divided(p),
            // How it was written back afterwards.
            beside_the_clock: vec!["no_debt".into()],
            ..Meaning::default()
        };
        Ok(p.described(said))
    }
}

/// How a point is divided into turns. Copy-ups, and a fixed number of passes or a fixed time, are
/// one stretch each. So are ordered reads of a cold file, because data read ahead while other
/// layers have their turns would cost nothing. With several files, each file is a turn.
fn divided(p: &FileParams) -> Option<Divided> {
    if p.files > 1 {
        return Some(Divided {
            in_memory: false,
            uses_up: true,
            working_set: p.file_size.saturating_mul(p.files),
            cost: TurnCost::Nothing,
            under_way: 0,
        });
    }
    let fixed = p.passes > 0 || p.min_ms > 0 || p.op == Op::FirstWrite;
    let fixed = fixed || (p.once() && !matches!(p.op, Op::RandRead | Op::RandWrite));
    (!fixed).then(|| Divided {
        in_memory: p.cache == Cache::Warm && !p.direct && (!p.op.writes() || p.sync.leaves_debt()),
        uses_up: p.once(),
        working_set: p.file_size.saturating_mul(p.threads),
        cost: TurnCost::of_threads(p.threads),
        under_way: if p.iodepth > 1 {
            let each = p.iodepth.saturating_mul(p.unit());
            each.saturating_mul(p.threads).saturating_mul(2)
        } else {
            0
        },
    })
}

#[cfg(test)]
mod tests {
    use layermark_model::{Point, Quantity, Settings, WorkGroup};
    use serde_json::{Value, json};

    use super::*;
    use crate::{Workload, workloads::file::WORKLOAD};

    fn point(params: Value) -> Point {
        let settings = Settings {
            workload: "file".into(),
            label: None,
            params: serde_json::from_value(params).unwrap(),
        };
        WORKLOAD.points(&settings, 1.0).unwrap().remove(0)
    }

    #[test]
    fn groups_are_told_apart() {
        let cases = [
            (json!({"op": "rand-read"}), WorkGroup::Reading),
            (json!({"op": "write", "sync": "close"}), WorkGroup::Writing),
            (
                json!({"op": "rand-write", "sync": "each"}),
                WorkGroup::Flushing,
            ),
            (json!({"op": "first-write"}), WorkGroup::Changing),
            (json!({"op": "append"}), WorkGroup::Writing),
            (json!({"op": "seek-read"}), WorkGroup::Reading),
        ];
        for (params, expected) in cases {
            let at = point(params.clone());
            assert_eq!(at.meaning.group(), expected, "{params}");
        }
    }

    /// It used to count as writing, and the bytes that its device wrote were divided by all bytes.
    #[test]
    fn a_mix_goes_both_ways() {
        let mix = point(json!({"op": "mix", "threads": 2, "sync": "fsync"}));
        assert_eq!(mix.meaning.direction, layermark_model::Direction::Both);
        assert_eq!(mix.meaning.group(), WorkGroup::Mixed);
        assert!(mix.meaning.flushes && mix.meaning.changes);
    }

    #[test]
    fn the_description_has_what_matters() {
        for (params, expected) in [
            (
                json!({"op": "read", "file_size": "16M", "direct": true}),
                "read, 16M file, 4K records, warm, pread, O_DIRECT",
            ),
            (
                json!({"op": "seek-read", "engine": "preadv", "vectors": 4, "cache": "cold"}),
                "seek-read, 64M file, 4K records, cold, preadv, distance 64K, 4 records a call",
            ),
            (
                json!({"op": "rand-write", "sync": "each", "threads": 3}),
                "rand-write, 64M file, 4K records, 3 threads, each, pread",
            ),
            (
                json!({"op": "mix", "threads": 2}),
                "mix, 64M file, 4K records, 2 threads, pread, 50 % of threads read",
            ),
        ] {
            assert_eq!(point(params).meaning.describe(&[]), expected);
        }
    }

    #[test]
    fn a_new_file_has_no_cache_to_ask_for() {
        let cache = |op: &str| point(json!({"op": op})).meaning.cache;
        assert_eq!((cache("write"), cache("append")), (None, None));
        for op in ["read", "reread", "rewrite", "first-write"] {
            assert_eq!(cache(op), Some(CacheState::Warm), "{op}");
        }
    }

    #[test]
    fn all_that_is_under_way_at_once_is_counted() {
        let at = point(json!({"op": "rand-read", "engine": "uring", "iodepth": 8, "threads": 4}));
        assert_eq!(at.meaning.concurrency, 32);
        assert_eq!(at.meaning.value(Quantity::QueueDepth), Some(8));
        assert_eq!(
            at.meaning.find(Quantity::RequestSize).unwrap().key,
            "record"
        );
        assert_eq!(at.meaning.value(Quantity::Distance), None);
    }
}
