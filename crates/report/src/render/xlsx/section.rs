//! A section: its conclusions, then its tables one below another. Each of its line charts is next
//! to the numbers that it draws. A study starts with a matrix of claims and layers.

use rust_xlsxwriter::{Chart, ChartType, Color, Format, FormatAlign, Worksheet};

use super::{Result, bold, matrix, overview::LINE, text};
use crate::{Cell, DataTable, Holds, LineChart, Section, code_span::unmarked, page::shade::Shade};

/// Rows covered by a chart.
const CHART_ROWS: u32 = 17;

/// Narrowest and widest column, characters.
const WIDTHS: [f64; 2] = [9.0, 40.0];
/// Fewest columns that a sentence is spread over.
const SPREAD: usize = 7;

/// A sheet, and what depends on the widths of all its columns.
struct Page<'a> {
    sheet: &'a mut Worksheet,
    /// Widths of the columns.
    widths: Vec<f64>,
    /// Sentences, each with its row and first column.
    sentences: Vec<(u32, u16, String)>,
}

impl Page<'_> {
    /// Makes a column wide enough for a text.
    fn widen(&mut self, col: u16, text: &str) {
        let col = usize::from(col);
        if self.widths.len() <= col {
            self.widths.resize(col + 1, WIDTHS[0]);
        }
        let letters = text.chars().count() as f64 + 2.0;
        self.widths[col] = self.widths[col].max(letters.clamp(WIDTHS[0], WIDTHS[1]));
    }

    fn sentence(&mut self, row: u32, col: u16, text: String) {
        self.sentences.push((row, col, text));
    }

    /// Sets the widths, and writes sentences over as many columns as there are, in rows as high as
    /// they need.
    fn finish(mut self) -> Result<()> {
        if self.widths.len() < SPREAD {
            self.widths.resize(SPREAD, 14.0);
        }
        for (col, width) in (0u16..).zip(&self.widths) {
            self.sheet.set_column_width(col, *width)?;
        }
        let format = Format::new().set_text_wrap().set_align(FormatAlign::Top);
        // Wider than a page is not read.
        let last = self.widths.len().min(2 * SPREAD) as u16 - 1;
        for (row, col, text) in &self.sentences {
            let room: f64 = self.widths[usize::from(*col)..=usize::from(last)]
                .iter()
                .sum();
            let lines = (text.chars().count() as f64 / room).ceil().max(1.0);
            self.sheet.set_row_height(*row, LINE * lines)?;
            self.sheet
                .merge_range(*row, *col, *row, last, text, &format)?;
        }
        Ok(())
    }
}

/// Fills the sheet.
pub fn write(sheet: &mut Worksheet, section: &Section) -> Result<()> {
    let mut page = Page {
        sheet,
        widths: vec![26.0],
        sentences: Vec::new(),
    };
    let title = bold().set_font_size(14);
    page.sheet
        .write_string_with_format(0, 0, words(&section.title), &title)?;
    page.sentence(1, 0, words(&section.about));
    let mut row = 3;
    if let Some(claims) = section.claims() {
        row = table(&mut page, row, &claims.table())? + 1;
    }
    for conclusion in &section.conclusions {
        let (word, format) = (conclusion.holds.words(), answer(conclusion.holds));
        page.sheet.write_string_with_format(row, 0, word, &format)?;
        page.sentence(row, 1, words(&conclusion.text));
        row += 1;
    }
    for of in &section.tables {
        row = table(&mut page, row + 1, of)?;
    }
    for remark in &section.remarks {
        row += 1;
        page.sentence(row, 0, words(&format!("{remark}.")));
    }
    for of in section.charts.iter().filter(|c| !c.series.is_empty()) {
        row = chart(page.sheet, row + 1, of)?;
    }
    for file in &section.files {
        row += 1;
        page.sheet
            .write_string_with_format(row, 0, words(&file.name), &bold())?;
        for line in file.text.lines() {
            row += 1;
            page.sheet.write_string(row, 0, text(line))?;
        }
        row += 1;
    }
    page.finish()
}

/// The colour of an answer, as on the page.
fn answer(holds: Holds) -> Format {
    let shade = match holds {
        Holds::Yes => Shade::Same,
        Holds::No => Shade::Slower(2),
        Holds::Open => Shade::Open,
    };
    let format = Format::new().set_align(FormatAlign::Top);
    match shade.rgb() {
        Some([r, g, b]) => {
            let rgb = u32::from_be_bytes([0, r, g, b]);
            format.set_background_color(Color::RGB(rgb))
        }
        None => format,
    }
}

/// Text without the marks around names.
fn words(of: &str) -> String {
    text(&unmarked(of))
}

/// Writes a table and returns the row below it. Numbers have cells of their own. A column whose
/// text says more (a unit, a range) gets a second column with its numbers.
fn table(page: &mut Page, at: u32, of: &DataTable) -> Result<u32> {
    page.sheet
        .write_string_with_format(at, 0, words(&of.title), &bold())?;
    let mut row = at + 1;
    if !of.note.is_empty() {
        page.sentence(row, 0, words(&of.note));
        row += 1;
    }
    let mut col = 0;
    for (n, head) in of.head.iter().enumerate() {
        let cells = || of.rows.iter().map(|r| r.get(n));
        let numeric = cells().flatten().any(|c| c.value.is_some());
        let wordy = !numeric || cells().flatten().any(Cell::is_wordy);
        if wordy {
            page.widen(col, head);
            page.sheet
                .write_string_with_format(row, col, words(head), &bold())?;
            for (line, cell) in (row + 1..).zip(cells()) {
                if let Some(cell) = cell.filter(|c| !c.text.is_empty()) {
                    page.widen(col, &cell.text);
                    page.sheet.write_string(line, col, words(&cell.text))?;
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
            page.widen(col, &name);
            page.sheet
                .write_string_with_format(row, col, words(&name), &bold())?;
            for (line, cell) in (row + 1..).zip(cells()) {
                if let Some(value) = cell.and_then(|c| c.value).filter(|v| v.is_finite()) {
                    let format = Format::new().set_num_format(if value.fract() == 0.0 {
                        "0".to_owned()
                    } else {
                        matrix::three_digits(value)
                    });
                    page.sheet
                        .write_number_with_format(line, col, value, &format)?;
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
