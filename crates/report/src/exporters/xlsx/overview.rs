//! The answer as a sheet: operations as rows, layers as columns, and a bar chart of the same
//! numbers. If only native was measured, they are times.

use rust_xlsxwriter::{
    Chart, ChartAxisCrossing, ChartType, ConditionalFormat3ColorScale, ConditionalFormatType,
    Format, Worksheet,
};

use super::{Result, bold, matrix, text};
use crate::{Report, views::overview::Overview};

/// Most operations of a readable chart; those with the largest differences are kept.
const MOST: usize = 30;
/// Row of the heads.
const HEAD: u32 = 3;
/// Characters of the widest column.
const WIDEST: usize = 60;

/// Columns of numbers with their heads, and a label for each line.
struct Numbers<'a> {
    title: &'static str,
    about: &'static str,
    pattern: &'static str,
    /// The neutral number: time in the layer equals native's.
    middle: Option<f64>,
    heads: Vec<&'a str>,
    lines: Vec<(&'a str, Vec<Option<f64>>)>,
}

impl<'a> Numbers<'a> {
    fn of(report: &'a Report) -> Self {
        let all = Overview::new(report).largest(MOST);
        if all.layers.is_empty() {
            let lines = report.results.iter().take(MOST);
            return Self {
                title: "Time an operation",
                about: "Microseconds, centres of the trials.",
                pattern: "#,##0.000",
                middle: None,
                heads: vec!["microseconds"],
                lines: lines.map(|r| (r.label.as_str(), vec![r.op_us])).collect(),
            };
        }
        let ratios = |(label, cells): (&'a str, Vec<Option<&crate::ResultRow>>)| {
            let cells = cells.into_iter();
            let ratio = |r: Option<&crate::ResultRow>| Some(r?.ratio?.estimate);
            (label, cells.map(ratio).collect())
        };
        Self {
            title: "Time in each layer over native's",
            about: "1 is native's time, above 1 is slower. Verdicts and intervals are on the sheet Results.",
            pattern: "0.00",
            middle: Some(1.0),
            heads: all.layers,
            lines: all.points.into_iter().map(ratios).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        let mut numbers = self.lines.iter().flat_map(|(_, cells)| cells);
        !numbers.any(|n| n.is_some_and(f64::is_finite))
    }
}

/// Fills the sheet that `new` creates, if there are numbers.
pub fn write<'b>(report: &Report, new: impl FnOnce() -> Result<&'b mut Worksheet>) -> Result<()> {
    let numbers = Numbers::of(report);
    if numbers.is_empty() {
        return Ok(());
    }
    let sheet = new()?;
    sheet.write_string_with_format(0, 0, numbers.title, &bold().set_font_size(14))?;
    sheet.write_string(1, 0, numbers.about)?;
    let widest = numbers.lines.iter().map(|(label, _)| label.chars().count());
    let widest = widest.max().unwrap_or(0).clamp(16, WIDEST);
    sheet.set_column_width(0, widest as f64 + 2.0)?;
    for (col, head) in (1u16..).zip(&numbers.heads) {
        sheet.set_column_width(col, (head.chars().count() as f64 + 2.0).clamp(9.0, 24.0))?;
        sheet.write_string_with_format(HEAD, col, text(head), &bold().set_text_wrap())?;
    }
    let format = Format::new().set_num_format(numbers.pattern);
    for (row, (label, cells)) in (HEAD + 1..).zip(&numbers.lines) {
        sheet.write_string(row, 0, text(label))?;
        for (col, cell) in (1u16..).zip(cells) {
            if let Some(value) = cell.filter(|v| v.is_finite()) {
                sheet.write_number_with_format(row, col, value, &format)?;
            }
        }
    }
    let last = (
        HEAD + numbers.lines.len() as u32,
        numbers.heads.len() as u16,
    );
    if let Some(middle) = numbers.middle {
        let scale = ConditionalFormat3ColorScale::new()
            .set_minimum_color("#56B4E9")
            .set_midpoint_color("#FFFFFF")
            .set_maximum_color("#E58A3C")
            .set_midpoint(ConditionalFormatType::Number, middle);
        sheet.add_conditional_format(HEAD + 1, 1, last.0, last.1, &scale)?;
    }
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
    chart.title().set_name(numbers.title);
    chart.y_axis().set_log_base(10);
    if numbers.middle.is_some() {
        let axis = chart.y_axis();
        axis.set_crossing(ChartAxisCrossing::AxisValue(1.0));
    }
    chart.set_width(960).set_height(420);
    chart
}
