//! `iops`: I/Os per second by Iometer's access specifications, over queue depths, workers and
//! rates.

use std::{path::Path, time::Duration};

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{
    Context, Needs, PackagedFile, ProbeError, Work, Workload,
    param::{self, read},
};

mod draw;
mod engine;
mod meaning;
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

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<IopsParams>(at)
    }

    /// A point that only reads needs no file of its own: it shares those of `file`.
    fn needs(&self, at: &Point) -> Result<Needs, PointError> {
        let p = read::<IopsParams>(at)?;
        let spec = params::read_spec(&p.spec)?;
        let mut needs = Needs::default();
        if !p.divides(&spec) {
            needs.lasts = Duration::from_millis(p.ramp.saturating_add(p.stretch()));
        }
        if spec.writes() {
            needs.space = p.file_size;
        } else {
            let file = PackagedFile::random(packaged_name(&p), p.file_size);
            needs.packaged.push(file);
        }
        Ok(needs)
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
