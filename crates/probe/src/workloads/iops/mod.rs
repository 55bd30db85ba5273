//! `iops`: I/Os a second by Iometer's access specifications, over queue depths, workers and rates.

use std::path::Path;

use layermark_model::{Param, Point, PointError, Settings};

use crate::{
    Context, Divided, PackagedFile, ProbeError, Work, Workload,
    param::{self, read},
};

mod draw;
mod engine;
mod pace;
mod params;
mod prepare;
mod spec;
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
        param::points::<IopsParams>(settings, scale)
    }

    /// A point that only reads needs no file of its own: it shares those of `file`.
    fn packaged(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read::<IopsParams>(at)?;
        if params::read_spec(&p.spec)?.writes() {
            return Ok(Vec::new());
        }
        Ok(vec![PackagedFile {
            path: packaged_name(&p),
            size: p.file_size,
        }])
    }

    fn writes(&self, at: &Point) -> bool {
        read::<IopsParams>(at).is_ok_and(|p| params::read_spec(&p.spec).is_ok_and(|s| s.writes()))
    }

    fn divided(&self, at: &Point) -> Option<Divided> {
        let p = read::<IopsParams>(at).ok()?;
        let spec = params::read_spec(&p.spec).ok()?;
        p.divides(&spec).then_some(Divided {
            in_memory: !p.direct,
            uses_up: false,
            working_set: p.file_size,
            starts_threads: true,
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
        Ok(Box::new(prepare::prepare(
            dir,
            read::<IopsParams>(at)?,
            context,
        )?))
    }
}

fn packaged_name(p: &IopsParams) -> String {
    format!("data-{}-0", p.file_size)
}
