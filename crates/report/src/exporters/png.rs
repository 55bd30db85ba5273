//! Every chart as a picture. Several charts have a file each.

use super::{Exporter, Files, svg};
use crate::{Report, charts};

/// See the module.
pub struct Png;

impl Exporter for Png {
    fn id(&self) -> &'static str {
        "png"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["png"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        svg::each(report, out, |chart, out| {
            Ok(out.write_all(&charts::png(chart)?)?)
        })
    }
}
