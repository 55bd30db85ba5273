//! File size by record: a table for each layer where iozone's workbook has its tables, a colour
//! scale over it, and a line chart for each file size.
//!
//! iozone's first table has its title in row 4, the records in row 5 from column B, and a file size
//! in column A of each row after it, room for 14; the next table begins 16 rows below.

use layermark_model::iozone_tables;
use rust_xlsxwriter::{
    Chart, ChartFormat, ChartLine, ChartMarker, ChartMarkerType, ChartSeries, ChartSolidFill,
    ChartType, ConditionalFormat3ColorScale, ConditionalFormatType, Format, Worksheet,
};

use super::{Result, bold, iozone::Table, text};
use crate::{Report, analysis::size_table::SizeTable};

const FIRST: u32 = 3;
const PITCH: u32 = 16;
/// Series are told apart by colour and marker (Okabe and Ito 2008).
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

/// What a table shows, and how.
struct Look {
    /// Low, middle and high: dark and light differ, so it reads without colour as well.
    colours: [&'static str; 3],
    /// The middle is this number, not the median.
    middle: Option<f64>,
    pattern: &'static str,
}

const RATE: Look = Look {
    colours: ["#FDE0C5", "#FFFFFF", "#56B4E9"],
    middle: None,
    pattern: "#,##0",
};
const COST: Look = Look {
    colours: ["#56B4E9", "#FFFFFF", "#E58A3C"],
    middle: Some(1.0),
    pattern: "0.00",
};

/// The sheet of a test.
pub fn test(sheet: &mut Worksheet, report: &Report, family: &SizeTable) -> Result<()> {
    let layers = family.layers(report);
    let pitch = PITCH.max(family.files.len() as u32 + 2);
    sheet.write_string_with_format(0, 0, text(&family.describe()), &bold().set_font_size(14))?;
    sheet.write_string(1, 0, "Throughput in KiB/s, centres of the trials. Rows are file sizes in kB (1,024 bytes), columns records in kB.")?;
    sheet.write_string(
        2,
        0,
        "Below: time an operation divided by native's; above 1 is slower.",
    )?;
    sheet.set_column_width(0, 16)?;
    for (n, layer) in (0u32..).zip(&layers) {
        let at = FIRST + pitch * n;
        table(sheet, at, layer, family, &RATE, |file, record| {
            Some(family.value(layer, file, record)? / 1024.0)
        })?;
    }
    let below = FIRST + pitch * layers.len() as u32;
    let baseline = report
        .layers
        .iter()
        .find(|l| l.baseline)
        .map(|l| l.name.as_str());
    let others = layers.iter().filter(|l| Some(**l) != baseline);
    for (n, layer) in (0u32..).zip(others) {
        let title = format!("{layer}: time / native");
        table(
            sheet,
            below + pitch * n,
            &title,
            family,
            &COST,
            |file, record| Some(family.cell(layer, file, record)?.ratio?.estimate),
        )?;
    }
    for (n, file) in (0u32..).zip(&family.files) {
        let has = |l: &&str| {
            family
                .records
                .iter()
                .any(|r| family.value(l, *file, *r).is_some())
        };
        if family.records.len() > 1 && layers.iter().any(has) {
            let chart = chart(sheet, family, &layers, n, pitch);
            sheet.insert_chart(FIRST + PITCH * n, family.records.len() as u16 + 2, &chart)?;
        }
    }
    Ok(())
}

/// The sheet of a layer with iozone's tables where its workbook has them.
pub fn iozone(sheet: &mut Worksheet, layer: &str, tables: &[&Table]) -> Result<()> {
    let most = tables.iter().map(|t| t.family.files.len() as u32).max();
    let pitch = PITCH.max(most.unwrap_or(0) + 2);
    sheet.write_string_with_format(0, 0, text(layer), &bold().set_font_size(14))?;
    sheet.write_string(
        1,
        0,
        "KiB/s. The top row is records, the left column file sizes, both in kB (1,024 bytes).",
    )?;
    for t in tables {
        let place = iozone_tables().position(|of| of.title == t.title);
        let at = place.unwrap_or(0) as u32;
        let title = format!("{} report", t.title);
        table(
            sheet,
            FIRST + pitch * at,
            &title,
            t.family,
            &RATE,
            |file, record| Some(t.family.value(layer, file, record)? / 1024.0),
        )?;
    }
    Ok(())
}

fn table(
    sheet: &mut Worksheet,
    at: u32,
    title: &str,
    family: &SizeTable,
    look: &Look,
    cell: impl Fn(u64, u64) -> Option<f64>,
) -> Result<()> {
    let (size, number) = (
        bold().set_num_format("0"),
        Format::new().set_num_format(look.pattern),
    );
    sheet.write_string_with_format(at, 0, text(title), &bold())?;
    for (col, record) in (1u16..).zip(&family.records) {
        sheet.write_number_with_format(at + 1, col, (record / 1024) as f64, &size)?;
    }
    for (row, file) in (at + 2..).zip(&family.files) {
        sheet.write_number_with_format(row, 0, (file / 1024) as f64, &size)?;
        for (col, record) in (1u16..).zip(&family.records) {
            if let Some(value) = cell(*file, *record).filter(|v| v.is_finite()) {
                sheet.write_number_with_format(row, col, value, &number)?;
            }
        }
    }
    let [low, middle, high] = look.colours;
    let mut scale = ConditionalFormat3ColorScale::new()
        .set_minimum_color(low)
        .set_midpoint_color(middle)
        .set_maximum_color(high);
    if let Some(value) = look.middle {
        scale = scale.set_midpoint(ConditionalFormatType::Number, value);
    }
    let last = (
        at + 1 + family.files.len() as u32,
        family.records.len() as u16,
    );
    sheet.add_conditional_format(at + 2, 1, last.0, last.1, &scale)?;
    Ok(())
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

/// Throughput over record at the `n`th file size, a series for each layer. Names and numbers are
/// those of the tables' cells.
fn chart(sheet: &Worksheet, family: &SizeTable, layers: &[&str], n: u32, pitch: u32) -> Chart {
    let mut chart = Chart::new(ChartType::Line);
    let name = sheet.name();
    let last = family.records.len() as u16;
    for layer in 0..layers.len() {
        let at = FIRST + pitch * layer as u32;
        let series = chart
            .add_series()
            .set_name((name.as_str(), at, 0))
            .set_categories((name.as_str(), at + 1, 1, at + 1, last))
            .set_values((name.as_str(), at + 2 + n, 1, at + 2 + n, last));
        look(series, layer);
    }
    let kib = family.files[n as usize] / 1024;
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
