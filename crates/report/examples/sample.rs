//! Prints the report of a made-up run: `cargo run -p layermark-report --example sample -- html`.

use std::io::{self, Write};

use layermark_report::{Report, exporters, sample};

fn main() -> anyhow::Result<()> {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "html".into());
    let (run, trials) = sample::full().build();
    let report = Report::build(&run, &trials);
    let exporter = exporters::for_path(std::path::Path::new(&format!("sample.{wanted}")))?;
    let mut out = io::stdout().lock();
    exporter.write(&report, &mut out)?;
    out.flush()?;
    Ok(())
}
