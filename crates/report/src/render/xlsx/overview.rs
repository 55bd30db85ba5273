//! The answer as a sheet: operations as rows, layers as columns, and a bar chart of the same
//! numbers. If only the baseline was measured, they are times.

use rust_xlsxwriter::{Chart, ChartAxisCrossing, ChartType, Format, Worksheet};

use super::{Result, bold, matrix, text};
use crate::page::{
    Document,
    cell::MatrixCell,
    matrix::{Matrix, MatrixRow},
};

/// Most operations of a readable chart; those with the largest differences are kept.
const MOST: usize = 30;
/// Row of the heads.
const HEAD: u32 = 3;
/// Characters of the widest column.
const WIDEST: usize = 60;
/// Height of a line, points.
pub const LINE: f64 = 15.0;

/// Columns of numbers with their heads, and a label for each line.
struct Numbers<'a> {
    title: String,
    about: String,
    /// Whether the numbers are ratios to the baseline, or else times.
    are_ratios: bool,
    heads: Vec<&'a str>,
    rows: Vec<MatrixRow<'a>>,
}

impl<'a> Numbers<'a> {
    fn of(document: &Document<'a>, all: &Matrix<'a>) -> Self {
        let ratios = all.ratios().largest(MOST);
        if ratios.columns.is_empty() {
            return Self {
                title: "Time an operation".into(),
                about: "Microseconds, centres of the trials.".into(),
                are_ratios: false,
                heads: vec!["microseconds"],
                rows: all.rows.iter().take(MOST).cloned().collect(),
            };
        }
        Self {
            title: format!("Time in each layer over that in {}", document.baseline),
            about: format!(
                "{}. Above 1 is slower. Intervals are on the sheet Results.",
                ratios.legend()
            ),
            are_ratios: true,
            heads: ratios.columns.iter().map(|column| column.name).collect(),
            rows: ratios.rows,
        }
    }

    fn number(&self, cell: &MatrixCell) -> Option<f64> {
        let number = if self.are_ratios {
            cell.ratio
        } else {
            cell.op_us
        };
        number.filter(|n| n.is_finite())
    }

    /// Characters of the widest number of a column, as it is shown.
    fn width(&self, column: usize) -> f64 {
        let shown = |row: &MatrixRow| {
            let cell = row.cells.get(column)?;
            Some(if self.are_ratios {
                cell.shown.text().chars().count()
            } else {
                // `1,234,567.890`
                let digits = self.number(cell)?.max(1.0).log10() as usize + 1;
                digits + (digits - 1) / 3 + ".000".len()
            })
        };
        let widest = self.rows.iter().filter_map(shown).max();
        widest.unwrap_or(0) as f64 + 2.0
    }

    fn is_empty(&self) -> bool {
        let mut cells = self.rows.iter().flat_map(|row| &row.cells);
        !cells.any(|cell| self.number(cell).is_some())
    }
}

/// Fills the sheet that `new` creates, if there are numbers.
pub fn write<'b>(
    document: &Document,
    new: impl FnOnce() -> Result<&'b mut Worksheet>,
) -> Result<()> {
    let numbers = document.matrix().map(|all| Numbers::of(document, all));
    let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
        return Ok(());
    };
    let sheet = new()?;
    sheet.write_string_with_format(0, 0, &numbers.title, &bold().set_font_size(14))?;
    sheet.write_string(1, 0, text(&numbers.about))?;
    let widest = numbers.rows.iter().map(|row| row.label.chars().count());
    let widest = widest.max().unwrap_or(0).clamp(16, WIDEST);
    sheet.set_column_width(0, widest as f64 + 2.0)?;
    let mut lines = 1.0_f64;
    for (col, head) in (1u16..).zip(&numbers.heads) {
        let letters = head.chars().count() as f64 + 2.0;
        // A number that does not fit is shown as `###`.
        let width = letters
            .clamp(9.0, 24.0)
            .max(numbers.width(usize::from(col - 1)));
        lines = lines.max((letters / width).ceil());
        sheet.set_column_width(col, width)?;
        sheet.write_string_with_format(HEAD, col, text(head), &bold().set_text_wrap())?;
    }
    sheet.set_row_height(HEAD, LINE * lines)?;
    let time = Format::new().set_num_format("#,##0.000");
    for (row, MatrixRow { label, cells, .. }) in (HEAD + 1..).zip(&numbers.rows) {
        sheet.write_string(row, 0, text(label))?;
        for (col, cell) in (1u16..).zip(cells) {
            let Some(value) = numbers.number(cell) else {
                continue;
            };
            let format = if numbers.are_ratios {
                matrix::ratio_format(cell, value)
            } else {
                time.clone()
            };
            sheet.write_number_with_format(row, col, value, &format)?;
        }
    }
    let last = (HEAD + numbers.rows.len() as u32, numbers.heads.len() as u16);
    let chart = chart(&sheet.name(), &numbers, last);
    sheet.insert_chart(last.0 + 2, 0, &chart)?;
    Ok(())
}

/// Bars of the cells' numbers, a colour for each layer. On the axis, a ratio and its inverse are
/// equally far from 1.
fn chart(sheet: &str, numbers: &Numbers, last: (u32, u16)) -> Chart {
    let mut chart = Chart::new(ChartType::Column);
    for col in 1..=last.1 {
        let series = chart
            .add_series()
            .set_name((sheet, HEAD, col))
            .set_categories((sheet, HEAD + 1, 0, last.0, 0))
            .set_values((sheet, HEAD + 1, col, last.0, col));
        matrix::fill(series, usize::from(col - 1));
    }
    chart.title().set_name(&numbers.title);
    chart.y_axis().set_log_base(10);
    if numbers.are_ratios {
        let axis = chart.y_axis();
        axis.set_crossing(ChartAxisCrossing::AxisValue(1.0));
    }
    chart.set_width(960).set_height(420);
    chart
}
