//! `iops`: I/Os a second by Iometer's access specifications, over queue depths, workers and rates.

use std::path::Path;

use layermark_model::{Param, Point, PointError, Settings};

use crate::{Context, Divided, PackagedFile, ProbeError, TurnCost, Work, Workload};

mod draw;
mod pace;
mod params;
mod prepare;
mod spec;
mod ways;
mod work;
mod worker;

use params::IopsParams;

/// The workload `iops`.
pub struct Iops;

impl Workload for Iops {
    fn id(&self) -> &'static str {
        "iops"
    }

    fn about(&self) -> &'static str {
        "I/Os a second and their response time, by access specification, queue depth and rate"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        params::points(settings, scale)
    }

    /// What only reads needs no file of its own: it shares those of `file`.
    fn packaged(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read(at)?;
        if params::read_spec(&p.spec)?.writes() {
            return Ok(Vec::new());
        }
        Ok(vec![PackagedFile {
            path: packaged_name(&p),
            size: p.file_size,
        }])
    }

    fn writes(&self, at: &Point) -> bool {
        read(at).is_ok_and(|p| params::read_spec(&p.spec).is_ok_and(|s| s.writes()))
    }

    fn divided(&self, at: &Point) -> Option<Divided> {
        let p = read(at).ok()?;
        let spec = params::read_spec(&p.spec).ok()?;
        p.divides(&spec).then_some(Divided {
            in_memory: !p.direct,
            uses_up: false,
            working_set: p.file_size,
            cost: TurnCost::Threads,
            // What it moved is told in proportion.
            under_way: 0,
        })
    }

    fn needs_refresh(&self, _: &Point) -> bool {
        false
    }

    fn space(&self, at: &Point) -> u64 {
        if self.writes(at) {
            at.number("file_size")
        } else {
            0
        }
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        Ok(Box::new(prepare::prepare(dir, read(at)?, context)?))
    }
}

/// The point's parameters, checked: in the probe they come from another process.
fn read(at: &Point) -> Result<IopsParams, PointError> {
    let p: IopsParams = at.typed()?;
    params::check(&p)?;
    Ok(p)
}

fn packaged_name(p: &IopsParams) -> String {
    format!("data-{}-0", p.file_size)
}
