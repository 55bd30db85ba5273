//! One line for each cell of every table beside the results: cost model, record sizes, seeks, curves,
//! the study. For a data frame, which makes any table of it.

use super::{
    Exporter, Files,
    csv::{field, safe},
    own::has_columns,
};
use crate::Report;

/// See the module.
pub struct CsvSections;

const HEAD: [&str; 7] = ["run", "section", "table", "row", "column", "text", "value"];

impl Exporter for CsvSections {
    fn id(&self) -> &'static str {
        "csv_sections"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["sections.csv"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        has_columns(head, HEAD.into_iter())
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(out.open("")?);
        writer.write_record(HEAD)?;
        for section in report.all_sections() {
            for table in &section.tables {
                for (number, row) in table.rows.iter().enumerate() {
                    for (head, cell) in table.head.iter().zip(row) {
                        writer.write_record([
                            report.run.clone(),
                            safe(&section.name),
                            safe(&table.title),
                            (number + 1).to_string(),
                            safe(head),
                            safe(&cell.text),
                            field(cell.value.into()),
                        ])?;
                    }
                }
            }
        }
        writer.flush()?;
        Ok(())
    }
}
