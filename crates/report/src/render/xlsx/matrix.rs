//! File size by record size: a table for each layer in the positions of iozone's workbook, with a
//! colour scale, and a line chart for each file size.
//!
//! iozone's first table has its title in row 4 and the records in row 5 from column B. Each row
//! below has a file size in column A, with room for 14. The next table begins 16 rows below.

use rust_xlsxwriter::{
    Chart, ChartFormat, ChartLine, ChartMarker, ChartMarkerType, ChartSeries, ChartSolidFill,
    ChartType, Color, ConditionalFormat3ColorScale, Format, FormatPattern, Worksheet,
};

use super::{Result, bold, text};
use crate::{
    STALLS, STALLS_MEANING,
    page::{
        cell::MatrixCell,
        shade::Shade,
        sign::Sign,
        sizes::{IozoneSheet, SizeLayer, SizeMatrix},
    },
};

const FIRST: u32 = 3;
const PITCH: u32 = 16;
/// Colours of series; markers distinguish them as well (Okabe and Ito 2008).
const COLOURS: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1A1E23",
];
const MARKERS: [ChartMarkerType; 5] = [
    ChartMarkerType::Circle,
    ChartMarkerType::Square,
    ChartMarkerType::Triangle,
    ChartMarkerType::Diamond,
    ChartMarkerType::Star,
];

/// Colours of the lowest, the median and the highest throughput. They differ in brightness, so the
/// scale also works without colour.
const RATES: [&str; 3] = ["#FDE0C5", "#FFFFFF", "#56B4E9"];

/// The content of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Throughput,
    Ratio,
}

impl Look {
    /// The number of a cell.
    fn number(self, cell: &MatrixCell) -> Option<f64> {
        match self {
            // KiB/s
            Self::Throughput => cell.value.map(|value| value / 1024.0),
            Self::Ratio => cell.ratio,
        }
    }
}

/// Pattern of a number with three digits.
pub fn three_digits(value: f64) -> String {
    let decimals = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    match decimals {
        0 => "0".to_owned(),
        n => format!("0.{}", "0".repeat(n)),
    }
}

/// Format of a ratio: three digits, the shade of its size, and the sign of a verdict that is not
/// certain before it. Behind a noisy one is the half-width of its interval. The cell of a ratio that is
/// written as `240x faster` shows these words; its number is the ratio.
pub fn ratio_format(cell: &MatrixCell, ratio: f64) -> Format {
    let has = |sign| cell.signs.has(sign);
    if has(Sign::Faster) {
        return shaded(cell, &format!("\"{}\"", cell.shown.text()));
    }
    let literal = |sign: &str| format!("\"{sign}\"");
    let mark = match () {
        () if has(Sign::Probably) => literal(Sign::Probably.shown()),
        () if [Sign::Open, Sign::Wild, Sign::Drifts, Sign::Waits]
            .into_iter()
            .any(has) =>
        {
            literal(Sign::Open.shown())
        }
        () if has(Sign::Untrusted) => literal(Sign::Untrusted.shown()),
        () => String::new(),
    };
    let unflushed = if cell.is_hatched() {
        literal(Sign::Unflushed.shown())
    } else {
        String::new()
    };
    let noise = match cell.noise.as_str() {
        "" => String::new(),
        half => literal(&format!(" \u{b1}{half}")),
    };
    let stalls = if has(Sign::Stalls) {
        literal(STALLS)
    } else {
        String::new()
    };
    shaded(
        cell,
        &format!("{unflushed}{mark}{}{noise}{stalls}", three_digits(ratio)),
    )
}

fn shaded(cell: &MatrixCell, pattern: &str) -> Format {
    let format = Format::new().set_num_format(pattern);
    match cell.shade.and_then(Shade::rgb) {
        Some([r, g, b]) => {
            let rgb = u32::from_be_bytes([0, r, g, b]);
            let format = format.set_background_color(Color::RGB(rgb));
            if cell.is_hatched() {
                // Of a pattern, the other colour is that of the paper behind its lines.
                format
                    .set_pattern(FormatPattern::LightUp)
                    .set_foreground_color("#7A838D")
            } else {
                format
            }
        }
        None => format.set_font_color("#59626C").set_italic(),
    }
}

/// Width of a column of ratios with signs and noise, characters.
const RATIO: f64 = 14.0;

/// Width of a column of rates in KiB/s, characters.
const RATE: f64 = 13.0;

/// Writes the sheet of a test.
pub fn test(sheet: &mut Worksheet, test: &SizeMatrix, baseline: &str) -> Result<()> {
    let pitch = PITCH.max(test.files.len() as u32 + 2);
    sheet.write_string_with_format(0, 0, text(&test.title), &bold().set_font_size(14))?;
    sheet.write_string(1, 0, "Throughput in KiB/s, centres of the trials. Rows are file sizes in kB (1,024 bytes), columns records in kB.")?;
    sheet.write_string(
        2,
        0,
        format!(
            "Below: time an operation divided by that in {baseline}; above 1 is slower; \u{b1}5% is too noisy for a verdict; with {STALLS} {STALLS_MEANING}."
        ),
    )?;
    sheet.set_column_width(0, 16)?;
    // A ratio with its noise does not fit the usual width, and is `###` in LibreOffice then.
    let records = test.records.len().max(1) as u16;
    sheet.set_column_range_width(1, records, RATIO)?;
    let sizes = Sizes {
        files: &test.files,
        records: &test.records,
    };
    let rates = test.layers.iter();
    let rates = rates.map(|of| (of, of.name.to_owned(), Look::Throughput));
    let others = test.layers.iter().filter(|of| !of.is_baseline);
    let costs = others.map(|of| (of, format!("{}: time / {baseline}", of.name), Look::Ratio));
    for (n, (of, title, look)) in (0u32..).zip(rates.chain(costs)) {
        table(sheet, FIRST + pitch * n, &title, &sizes, &of.cells, look)?;
    }
    for n in 0..test.files.len() {
        let measured = |of: &SizeLayer| of.cells[n].iter().any(Option::is_some);
        if test.records.len() > 1 && test.layers.iter().any(measured) {
            let chart = chart(sheet, test, n as u32, pitch);
            let at = FIRST + PITCH * n as u32;
            sheet.insert_chart(at, test.records.len() as u16 + 2, &chart)?;
        }
    }
    Ok(())
}

/// Writes the sheet of a layer, with iozone's tables in the positions of its workbook.
pub fn iozone(sheet: &mut Worksheet, of: &IozoneSheet) -> Result<()> {
    let most = of.tables.iter().map(|t| t.files.len() as u32).max();
    let pitch = PITCH.max(most.unwrap_or(0) + 2);
    sheet.write_string_with_format(0, 0, text(of.layer), &bold().set_font_size(14))?;
    sheet.write_string(
        1,
        0,
        "KiB/s. The top row is records, the left column file sizes, both in kB (1,024 bytes).",
    )?;
    // `12,345,678` has no room in the usual width, and is `###` in LibreOffice then.
    let most = of.tables.iter().map(|t| t.records.len()).max();
    sheet.set_column_range_width(0, most.unwrap_or(0) as u16, RATE)?;
    for t in &of.tables {
        let title = format!("{} report", t.title);
        let at = FIRST + pitch * t.place;
        let sizes = Sizes {
            files: &t.files,
            records: &t.records,
        };
        table(sheet, at, &title, &sizes, &t.cells, Look::Throughput)?;
    }
    Ok(())
}

/// Bytes of the rows and columns of a table.
struct Sizes<'a> {
    files: &'a [u64],
    records: &'a [u64],
}

fn table(
    sheet: &mut Worksheet,
    at: u32,
    title: &str,
    sizes: &Sizes,
    cells: &[Vec<Option<MatrixCell>>],
    look: Look,
) -> Result<()> {
    let size = bold().set_num_format("0");
    let rate = Format::new().set_num_format("#,##0");
    sheet.write_string_with_format(at, 0, text(title), &bold())?;
    for (col, record) in (1u16..).zip(sizes.records) {
        sheet.write_number_with_format(at + 1, col, (record / 1024) as f64, &size)?;
    }
    for (row, (file, cells)) in (at + 2..).zip(sizes.files.iter().zip(cells)) {
        sheet.write_number_with_format(row, 0, (file / 1024) as f64, &size)?;
        for (col, cell) in (1u16..).zip(cells) {
            let number = |of: &MatrixCell| look.number(of).filter(|v| v.is_finite());
            if let Some((cell, value)) = cell.as_ref().and_then(|of| Some((of, number(of)?))) {
                let format = match look {
                    Look::Throughput => rate.clone(),
                    Look::Ratio => ratio_format(cell, value),
                };
                sheet.write_number_with_format(row, col, value, &format)?;
            }
        }
    }
    if look == Look::Ratio {
        return Ok(());
    }
    let [low, middle, high] = RATES;
    let scale = ConditionalFormat3ColorScale::new()
        .set_minimum_color(low)
        .set_midpoint_color(middle)
        .set_maximum_color(high);
    let last = (
        at + 1 + sizes.files.len() as u32,
        sizes.records.len() as u16,
    );
    sheet.add_conditional_format(at + 2, 1, last.0, last.1, &scale)?;
    Ok(())
}

/// Colour of the `n`th series of a bar chart.
pub fn fill(series: &mut ChartSeries, n: usize) {
    let colour = COLOURS[n % COLOURS.len()];
    series.set_format(ChartFormat::new().set_solid_fill(ChartSolidFill::new().set_color(colour)));
}

/// Colour and marker of the `n`th series of a chart.
pub fn look(series: &mut ChartSeries, n: usize) {
    let colour = COLOURS[n % COLOURS.len()];
    let mut marker = ChartMarker::new();
    marker
        .set_type(MARKERS[n % MARKERS.len()])
        .set_size(6)
        .set_format(ChartFormat::new().set_solid_fill(ChartSolidFill::new().set_color(colour)));
    series
        .set_format(ChartFormat::new().set_line(ChartLine::new().set_color(colour).set_width(1.75)))
        .set_marker(&marker);
}

/// Throughput over record size at the `n`th file size, a series for each layer. Names and numbers
/// refer to the cells of the tables.
fn chart(sheet: &Worksheet, test: &SizeMatrix, n: u32, pitch: u32) -> Chart {
    let mut chart = Chart::new(ChartType::Line);
    let name = sheet.name();
    let last = test.records.len() as u16;
    for layer in 0..test.layers.len() {
        let at = FIRST + pitch * layer as u32;
        let series = chart
            .add_series()
            .set_name((name.as_str(), at, 0))
            .set_categories((name.as_str(), at + 1, 1, at + 1, last))
            .set_values((name.as_str(), at + 2 + n, 1, at + 2 + n, last));
        look(series, layer);
    }
    let kib = test.files[n as usize] / 1024;
    chart
        .title()
        .set_name(&format!("Throughput, file of {kib} kB"));
    chart.x_axis().set_name("record, kB");
    chart
        .y_axis()
        .set_name("KiB/s")
        .set_num_format("#,##0")
        .set_min(0);
    chart.set_width(560).set_height(310);
    chart
}
