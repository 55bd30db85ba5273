//! The meaning of a point of `iops`.

use layermark_model::{
    Direction, Divided, Meaning, PointError, Quantity, TurnCost, format_size, mix_name,
};

use super::params::{IopsParams, read_spec};
use crate::param::Means;

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
        Ok(said
            .axis(Quantity::RequestSize, "size", p.size)
            .axis(Quantity::DataSize, "file_size", p.file_size)
            .axis(Quantity::Threads, "workers", p.workers)
            .axis(Quantity::QueueDepth, "iodepth", p.iodepth)
            .axis(Quantity::OfferedRate, "rate", p.rate)
            .part("spec", p.spec.as_str())
            .part("file_size", format!("{} file", format_size(p.file_size)))
            .part("engine", p.engine.as_str())
            .part_if(p.workers > 1, "workers", format!("{} workers", p.workers))
            .part_if(p.iodepth > 1, "iodepth", format!("iodepth {}", p.iodepth))
            .part_if(p.rate > 0, "rate", format!("{} a second", p.rate))
            .part_if(p.direct, "direct", "O_DIRECT"))
    }
}
