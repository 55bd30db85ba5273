//! Every chart as a picture. Several charts have a file each.

use super::{Files, Renderer, svg};
use crate::page::{Document, charts};

/// See the module.
pub struct Png;

impl Renderer for Png {
    fn id(&self) -> &'static str {
        "png"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["charts.png"]
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        svg::each(document, out, |chart, out| {
            Ok(out.write_all(&charts::png(chart)?)?)
        })
    }
}
