//! One line a launch, as the 2014 study of application streaming wrote them:
//! `time,elapsed ms,window,program`; what else is known of it follows.

use super::{Exporter, Files, own::has_columns};
use crate::{
    Report,
    exporters::columns::{self, Cell},
};

/// See the module.
pub struct Launches;

impl Exporter for Launches {
    fn id(&self) -> &'static str {
        "launches"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["launches.csv"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        has_columns(head, columns::LAUNCHES.iter().map(|c| c.0))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        let mut lines = ::csv::Writer::from_writer(&mut *out);
        lines.write_record(columns::LAUNCHES.iter().map(|c| c.0))?;
        for (series, run) in columns::launches(report) {
            let cells = columns::LAUNCHES.iter().map(|(.., cell)| cell(series, run));
            lines.write_record(cells.map(word))?;
        }
        lines.flush()?;
        Ok(())
    }
}

/// Times to the microsecond; what is not known is empty.
fn word(cell: Cell) -> String {
    match cell {
        Cell::Text(words) => words,
        Cell::Number(value) => format!("{value:.3}"),
        Cell::Count(n) => n.to_string(),
        Cell::Empty => String::new(),
    }
}
