//! `iops`: I/Os per second by Iometer's access specifications, over queue depths, workers and
//! rates.

use std::{path::Path, time::Duration};

use layermark_model::{Needs, PackagedFile, PointError};

use crate::{
    Context, ProbeError, Work,
    param::{self, Of, Runs},
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
pub static WORKLOAD: Of<IopsParams> = param::of();

impl Runs for IopsParams {
    const ABOUT: &'static str =
        "I/Os a second and their response time, by access specification, queue depth and rate";
    const EXAMPLES: [&'static str; 2] = [
        "layermark iops --spec 4k-rand-read --iodepth 1,16 --direct -l loop:ext4",
        "layermark iops --spec 4k-rand-read --file-size 64M -l fuse",
    ];

    /// A point that only reads needs no file of its own: it shares those of `file`.
    fn needs(&self) -> Result<Needs, PointError> {
        let p = self;
        let spec = params::read_spec(&p.spec)?;
        let mut needs = Needs::default();
        if !p.divides(&spec) {
            needs.lasts = Duration::from_millis(p.ramp.saturating_add(p.stretch()));
        }
        if spec.writes() {
            needs.space = p.file_size;
        } else {
            let file = PackagedFile::random(packaged_name(p), p.file_size);
            needs.packaged.push(file);
        }
        Ok(needs)
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        Ok(Box::new(prepare::prepare(dir, self, context)?))
    }
}

fn packaged_name(p: &IopsParams) -> String {
    format!("data-{}-0", p.file_size)
}
