//! One line for each trial in the order of the run: for an analysis of one's own.

use super::{
    Exporter, Files,
    csv::{number, safe},
};
use crate::{Report, TrialRow};

/// See the module.
pub struct CsvTrials;

impl Exporter for CsvTrials {
    fn id(&self) -> &'static str {
        "csv_trials"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["trials.csv"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(out.open("")?);
        writer.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
        for trial in &report.trials {
            writer.write_record(COLUMNS.iter().map(|(_, cell)| cell(trial)))?;
        }
        writer.flush()?;
        Ok(())
    }
}

type Cell = fn(&TrialRow) -> String;

/// Columns and what stands in them. New ones go to the end.
const COLUMNS: &[(&str, Cell)] = &[
    ("seq", |t| t.seq.to_string()),
    ("session", |t| t.session.to_string()),
    ("block", |t| t.block.to_string()),
    ("at_ms", |t| t.at_ms.to_string()),
    ("layer", |t| safe(&t.layer)),
    ("point", |t| safe(&t.point)),
    ("op_us", |t| number(t.op_us)),
    ("ops", |t| t.ops.to_string()),
    ("bytes", |t| t.bytes.to_string()),
    ("device_read", |t| whole(t.device_read)),
    ("device_written", |t| whole(t.device_written)),
    ("foreign_cpu", |t| t.foreign_cpu.to_string()),
    ("flags", |t| safe(&t.flags.join("; "))),
    ("error", |t| safe(t.error.as_deref().unwrap_or_default())),
];

fn whole(value: Option<u64>) -> String {
    value.map(|n| n.to_string()).unwrap_or_default()
}
