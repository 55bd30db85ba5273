//! One line for each result, every number in its own column: for a spreadsheet or a data frame.

use super::{Exporter, Files, own::has_columns};
use crate::{
    Report,
    exporters::columns::{self, Cell, RESULTS},
};

/// See the module.
pub struct Csv;

impl Exporter for Csv {
    fn id(&self) -> &'static str {
        "csv"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        has_columns(head, RESULTS.iter().map(|c| c.0))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(out.open("")?);
        writer.write_record(RESULTS.iter().map(|(name, ..)| *name))?;
        for row in columns::lines(report) {
            writer.write_record(RESULTS.iter().map(|(.., cell)| field(cell(report, row))))?;
        }
        writer.flush()?;
        Ok(())
    }
}

/// A cell as text.
pub(super) fn field(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => safe(&text),
        Cell::Number(value) => value.to_string(),
        Cell::Count(n) => n.to_string(),
        Cell::Empty => String::new(),
    }
}

/// Text that a spreadsheet takes for text: a leading sign would make it a formula.
pub(super) fn safe(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn text_is_never_a_formula() {
        assert_eq!(safe("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(safe("overlay:upper"), "overlay:upper");
    }
}
