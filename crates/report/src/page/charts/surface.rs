//! Throughput over file size and record size as a surface, for each test and layer that has a
//! matrix.

use kuva::{
    plot::{heatmap::ColorMap, surface3d::Surface3DPlot},
    prelude::{Layout, Plot},
};
use layermark_model::format_size;

use super::{
    Chart, ChartGroup, Table,
    svg::{self, DrawingId},
};
use crate::{
    Report, ResultRow,
    facts::size_table::{self, LayerTable, SizeTable},
    number,
    words::{captions, charts as words},
};

/// All of them under one heading.
pub fn group(report: &Report) -> Option<ChartGroup> {
    let tests = size_table::tables(report);
    let charts: Vec<Chart> = (0..).zip(&tests).flat_map(|(n, t)| of(t, n)).collect();
    (!charts.is_empty()).then(|| ChartGroup {
        title: captions::SURFACE.title.into(),
        hint: captions::SURFACE.about.into(),
        charts,
    })
}

/// The surfaces of a test, one for each layer with enough numbers. `n` is its number within the
/// page.
pub fn of(test: &SizeTable, n: usize) -> Vec<Chart> {
    let layers = test.layers.iter().enumerate();
    let layers = layers.filter(|_| test.is_matrix());
    layers
        .filter_map(|(l, of)| surface(test, of, DrawingId::of("surface", format!("{n}-{l}"))))
        .collect()
}

fn surface(test: &SizeTable, of: &LayerTable, id: DrawingId) -> Option<Chart> {
    let rate = |row: Option<&ResultRow>| row.and_then(|r| r.value).map_or(f64::NAN, |v| v / 1e9);
    let rows = of.cells.iter();
    let z: Vec<Vec<f64>> = rows
        .map(|row| row.iter().map(|cell| rate(*cell)).collect())
        .collect();
    // A face needs its four corners.
    let solid = |rows: &[Vec<f64>]| {
        rows[0]
            .windows(2)
            .zip(rows[1].windows(2))
            .any(|(a, b)| a.iter().chain(b).all(|v| v.is_finite()))
    };
    if !z.windows(2).any(solid) {
        return None;
    }
    let log = |sizes: &[u64]| {
        sizes
            .iter()
            .map(|n| (*n as f64).log2())
            .collect::<Vec<f64>>()
    };
    let surface = Surface3DPlot::new(z)
        .with_x_coords(log(&test.records))
        .with_y_coords(log(&test.files))
        .with_z_colormap(ColorMap::Viridis)
        .with_x_label("record, log2 bytes")
        .with_y_label("file, log2 bytes");
    let plots = vec![Plot::Surface3D(surface)];
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(330.0);
    let title = String::from(words::surface(&test.title, &of.layer.name));
    let description = String::from(words::of_surface(test.files.len(), test.records.len()));
    Some(Chart {
        svg: svg::draw(id, &title, &description, plots, layout),
        title,
        legend: Vec::new(),
        table: table(test, of),
    })
}

fn table(test: &SizeTable, of: &LayerTable) -> Table {
    let sizes = test.records.iter().map(|r| format_size(*r));
    let rows = test.files.iter().zip(&of.cells).map(|(file, row)| {
        let cells = row.iter().map(|cell| {
            let value = cell.and_then(|r| r.value);
            value.map_or_else(String::new, |v| number::value(v, "B/s"))
        });
        std::iter::once(format_size(*file)).chain(cells).collect()
    });
    Table {
        head: std::iter::once("file".to_owned()).chain(sizes).collect(),
        rows: rows.collect(),
    }
}
