//! Sheets that are one long table, written line by line.

use std::borrow::Cow;

use rust_xlsxwriter::{Format, FormatAlign, Worksheet};

use super::{Result, bold, text};
use crate::tables::{ColumnFormat, Field, LongTable};

/// Most lines below the head of a sheet: Excel has 1,048,576 rows.
pub const ROWS: u32 = 1_048_575;

/// Limits of the printed part, lines and total width: the most important columns, on up to four
/// pages.
const PRINTED: (u32, f64) = (200, 210.0);

/// Writes the head and at most `most` lines.
pub fn write(sheet: &mut Worksheet, table: LongTable, most: u32) -> Result<()> {
    let LongTable { head, lines } = table;
    sheet.set_freeze_panes(1, 0)?;
    let format = bold().set_text_wrap().set_align(FormatAlign::Top);
    let mut formats = Vec::new();
    // Keeps words apart from the end of a number, or of longer words, on their left.
    let words = Format::new().set_indent(1);
    for (col, (name, shown)) in (0u16..).zip(&head) {
        sheet.write_string_with_format(0, col, name.as_ref(), &format)?;
        sheet.set_column_width(col, width(*shown))?;
        formats.push(Format::new().set_num_format(pattern(*shown)));
    }
    let mut last = 0;
    for (row, line) in (1..=most).zip(lines) {
        for ((col, cell), format) in (0u16..).zip(line).zip(&formats) {
            match cell {
                Field::Text(said) if !said.is_empty() => {
                    sheet.write_string_with_format(row, col, text(&said), &words)?
                }
                Field::Number(value) => sheet.write_number_with_format(row, col, value, format)?,
                Field::Count(n) => sheet.write_number_with_format(row, col, n as f64, format)?,
                Field::Text(_) | Field::Empty => continue,
            };
        }
        last = row;
    }
    print(sheet, &head, last)?;
    if last > 0 && !head.is_empty() {
        sheet.autofilter(0, 0, last, head.len() as u16 - 1)?;
    }
    Ok(())
}

/// Prints the head on every page, above the first lines of the first columns.
fn print(sheet: &mut Worksheet, head: &[(Cow<'_, str>, ColumnFormat)], last: u32) -> Result<()> {
    let mut wide = 0.0;
    let shown = head.iter().take_while(|(_, shown)| {
        wide += width(*shown);
        wide <= PRINTED.1
    });
    let (columns, lines) = (shown.count().max(1), last.min(PRINTED.0));
    if columns < head.len() || lines < last {
        sheet.set_header(format!(
            "The first {lines} of {last} lines, {columns} of {} columns",
            head.len()
        ));
    }
    sheet.set_repeat_rows(0, 0)?;
    sheet.set_print_area(0, 0, lines, columns as u16 - 1)?;
    Ok(())
}

fn pattern(shown: ColumnFormat) -> &'static str {
    match shown {
        ColumnFormat::Plain | ColumnFormat::Words => "General",
        ColumnFormat::Whole => "#,##0",
        ColumnFormat::Fine => "#,##0.000",
        ColumnFormat::Ratio => "0.000",
        ColumnFormat::Share => "0.0%",
        ColumnFormat::Small => "0.0000",
    }
}

/// Width in characters.
fn width(shown: ColumnFormat) -> f64 {
    match shown {
        // "first write to a packaged file" has 30.
        ColumnFormat::Words => 34.0,
        // A number that does not fit is shown as `###`: `1,234,567,890,123` and `1,234,567.890` fit.
        ColumnFormat::Whole => 18.0,
        ColumnFormat::Fine => 14.0,
        _ => 11.0,
    }
}
