//! Sheets that are one long table, written line by line.

use rust_xlsxwriter::{Format, FormatAlign, Worksheet};

use super::{Result, bold, text};
use crate::exporters::tables::{Field, LongTable, Shown};

/// Lines that fit under the head of a sheet: Excel has 1,048,576 rows.
pub const ROWS: u32 = 1_048_575;

/// Writes the head and at most `most` lines.
pub fn write(sheet: &mut Worksheet, table: LongTable, most: u32) -> Result<()> {
    let LongTable { head, lines } = table;
    sheet.set_freeze_panes(1, 0)?;
    let format = bold().set_text_wrap().set_align(FormatAlign::Top);
    let mut formats = Vec::new();
    for (col, (name, shown)) in (0u16..).zip(&head) {
        sheet.write_string_with_format(0, col, name.as_ref(), &format)?;
        sheet.set_column_width(col, width(*shown))?;
        formats.push(Format::new().set_num_format(pattern(*shown)));
    }
    let mut last = 0;
    for (row, line) in (1..=most).zip(lines) {
        for ((col, cell), format) in (0u16..).zip(line).zip(&formats) {
            match cell {
                Field::Text(words) if !words.is_empty() => {
                    sheet.write_string(row, col, text(&words))?
                }
                Field::Number(value) => sheet.write_number_with_format(row, col, value, format)?,
                Field::Count(n) => sheet.write_number_with_format(row, col, n as f64, format)?,
                Field::Text(_) | Field::Empty => continue,
            };
        }
        last = row;
    }
    if last > 0 && !head.is_empty() {
        sheet.autofilter(0, 0, last, head.len() as u16 - 1)?;
    }
    Ok(())
}

fn pattern(shown: Shown) -> &'static str {
    match shown {
        Shown::Plain | Shown::Words => "General",
        Shown::Whole => "#,##0",
        Shown::Fine => "#,##0.000",
        Shown::Ratio => "0.000",
        Shown::Share => "0.0%",
        Shown::Small => "0.0000",
    }
}

/// Characters.
fn width(shown: Shown) -> f64 {
    match shown {
        Shown::Words => 24.0,
        Shown::Whole => 15.0,
        _ => 11.0,
    }
}
