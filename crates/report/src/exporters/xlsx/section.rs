//! A section: its conclusions, then its tables one below another. Each of its line charts is next
//! to the numbers that it draws. A study starts with a matrix of claims and layers.

use rust_xlsxwriter::{Chart, ChartType, Format, Worksheet};

use super::{Result, bold, matrix, text};
use crate::{Cell, DataTable, LineChart, Section, code_span::unmarked};

/// Rows covered by a chart.
const CHART_ROWS: u32 = 17;

/// Fills the sheet.
pub fn write(sheet: &mut Worksheet, section: &Section) -> Result<()> {
    sheet.set_column_width(0, 26)?;
    sheet.write_string_with_format(0, 0, words(&section.title), &bold().set_font_size(14))?;
    sheet.write_string(1, 0, words(&section.about))?;
    let mut row = 3;
    if let Some(claims) = section.claims() {
        row = table(sheet, row, &claims.table())? + 1;
    }
    for conclusion in &section.conclusions {
        sheet.write_string(row, 0, conclusion.holds.words())?;
        sheet.write_string(row, 1, words(&conclusion.text))?;
        row += 1;
    }
    for of in &section.tables {
        row = table(sheet, row + 1, of)?;
    }
    for remark in &section.remarks {
        row += 1;
        sheet.write_string(row, 0, words(&format!("{remark}.")))?;
    }
    for of in section.charts.iter().filter(|c| !c.series.is_empty()) {
        row = chart(sheet, row + 1, of)?;
    }
    for file in &section.files {
        row += 1;
        sheet.write_string_with_format(row, 0, words(&file.name), &bold())?;
        for line in file.text.lines() {
            row += 1;
            sheet.write_string(row, 0, text(line))?;
        }
        row += 1;
    }
    Ok(())
}

/// Text without the marks around names.
fn words(of: &str) -> String {
    text(&unmarked(of))
}

/// Whether the text of a cell is only its number.
fn is_plain(cell: &Cell) -> bool {
    let number = cell.text.replace(',', "").parse::<f64>();
    match (cell.value, number) {
        (Some(value), Ok(shown)) => (shown - value).abs() <= 0.01 * value.abs().max(1e-9),
        (Some(_), Err(_)) => false,
        (None, _) => true,
    }
}

/// Writes a table and returns the row below it. Numbers have cells of their own. A column whose
/// text says more (a unit, a range) gets a second column with its numbers.
fn table(sheet: &mut Worksheet, at: u32, of: &DataTable) -> Result<u32> {
    sheet.write_string_with_format(at, 0, words(&of.title), &bold())?;
    let mut row = at + 1;
    if !of.note.is_empty() {
        sheet.write_string(row, 0, words(&of.note))?;
        row += 1;
    }
    let format = Format::new().set_num_format("General");
    let mut col = 0;
    for (n, head) in of.head.iter().enumerate() {
        let cells = || of.rows.iter().map(|r| r.get(n));
        let numeric = cells().flatten().any(|c| c.value.is_some());
        let wordy = !numeric || !cells().flatten().all(is_plain);
        if wordy {
            sheet.write_string_with_format(row, col, words(head), &bold())?;
            for (line, cell) in (row + 1..).zip(cells()) {
                if let Some(cell) = cell.filter(|c| !c.text.is_empty()) {
                    sheet.write_string(line, col, words(&cell.text))?;
                }
            }
            col += 1;
        }
        if numeric {
            let name = if wordy {
                format!("{head} (number)")
            } else {
                head.clone()
            };
            sheet.write_string_with_format(row, col, words(&name), &bold())?;
            for (line, cell) in (row + 1..).zip(cells()) {
                if let Some(value) = cell.and_then(|c| c.value).filter(|v| v.is_finite()) {
                    sheet.write_number_with_format(line, col, value, &format)?;
                }
            }
            col += 1;
        }
    }
    Ok(row + 1 + of.rows.len() as u32)
}

/// Writes the numbers of a chart, three columns per series, and the chart to their right.
fn chart(sheet: &mut Worksheet, at: u32, of: &LineChart) -> Result<u32> {
    sheet.write_string_with_format(at, 0, words(&of.title), &bold())?;
    let axis = |axis: &crate::Axis| match axis.unit.as_str() {
        "" => axis.label.clone(),
        unit => format!("{}, {unit}", axis.label),
    };
    let name = sheet.name();
    let mut drawn = Chart::new(ChartType::ScatterStraightWithMarkers);
    let (mut col, mut longest) = (0u16, 0);
    for (n, series) in of.series.iter().enumerate() {
        let top = at + 1;
        let heads = [axis(&of.x), series.name.clone()];
        for (col, head) in (col..).zip(&heads) {
            sheet.write_string_with_format(top, col, words(head), &bold())?;
        }
        for (line, mark) in (top + 1..).zip(&series.points) {
            sheet.write_number(line, col, mark.x)?;
            sheet.write_number(line, col + 1, mark.y)?;
        }
        let rows = series.points.len() as u32;
        if rows > 0 {
            let last = top + rows;
            let drawn = drawn
                .add_series()
                .set_name((name.as_str(), top, col + 1))
                .set_categories((name.as_str(), top + 1, col, last, col))
                .set_values((name.as_str(), top + 1, col + 1, last, col + 1));
            matrix::look(drawn, n);
        }
        longest = longest.max(rows);
        col += 2;
    }
    drawn.title().set_name(&words(&of.title));
    drawn.x_axis().set_name(&axis(&of.x)).set_log_base(10);
    drawn.y_axis().set_name(&axis(&of.y)).set_log_base(10);
    drawn.set_width(560).set_height(310);
    sheet.insert_chart(at + 1, col + 1, &drawn)?;
    Ok(at + 2 + longest.max(CHART_ROWS))
}
