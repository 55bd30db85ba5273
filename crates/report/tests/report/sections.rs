//! Cost model, record sizes and studies in the workbook and as CSV.

use std::{
    io::{Cursor, Read},
    path::Path,
};

use crate::made::Made;
use calamine::{Data, Reader, Xlsx};
use layermark_report::{Report, render};
use serde_json::json;

pub fn report(study: Option<&str>, blocks: u32) -> Report {
    let records: Vec<u64> = (5..=16).map(|e| 1u64 << e).collect();
    let made = Made::new(&["native", "fuse"], blocks)
        .points("read", &records, 64 << 10)
        .points("write", &records, 64 << 10)
        .points_with("read", &records, 64 << 10, &json!({"engine": "stdio"}));
    study
        .map_or(made, |id| {
            Made::new(&["native", "fuse"], blocks)
                .study(id)
                .points("read", &records, 64 << 10)
                .points("rewrite", &records, 64 << 10)
        })
        .cost(|layer, _, record| {
            let native = 1.0 + 1e-4 * record;
            if layer == "fuse" {
                native + 30.0
            } else {
                native
            }
        })
        .build()
}

fn written(report: &Report, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let exporter = render::for_path(Path::new(name)).unwrap();
    exporter.write(report, &mut out).unwrap();
    out
}

#[test]
fn each_section_has_a_sheet_with_its_numbers() {
    let report = report(None, 8);
    let sections = report.sections();
    assert!(sections.len() >= 2, "cost and record sizes");
    let bytes = written(&report, "r.xlsx");
    let mut book = Xlsx::new(Cursor::new(bytes.clone())).unwrap();
    let names = book.sheet_names();
    for section in &sections {
        let short: String = section.title.chars().take(20).collect();
        let name = names.iter().find(|n| n.starts_with(&short)).unwrap();
        let sheet = book.worksheet_range(name).unwrap();
        let cells: Vec<&Data> = sheet.used_cells().map(|(_, _, c)| c).collect();
        for table in &section.tables {
            assert!(cells.iter().any(|c| c.to_string() == table.title));
            let numbers = table.rows.iter().flatten().filter_map(|c| c.value);
            for number in numbers {
                assert!(cells.contains(&&Data::Float(number)), "{name}: {number}");
            }
        }
        for chart in &section.charts {
            let points = chart.series.iter().flat_map(|s| &s.points);
            for point in points {
                assert!(cells.contains(&&Data::Float(point.y)), "{name}: {point:?}");
            }
        }
    }
    let charts: usize = sections.iter().map(|s| s.charts.len()).sum();
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut drawn = String::new();
    zip.by_name(&format!("xl/charts/chart{charts}.xml"))
        .unwrap()
        .read_to_string(&mut drawn)
        .unwrap();
    assert!(drawn.contains("<c:v>") || drawn.contains("<c:f>"));
}

#[test]
fn a_study_has_a_sheet_with_what_it_concludes() {
    let report = report(Some("iozone-vm"), 6);
    let mut book = Xlsx::new(Cursor::new(written(&report, "r.xlsx"))).unwrap();
    let names = book.sheet_names();
    assert_eq!(names[0], "file systems of development mac", "{names:?}");
    let sheet = book.worksheet_range(&names[0]).unwrap();
    let cells: Vec<String> = sheet.used_cells().map(|(_, _, c)| c.to_string()).collect();
    let study = report.study.as_ref().unwrap();
    assert!(!study.conclusions.is_empty());
    for conclusion in &study.conclusions {
        assert!(cells.contains(&conclusion.text.replace('`', "")));
    }
    // Sentences are as wide as the tables and as high as they need; numbers have three digits.
    let mut zip = zip::ZipArchive::new(Cursor::new(written(&report, "r.xlsx"))).unwrap();
    let mut part = |name: &str| {
        let mut text = String::new();
        let mut file = zip.by_name(name).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    let xml = part("xl/worksheets/sheet1.xml");
    let merged = xml.matches("<mergeCell ref=\"B").count();
    assert_eq!(merged, study.conclusions.len());
    assert!(xml.matches("customHeight").count() > merged, "{xml}");
    assert!(part("xl/styles.xml").contains("formatCode=\"0.00\""));
    // A test that is none of the study's four charts has its table too.
    let title = "Re-writer, 64K file: KB/s";
    assert!(study.tables.iter().any(|t| t.title == title));
    assert!(cells.iter().any(|c| c == title));
}

#[test]
fn csv_has_a_line_for_each_cell_of_each_table() {
    for study in [None, Some("buffer-size")] {
        let report = report(study, 6);
        let text = String::from_utf8(written(&report, "r.sections.csv")).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let sections = report.all_sections();
        for name in ["cost", "buffer"] {
            let section = sections.iter().find(|s| s.name == name).expect(name);
            let cells: usize = section
                .tables
                .iter()
                .map(|t| t.rows.len() * t.head.len())
                .sum();
            let own = lines.iter().filter(|l| &l[1] == name);
            assert_eq!(own.clone().count(), cells, "{name}");
            let values = section.tables.iter().flat_map(|t| t.rows.iter().flatten());
            let values: Vec<Option<f64>> = values.map(|c| c.value).collect();
            let read: Vec<Option<f64>> = own.map(|l| l[6].parse().ok()).collect();
            assert_eq!(read, values, "{name}");
        }
        if let Some(study) = study {
            assert!(lines.iter().any(|l| &l[1] == study));
        }
    }
}
