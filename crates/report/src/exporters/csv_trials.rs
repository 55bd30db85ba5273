//! One line for each trial in the order of the run: for an analysis of one's own.

use super::{Exporter, Files, csv::field, own::has_columns};
use crate::{Report, exporters::columns::TRIALS};

/// See the module.
pub struct CsvTrials;

impl Exporter for CsvTrials {
    fn id(&self) -> &'static str {
        "csv_trials"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["trials.csv"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        has_columns(head, TRIALS.iter().map(|c| c.0))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(out.open("")?);
        writer.write_record(TRIALS.iter().map(|(name, ..)| *name))?;
        for trial in &report.trials {
            writer.write_record(TRIALS.iter().map(|(.., cell)| field(cell(trial))))?;
        }
        writer.flush()?;
        Ok(())
    }
}
