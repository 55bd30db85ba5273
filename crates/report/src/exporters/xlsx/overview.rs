//! The answer as a sheet: operations as rows, layers as columns, and a bar chart of the same
//! numbers. If only the baseline was measured, they are times.

use rust_xlsxwriter::{Chart, ChartAxisCrossing, ChartType, Format, Worksheet};

use super::{Result, bold, matrix, text};
use crate::{Report, ResultRow, views::overview::Overview};

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
    lines: Vec<(&'a str, Vec<Option<&'a ResultRow>>)>,
}

impl<'a> Numbers<'a> {
    fn of(report: &'a Report) -> Self {
        let all = Overview::new(report).largest(MOST);
        if all.layers.is_empty() {
            let lines = report.results.iter().take(MOST);
            return Self {
                title: "Time an operation".into(),
                about: "Microseconds, centres of the trials.".into(),
                are_ratios: false,
                heads: vec!["microseconds"],
                lines: lines.map(|r| (r.label.as_str(), vec![Some(r)])).collect(),
            };
        }
        Self {
            title: format!("Time in each layer over that in {}", report.baseline()),
            about: format!(
                "{}. Above 1 is slower. Intervals are on the sheet Results.",
                all.legend()
            ),
            are_ratios: true,
            heads: all.layers,
            lines: all.points,
        }
    }

    fn number(&self, row: &ResultRow) -> Option<f64> {
        let ratio = row.ratio.map(|e| e.estimate);
        let number = if self.are_ratios { ratio } else { row.op_us };
        number.filter(|n| n.is_finite())
    }

    fn is_empty(&self) -> bool {
        let mut cells = self
            .lines
            .iter()
            .flat_map(|(_, cells)| cells.iter().flatten());
        !cells.any(|row| self.number(row).is_some())
    }
}

/// Fills the sheet that `new` creates, if there are numbers.
pub fn write<'b>(report: &Report, new: impl FnOnce() -> Result<&'b mut Worksheet>) -> Result<()> {
    let numbers = Numbers::of(report);
    if numbers.is_empty() {
        return Ok(());
    }
    let sheet = new()?;
    sheet.write_string_with_format(0, 0, &numbers.title, &bold().set_font_size(14))?;
    sheet.write_string(1, 0, text(&numbers.about))?;
    let widest = numbers.lines.iter().map(|(label, _)| label.chars().count());
    let widest = widest.max().unwrap_or(0).clamp(16, WIDEST);
    sheet.set_column_width(0, widest as f64 + 2.0)?;
    let mut lines = 1.0_f64;
    for (col, head) in (1u16..).zip(&numbers.heads) {
        let letters = head.chars().count() as f64 + 2.0;
        let width = letters.clamp(9.0, 24.0);
        lines = lines.max((letters / width).ceil());
        sheet.set_column_width(col, width)?;
        sheet.write_string_with_format(HEAD, col, text(head), &bold().set_text_wrap())?;
    }
    sheet.set_row_height(HEAD, LINE * lines)?;
    let time = Format::new().set_num_format("#,##0.000");
    for (row, (label, cells)) in (HEAD + 1..).zip(&numbers.lines) {
        sheet.write_string(row, 0, text(label))?;
        for (col, cell) in (1u16..).zip(cells) {
            let Some((of, value)) = cell.and_then(|r| Some((r, numbers.number(r)?))) else {
                continue;
            };
            let format = if numbers.are_ratios {
                matrix::ratio_format(of, value)
            } else {
                time.clone()
            };
            sheet.write_number_with_format(row, col, value, &format)?;
        }
    }
    let last = (
        HEAD + numbers.lines.len() as u32,
        numbers.heads.len() as u16,
    );
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
