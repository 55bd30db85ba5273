//! The workbook, opened again by another library.

use std::{
    collections::BTreeSet,
    io::{Cursor, Read},
    path::Path,
};

use calamine::{Data, Range, Reader, Xlsx};
use layermark_report::{Report, render};
use layermark_testkit::sample::{
    self, Sample,
    matrix::{IOZONE, Matrix, doubling},
};

type Book = Xlsx<Cursor<Vec<u8>>>;

fn bytes(report: &Report) -> Vec<u8> {
    let mut out = Vec::new();
    render::for_path(Path::new("x.xlsx"))
        .unwrap()
        .write(report, &mut out)
        .unwrap();
    out
}

fn book(report: &Report) -> Book {
    Xlsx::new(Cursor::new(bytes(report))).unwrap()
}

fn sheet(book: &mut Book, name: &str) -> Range<Data> {
    book.worksheet_range(name)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn number(range: &Range<Data>, row: u32, col: u32) -> Option<f64> {
    match range.get_value((row, col)) {
        Some(Data::Float(v)) => Some(*v),
        Some(Data::Empty) | None => None,
        other => panic!("{row}, {col}: {other:?} is no number"),
    }
}

fn matrix(matrix: &Matrix) -> Report {
    let (run, trials) = matrix.build();
    Report::build(&run, &trials)
}

/// Parts of the package by name.
fn entry(bytes: &[u8], name: &str) -> String {
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut text = String::new();
    zip.by_name(name)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// A cell of 0.033 said less than the page's `30x faster`, and a noisy one looked like a known one.
#[test]
fn cells_show_how_much_faster_and_how_noisy() {
    let (run, trials) = Sample::default().build();
    let mut report = Report::build(&run, &trials);
    let noisy = report
        .results
        .iter_mut()
        .find(|r| r.layer == "fuse" && r.label == "small read, cold")
        .unwrap();
    noisy.verdict = layermark_report::Verdict::Undecided;
    let bytes = bytes(&report);
    let styles = entry(&bytes, "xl/styles.xml");
    assert!(styles.contains("30x faster&quot;"), "{styles}");
    assert!(styles.contains("0.00&quot; \u{b1}2%&quot;"), "{styles}");
    let mut book = Xlsx::new(Cursor::new(bytes)).unwrap();
    let overview = sheet(&mut book, "Overview");
    let numbers = overview.used_cells().filter_map(|(_, _, c)| match c {
        Data::Float(v) => Some(*v),
        _ => None,
    });
    assert!(
        numbers.into_iter().any(|v| v < 0.04),
        "the number is the ratio"
    );
}

#[test]
fn the_matrix_comes_first_then_the_verdict_and_how_to_do_it_again() {
    let (run, trials) = sample::full().build();
    let report = Report::build(&run, &trials);
    let mut book = book(&report);
    assert_eq!(book.sheet_names()[..2], ["Overview", "Verdict"]);
    let page = sheet(&mut book, "Verdict");
    let cells: Vec<String> = page.used_cells().map(|(_, _, c)| c.to_string()).collect();
    let has = |wanted: &str| cells.iter().any(|c| c.contains(wanted));
    assert_eq!(cells[0], report.headline.replace('`', ""));
    for verdict in &report.verdicts {
        assert!(has(&verdict.text.replace('`', "")), "{}", verdict.text);
    }
    for item in &report.trust {
        assert!(has(&item.title) && has(item.state.word()));
    }
    for layer in &report.layers {
        assert!(has(&layer.name));
    }
    assert!(has(&report.reproduce.command) && has(&report.reproduce.replay));
    assert!(has("mkfs.erofs is not installed") && has("budget = "));
}

#[test]
fn results_and_trials_are_numbers_as_measured() {
    let (run, trials) = Sample::default().build();
    let report = Report::build(&run, &trials);
    let mut book = book(&report);
    let results = sheet(&mut book, "Results");
    let column = |range: &Range<Data>, name: &str| {
        let head = range.rows().next().unwrap();
        head.iter()
            .position(|c| c == &Data::String(name.into()))
            .unwrap() as u32
    };
    let control = report.control.as_ref().unwrap().results.len();
    assert_eq!(results.height(), 1 + report.results.len() + control);
    for (row, r) in (1u32..).zip(&report.results) {
        assert_eq!(number(&results, row, column(&results, "value")), r.value);
        assert_eq!(number(&results, row, column(&results, "op_us")), r.op_us);
        let ratio = r.ratio.map(|e| e.estimate);
        assert_eq!(number(&results, row, column(&results, "ratio")), ratio);
        let layer = results.get_value((row, column(&results, "layer")));
        assert_eq!(layer, Some(&Data::String(r.layer.clone())));
    }
    let sheet = sheet(&mut book, "Trials");
    assert_eq!(sheet.height(), 1 + report.trials.len());
    for (row, t) in (1u32..).zip(&report.trials) {
        assert_eq!(number(&sheet, row, 0), Some(t.seq as f64));
        assert_eq!(number(&sheet, row, column(&sheet, "op_us")), t.op_us);
    }
}

#[test]
fn a_test_has_a_sheet_with_tables_where_iozones_workbook_has_them() {
    let matrix = Matrix::default();
    let report = self::matrix(&matrix);
    let bytes = bytes(&report);
    let mut book: Book = Xlsx::new(Cursor::new(bytes.clone())).unwrap();
    assert_eq!(
        book.sheet_names(),
        [
            "Overview",
            "Verdict",
            "write, sync",
            "read, warm, sync",
            "rand-read, warm, sync",
            "read, warm, stdio",
            "iozone native",
            "iozone fuse",
            "iozone loop xfs",
            "Results",
            "Trials"
        ]
    );
    let value = |op: &str, layer: &str, file: u64, record: u64| {
        let found = report.results.iter().find(|r| {
            r.layer == layer
                && r.point["op"] == op
                && r.point["engine"] == "sync"
                && r.point["file_size"] == file
                && r.point["record"] == record
        });
        found.map(|r| r.value.unwrap() / 1024.0)
    };
    // Layers one below another in the sheet of a test, tests one below another in that of a layer.
    let places = [
        ("read, warm, sync", 3, "native", "read", "native"),
        ("read, warm, sync", 19, "fuse", "read", "fuse"),
        ("iozone native", 3, "Writer report", "write", "native"),
        (
            "iozone loop xfs",
            3 + 2 * 16,
            "Reader report",
            "read",
            "loop:xfs",
        ),
        (
            "iozone loop xfs",
            3 + 4 * 16,
            "Random read report",
            "rand-read",
            "loop:xfs",
        ),
    ];
    for (name, at, title, op, layer) in places {
        let range = sheet(&mut book, name);
        assert_eq!(
            range.get_value((at, 0)),
            Some(&Data::String(title.into())),
            "{name}"
        );
        for (col, record) in (1u32..).zip(&matrix.records) {
            assert_eq!(number(&range, at + 1, col), Some((record / 1024) as f64));
            for (row, file) in (at + 2..).zip(&matrix.files) {
                assert_eq!(number(&range, row, 0), Some((file / 1024) as f64));
                assert_eq!(
                    number(&range, row, col),
                    value(op, layer, *file, *record),
                    "{name} {file} {record}"
                );
            }
        }
    }
    let xml = entry(&bytes, "xl/worksheets/sheet3.xml");
    assert!(
        xml.contains("<cfRule type=\"colorScale\""),
        "a colour scale"
    );
    // The first one is of the overview.
    let charts = (2..=13).map(|n| entry(&bytes, &format!("xl/charts/chart{n}.xml")));
    for chart in charts {
        assert!(chart.contains("<c:lineChart>") && chart.matches("<c:ser>").count() == 3);
        assert!(
            chart.contains("<c:f>") && chart.contains("$B$"),
            "its numbers are the cells'"
        );
    }
}

#[test]
fn the_whole_matrix_of_iozone_fits_and_keeps_its_places() {
    let report = matrix(&Matrix {
        works: IOZONE.to_vec(),
        files: doubling(64 << 10, 512 << 20),
        records: doubling(4 << 10, 16 << 20),
        layers: Vec::new(),
        blocks: 1,
    });
    assert_eq!(report.results.len(), 1_638);
    let mut book = book(&report);
    let range = sheet(&mut book, "iozone native");
    // As programs read the workbook: 16 rows a table, records from column B to N.
    for (n, title) in ["Writer", "Re-writer", "Reader"].iter().enumerate() {
        let at = 3 + 16 * n as u32;
        assert_eq!(
            range.get_value((at, 0)),
            Some(&Data::String(format!("{title} report")))
        );
        assert_eq!(number(&range, at + 1, 13), Some(16_384.0));
        assert_eq!(number(&range, at + 15, 0), Some(524_288.0));
        assert!(number(&range, at + 15, 13).is_some());
    }
    assert_eq!(
        range.get_value((3 + 16 * 12, 0)),
        Some(&Data::String("Re-Fread report".into()))
    );
}

#[test]
fn labels_are_text_and_sheets_have_legal_names() {
    const EVIL: &str = "=HYPERLINK(\"http://x\")[]:*?/\\'\u{1}";
    let (mut run, trials) = Matrix::default().build();
    run.layers[1].name = EVIL.into();
    run.plan.about = "+1".into();
    for point in run.points.iter_mut().take(6) {
        point.label = format!("@{}", point.label);
        point.meaning.parts[0].text = "=1+1".into();
    }
    let report = Report::build(&run, &trials);
    let bytes = bytes(&report);
    let mut book: Book = Xlsx::new(Cursor::new(bytes.clone())).unwrap();
    let names = book.sheet_names();
    let unique: BTreeSet<String> = names.iter().map(|n| n.to_lowercase()).collect();
    assert_eq!(unique.len(), names.len());
    for name in &names {
        assert!(
            name.encode_utf16().count() <= 31
                && !name.contains(['[', ']', ':', '*', '?', '/', '\\']),
            "{name}"
        );
        assert_eq!(
            book.worksheet_formula(name).unwrap().used_cells().count(),
            0,
            "{name}"
        );
    }
    for n in 1..=3 {
        let chart = entry(&bytes, &format!("xl/charts/chart{n}.xml"));
        assert!(!chart.contains("<c:f>HYPERLINK"), "a name is no reference");
    }
}

#[test]
fn what_is_not_a_number_is_an_empty_cell() {
    let (run, mut trials) = Sample::default().build();
    for (n, t) in trials.iter_mut().enumerate() {
        match n % 3 {
            0 => t.trial = None,
            1 => t.foreign_cpu = f64::NAN,
            _ => t.trial.as_mut().unwrap().passes[0].elapsed_ns = 0,
        }
    }
    let mut report = Report::build(&run, &trials);
    report.results[0].value = Some(f64::INFINITY);
    report.trials[0].op_us = Some(f64::NAN);
    let mut book = book(&report);
    for name in book.sheet_names() {
        for (.., cell) in sheet(&mut book, &name).used_cells() {
            let text = cell.to_string();
            assert!(
                !["NAN", "NaN", "INF", "inf", "#NUM!"].contains(&text.as_str()),
                "{name}"
            );
        }
    }
}

#[test]
fn twenty_thousand_trials_are_streamed() {
    let (run, trials) = Sample {
        blocks: 1,
        ..Sample::default()
    }
    .build();
    let mut report = Report::build(&run, &trials);
    let one = report.trials[0].clone();
    report.trials = (0..20_000)
        .map(|seq| layermark_report::TrialRow { seq, ..one.clone() })
        .collect();
    let bytes = bytes(&report);
    assert!(bytes.len() < 4 << 20, "{}", bytes.len());
    let mut book: Book = Xlsx::new(Cursor::new(bytes)).unwrap();
    let range = sheet(&mut book, "Trials");
    assert_eq!(range.height(), 20_001);
    assert_eq!(number(&range, 20_000, 0), Some(19_999.0));
}

#[test]
fn the_same_run_gives_the_same_workbook() {
    let report = matrix(&Matrix::default());
    assert!(bytes(&report) == bytes(&report));
}

#[test]
fn launches_have_a_sheet_in_their_order_and_one_of_their_levels() {
    let ms: Vec<f64> = (0..30)
        .map(|n| if n < 15 { 600.0 } else { 350.0 } + f64::from(n % 4))
        .collect();
    let (run, trials) = sample::launches(&ms);
    let report = Report::build(&run, &trials);
    let mut book = book(&report);
    let text = |range: &Range<Data>, row, col| range.get_value((row, col)).map(ToString::to_string);
    let range = sheet(&mut book, "Every launch");
    assert_eq!(range.height(), 1 + ms.len());
    let head: Vec<String> = range
        .rows()
        .next()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(head[..4], ["time", "elapsed ms", "window", "program"]);
    let column = |name: &str| head.iter().position(|h| h == name).unwrap() as u32;
    for (row, ms) in (1u32..).zip(&ms) {
        assert_eq!(number(&range, row, 1), Some(*ms));
        assert_eq!(text(&range, row, 2).as_deref(), Some("Login"));
        assert_eq!(number(&range, row, column("run")), Some(f64::from(row)));
        let delta = number(&range, row, column("finish ms")).unwrap()
            - number(&range, row, column("start ms")).unwrap();
        assert!((delta - ms).abs() < 1e-6);
        let level = if row <= 15 { 1.0 } else { 2.0 };
        assert_eq!(number(&range, row, column("level")), Some(level), "{row}");
    }
    let levels = sheet(&mut book, "Launch levels");
    assert_eq!(levels.height(), 3);
    assert_eq!(number(&levels, 2, 2), Some(16.0));
    let step = levels
        .rows()
        .next()
        .unwrap()
        .iter()
        .position(|h| h == &Data::String("step ms".into()));
    let step = step.unwrap() as u32;
    assert_eq!(number(&levels, 1, step), None);
    assert!((number(&levels, 2, step).unwrap() + 250.0).abs() < 5.0);
}

#[test]
fn a_card_prints_on_a_few_pages_and_has_a_chart_of_its_ratios() {
    let (run, trials) = sample::full().build();
    let report = Report::build(&run, &trials);
    let bytes = bytes(&report);
    let mut book: Book = Xlsx::new(Cursor::new(bytes.clone())).unwrap();
    let names = book.sheet_names();
    for n in 1..=names.len() {
        let xml = entry(&bytes, &format!("xl/worksheets/sheet{n}.xml"));
        assert!(
            xml.contains("fitToPage=\"1\"") && xml.contains("orientation=\"landscape\""),
            "{}",
            names[n - 1]
        );
        assert!(
            xml.contains("fitToHeight=\"0\""),
            "as many pages as it needs"
        );
    }
    let defined = entry(&bytes, "xl/workbook.xml");
    for list in ["Results", "Trials"] {
        assert!(
            defined.contains(&format!(">{list}!$1:$1</definedName>")),
            "{defined}"
        );
        assert!(defined.contains(&format!(">{list}!$A$1:$")), "{defined}");
    }
    assert!(report.trials.len() > 200 && defined.contains("$201</definedName>"));
    let overview = sheet(&mut book, "Overview");
    let label = "first write to a packaged file";
    let row = overview
        .rows()
        .position(|r| r[0] == Data::String(label.into()));
    let row = row.expect("the label is whole") as u32;
    let layers = overview.rows().nth(3).expect("heads").to_vec();
    for (col, layer) in (1u32..).zip(&layers[1..]) {
        let result = report.results.iter();
        let mut result =
            result.filter(|r| r.label == label && layer == &Data::String(r.layer.clone()));
        let ratio = result.next().expect("a result").ratio.map(|e| e.estimate);
        assert_eq!(number(&overview, row, col), ratio);
    }
    let chart = entry(&bytes, "xl/charts/chart1.xml");
    assert!(chart.contains("<c:barChart>") && chart.contains("<c:crossesAt val=\"1\"/>"));
    assert_eq!(chart.matches("<c:ser>").count(), layers.len() - 1);
}
