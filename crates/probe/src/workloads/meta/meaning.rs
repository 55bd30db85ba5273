//! The meaning of a point of `meta`.

use layermark_model::{CacheState, Direction, Divided, Meaning, PointError, Target, TurnCost};

use super::params::{Cache, MetaOp, MetaParams, MetaSync};
use crate::param::{Means, Params};

/// Approximate memory that the kernel needs for a file in addition to its data: inode, directory
/// entry. Bytes.
const INODE: u64 = 1024;

impl Means for MetaParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let p = self;
        let (target, direction) = match p.op {
            MetaOp::SmallRead => (Target::Data, Direction::Reads),
            MetaOp::SmallWrite => (Target::Data, Direction::Writes),
            op if op.first() => (Target::PackagedFile, Direction::Neither),
            _ => (Target::Names, Direction::Neither),
        };
        let cache = match p.cache {
            Cache::Warm => CacheState::Warm,
            Cache::Cold => CacheState::Cold,
        };
        let said = Meaning {
            operation: p.op.id().into(),
            target,
            direction,
            changes: p.op.writes(),
            flushes: p.sync == MetaSync::Fsync,
            sync: p.op.syncs().then(|| p.sync.id().to_owned()),
            // Files that are made or removed are not looked up before.
            cache: (!p.op.writes()).then_some(cache),
            rested_ms: (!p.rest().is_zero()).then(|| p.rest().as_millis() as u64),
            // What has rested is used once: in turns, layers would use different numbers of files.
            divided: (p.passes == 0 && p.rest().is_zero()).then(|| Divided {
                in_memory: p.cache == Cache::Warm && !p.op.writes(),
                uses_up: p.once(),
                working_set: p
                    .files
                    .saturating_mul(p.op.moves(p.file_size).saturating_add(INODE)),
                // Of files that exist.
                cost: if p.op.writes() && !p.op.first() {
                    TurnCost::Files
                } else {
                    TurnCost::Nothing
                },
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(p.described(said))
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::{Settings, WorkGroup};
    use serde_json::json;

    use crate::{Workload, workloads::meta::WORKLOAD};

    #[test]
    fn each_operation_says_what_it_is() {
        let settings = Settings {
            workload: "meta".into(),
            label: None,
            params: serde_json::from_value(json!({"sync": "none,fsync"})).unwrap(),
        };
        let points = WORKLOAD.points(&settings, 1.0).unwrap();
        let found: Vec<_> = points
            .iter()
            .map(|p| (p.meaning.describe(&[]), p.meaning.group()))
            .collect();
        let expected = [
            ("open-stat, 16K file, warm", WorkGroup::Names),
            ("small-read, 16K file, warm", WorkGroup::Reading),
            ("small-write, 16K file", WorkGroup::Writing),
            ("small-write, 16K file, fsync", WorkGroup::Flushing),
            ("create", WorkGroup::Names),
            ("create, fsync", WorkGroup::Names),
            ("unlink, 16K file", WorkGroup::Names),
        ];
        assert_eq!(
            found,
            expected.map(|(text, group)| (text.to_owned(), group))
        );
        // Its trials counted as proof that warm was warm.
        let asks = points.iter().filter(|p| p.meaning.cache.is_some()).count();
        assert_eq!(asks, 2, "only what is looked at can be warm");
    }
}
