//! Throughput over file size and record as a surface, for each test and layer that has a matrix.

use kuva::{
    plot::{heatmap::ColorMap, surface3d::Surface3DPlot},
    prelude::{Layout, Plot},
};
use layermark_model::format_size;

use super::{Chart, Group, Table, svg};
use crate::{
    Report,
    analysis::size_table::{self, SizeTable},
    number,
};

/// All of them under one heading.
pub fn group(report: &Report) -> Option<Group> {
    let families = size_table::tables(report);
    let matrices = families.iter().enumerate().filter(|(_, f)| f.is_matrix());
    let charts: Vec<Chart> = matrices
        .flat_map(|(n, f)| {
            let layers = f.layers(report).into_iter().enumerate();
            layers.filter_map(move |(l, layer)| of(f, layer, &format!("surface-{n}-{l}")))
        })
        .collect();
    (!charts.is_empty()).then(|| Group {
        title: "Throughput over file size and record".into(),
        hint: "A surface shows the shape; the tables have the numbers.".into(),
        charts,
    })
}

/// The surface of a test in a layer, if its numbers make one. `id` is unique within the page.
pub fn of(family: &SizeTable, layer: &str, id: &str) -> Option<Chart> {
    if !family.is_matrix() {
        return None;
    }
    let rate = |file: &u64, record: &u64| {
        family
            .value(layer, *file, *record)
            .map_or(f64::NAN, |v| v / 1e9)
    };
    let z: Vec<Vec<f64>> = family
        .files
        .iter()
        .map(|file| family.records.iter().map(|r| rate(file, r)).collect())
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
        .with_x_coords(log(&family.records))
        .with_y_coords(log(&family.files))
        .with_z_colormap(ColorMap::Viridis)
        .with_x_label("record, log2 bytes")
        .with_y_label("file, log2 bytes");
    let plots = vec![Plot::Surface3D(surface)];
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(330.0);
    let title = format!("{}, {layer}: throughput, GB/s", family.describe());
    let description = format!(
        "Surface of throughput over {} and {}. The table below has every figure.",
        number::count(family.files.len(), "file size"),
        number::count(family.records.len(), "record")
    );
    Some(Chart {
        svg: svg::draw(id, &title, &description, plots, layout),
        title,
        legend: Vec::new(),
        table: table(family, layer),
    })
}

fn table(family: &SizeTable, layer: &str) -> Table {
    let sizes = family.records.iter().map(|r| format_size(*r));
    let rows = family.files.iter().map(|file| {
        let cells = family.records.iter().map(|record| {
            family
                .value(layer, *file, *record)
                .map_or_else(String::new, |v| number::value(v, "B/s"))
        });
        std::iter::once(format_size(*file)).chain(cells).collect()
    });
    Table {
        head: std::iter::once("file".to_owned()).chain(sizes).collect(),
        rows: rows.collect(),
    }
}
