//! One line a launch, as the 2014 study of application streaming wrote them:
//! `time,elapsed ms,window,program`.

use super::{Exporter, Files};
use crate::Report;

/// See the module.
pub struct Launches;

impl Exporter for Launches {
    fn id(&self) -> &'static str {
        "launches"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["launches.csv"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        let mut lines = ::csv::Writer::from_writer(&mut *out);
        lines.write_record([
            "time",
            "elapsed ms",
            "window",
            "program",
            "layer",
            "run",
            "state",
        ])?;
        let mut all: Vec<_> = report
            .series
            .iter()
            .flat_map(|s| s.runs.iter().map(move |r| (s, r)))
            .collect();
        all.sort_by_key(|(_, r)| r.seq);
        for (series, run) in all {
            lines.write_record([
                &run.time,
                &format!("{:.3}", run.elapsed_ms),
                run.window.as_deref().unwrap_or_default(),
                &run.program,
                &series.layer,
                &run.run.to_string(),
                &run.state,
            ])?;
        }
        lines.flush()?;
        Ok(())
    }
}
