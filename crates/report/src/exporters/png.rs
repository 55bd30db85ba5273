//! Every chart as a picture. Several charts have a file each.

use super::{
    Exporter, Files,
    own::{NAME, marked_png},
    svg,
};
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

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        head.contains(&format!("tEXtSoftware\0{NAME}"))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        svg::each(report, out, |chart, out| {
            let png = marked_png(&charts::png(chart)?, &report.generated_by);
            Ok(out.write_all(&png)?)
        })
    }
}
