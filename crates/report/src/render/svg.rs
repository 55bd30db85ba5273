//! Every chart as a vector drawing. Several charts have a file each.

use std::io::Write;

use super::{Files, PartNames, Renderer};
use crate::page::{
    Document,
    charts::{self, Chart},
};

/// See the module.
pub struct Svg;

impl Renderer for Svg {
    fn id(&self) -> &'static str {
        "svg"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["svg", "charts.svg"]
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        each(document, out, |chart, out| {
            let svg = charts::alone(chart);
            let (xml, svg) = svg.split_once('\n').unwrap_or(("", &svg));
            Ok(writeln!(
                out,
                "{xml}\n<!-- {} -->\n{}",
                document.generated_by,
                svg.trim_end()
            )?)
        })
    }
}

/// Writes each chart to its file; a single chart goes to the named file.
pub(super) fn each(
    document: &Document,
    out: &mut dyn Files,
    write: impl Fn(&Chart, &mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let groups = document.charts();
    let charts: Vec<&Chart> = groups.iter().flat_map(|g| &g.charts).collect();
    let mut parts = PartNames::default();
    match charts.as_slice() {
        [] => write(&charts::nothing(), out.open("")?),
        [one] => write(one, out.open("")?),
        several => several.iter().try_for_each(|chart| {
            let part = parts.next(&format!("{}-{}", chart.svg.kind(), chart.title));
            write(chart, out.open(&part)?)
        }),
    }
}
