//! The meaning of a point of `iops`.

use layermark_model::{Direction, Divided, Meaning, PointError, TurnCost, mix_name};

use super::params::{IopsParams, read_spec};
use crate::param::{Means, Params};

impl Means for IopsParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let p = self;
        let spec = read_spec(&p.spec)?;
        let paced = p.rate > 0 || p.delay > 0;
        let said = Meaning {
            // The names that other programs use.
            operation: mix_name(p.read as f64, p.random as f64),
            direction: match (spec.reads(), spec.writes()) {
                (true, true) => Direction::Both,
                (true, false) => Direction::Reads,
                _ => Direction::Writes,
            },
            changes: spec.writes(),
            in_order: p.random == 0,
            concurrency: if paced {
                1
            } else {
                p.workers.saturating_mul(p.iodepth)
            },
            paced,
            direct: Some(p.direct),
            engine: Some(p.engine.clone()),
            divided: p.divides(&spec).then_some(Divided {
                in_memory: !p.direct,
                uses_up: false,
                working_set: p.file_size,
                cost: TurnCost::Threads,
                // I/Os in flight at the end are counted in proportion.
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(p.described(said))
    }
}
