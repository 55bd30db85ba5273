//! The study of application virtualisation over made-up repeats whose truth is known.

use crate::made::{Made, mark};
use calamine::{Reader, Xlsx};
use layermark_model::{DeviceBytes, Point, Trial};
use layermark_report::{
    Conclusion, Holds, Report, Section,
    render::{self, Style},
};
use serde_json::json;

const SIZES: [u64; 4] = [4 << 10, 32 << 10, 512 << 10, 1 << 20];
const FILE: u64 = 250 << 20;

/// Reads from the device when cold; the second repeat of native's at 4K came from memory.
fn sources(layer: &str, point: &Point, block: u32, trial: &mut Trial) {
    let first = point.text("op") == "read" && point.text("cache") == "cold";
    let slip = layer == "native" && point.number("record") == 4096 && block == 1;
    let from_device = first && !slip;
    trial.resident = Some(if from_device { 0.0 } else { 1.0 });
    trial.device = Some(DeviceBytes {
        read: if from_device { FILE } else { 0 },
        ..DeviceBytes::default()
    });
}

/// The layers of the study's plan.
const PLAN: [&str; 10] = [
    "native",
    "overlay:merged",
    "overlay:writecopy",
    "overlay:upper",
    "image:squashfs",
    "image:erofs",
    "image:squashfuse",
    "image:squashfs,upper=on",
    "image:erofs,upper=on",
    "fuse",
];

pub fn report() -> Report {
    made().build()
}

pub fn made() -> Made {
    of(&["native", "overlay:upper", "fuse", "image:erofs"])
}

fn of(layers: &[&str]) -> Made {
    Made::new(layers, 3)
        .study("fileio-appvirt")
        .points("write", &SIZES, FILE)
        .points_with("read", &SIZES, FILE, &json!({"cache": "cold"}))
        .points_with("read", &SIZES, FILE, &json!({"cache": "warm"}))
        .read_only("image:erofs")
        .noise(0.1)
        .cost(|layer, point, record| {
            let slow = if layer == "fuse" && point.text("op") == "write" {
                3.0
            } else {
                1.0
            };
            let cold = if point.text("cache") == "cold" {
                10.0
            } else {
                1.0
            };
            slow * cold * 1e-3 * record
        })
        .change(sources)
}

fn study(report: &Report) -> &Section {
    report.study.as_ref().expect("the plan names it")
}

#[track_caller]
fn about<'a>(report: &'a Report, layer: &str, words: &str) -> &'a Conclusion {
    let all = &study(report).conclusions;
    let found = all
        .iter()
        .find(|c| c.text.contains(&mark(layer)) && c.text.contains(words));
    found.unwrap_or_else(|| panic!("nothing of {layer} and {words}: {all:#?}"))
}

#[test]
fn differences_are_told_by_the_reports_own_rule() {
    let report = report();
    let overlay = about(&report, "overlay:upper", "write in");
    assert_ne!(overlay.holds, Holds::No, "{overlay:?}");
    // Three repeats that overlap with native's are no proof of being the same.
    assert!(overlay.text.contains("too noisy at 4 of 4"), "{overlay:?}");
    let fuse = about(&report, "fuse", "write in");
    assert_eq!(fuse.holds, Holds::No);
    assert!(
        fuse.text.contains("slower") && fuse.text.contains("at 1M"),
        "{}",
        fuse.text
    );
    assert_eq!(fuse.evidence.len(), 8);
    let summary = &study(&report).tables[0];
    assert!(
        summary.title.starts_with("Write, 250M"),
        "{}",
        summary.title
    );
    assert_eq!(summary.head, ["record", "native", "overlay:upper", "fuse"]);
    let cell = &summary.rows[3][2].text;
    assert!(cell.contains("too noisy") || cell.contains("er "), "{cell}");
    // 250 records of 1,049 us.
    assert!((summary.rows[3][1].value.expect("seconds") / 0.262 - 1.0).abs() < 0.2);
}

#[test]
fn a_repeat_from_memory_is_set_apart_by_its_proof() {
    let report = report();
    let tables = &study(&report).tables;
    let native = tables
        .iter()
        .find(|t| t.title == "native: read, the first time, each repeat");
    let native = native.expect("a table");
    assert!(
        native.note.contains("1 repeat came from elsewhere"),
        "{}",
        native.note
    );
    let row = &native.rows[0];
    assert!(row[2].text.ends_with(", host memory"), "{row:#?}");
    let value = |n: usize| row[n].value.expect("seconds");
    assert!(
        (value(4) - f64::midpoint(value(1), value(3))).abs() < 1e-9,
        "{row:#?}"
    );
    assert_eq!(row[6].text, "device");
    // The image has reads alone.
    assert!(
        tables
            .iter()
            .all(|t| !t.title.starts_with("image:erofs: write"))
    );
    assert!(
        tables
            .iter()
            .any(|t| t.title == "image:erofs: read, again, each repeat")
    );
}

#[test]
fn later_reads_and_write_back_are_decided_by_proof() {
    let report = report();
    let fuse = about(&report, "fuse", "first read comes from the device (4 of 4");
    assert_eq!(fuse.holds, Holds::Yes, "{fuse:?}");
    let debt = about(&report, "native", "has written nearly everything");
    assert_eq!(debt.holds, Holds::No);
    assert!(debt.text.contains("1.00 s more"), "{}", debt.text);
    let reports_ids = study(&report).conclusions.iter().flat_map(|c| &c.evidence);
    assert!(
        reports_ids.clone().count() > 20
            && reports_ids.clone().all(|id| report.result(id).is_some())
    );
}

fn written(report: &Report, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let exporter = render::for_path(name.as_ref()).unwrap();
    exporter.write(report, &mut out).unwrap();
    out
}

fn printed(report: &Report, width: usize) -> String {
    let style = Style {
        width,
        colour: false,
        ..Style::default()
    };
    let mut out = Vec::new();
    render::print(report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_conclusion_has_a_cell_of_the_matrix() {
    let report = report();
    let study = study(&report);
    let claims = study.claims().unwrap();
    assert_eq!(claims.layers[..2], ["overlay:upper", "fuse"]);
    let cells = claims
        .claims
        .iter()
        .flat_map(|(_, all)| all.iter().flatten());
    assert_eq!(cells.count(), study.conclusions.len());
    let (claim, all) = &claims.claims[0];
    assert_eq!(*claim, "write takes as long as natively");
    assert_eq!(
        all[1].unwrap().holds,
        Holds::No,
        "fuse is three times slower"
    );
    // The image cannot be written.
    let image = claims.layers.iter().position(|l| *l == "image:erofs");
    assert!(all[image.unwrap()].is_none());
}

#[test]
fn a_study_answers_with_its_claims_before_any_row() {
    let report = report();
    let claim = "write takes as long as natively";
    let before = |text: &str, other: &str| {
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}"));
        assert!(at(claim) < at(other), "{claim} stands after {other}");
    };
    let html = String::from_utf8(written(&report, "x.html")).unwrap();
    before(&html, "<table class=\"heat\">");
    before(&html, "<table class=\"results\">");
    for id in html.split("<td><a href=\"#").skip(1) {
        let id = id.split_once('"').unwrap().0;
        assert!(html.contains(&format!(" id=\"{id}\"")), "{id}");
    }
    before(
        &String::from_utf8(written(&report, "x.md")).unwrap(),
        "| operation |",
    );
    before(
        &String::from_utf8(written(&report, "x.full.md")).unwrap(),
        "## Results",
    );
    let terminal = printed(&report, 100);
    assert!(
        terminal.lines().take(5).any(|l| l.contains(claim)),
        "{terminal}"
    );
    before(&terminal, "Trust:");
    let full = String::from_utf8(written(&report, "x.txt")).unwrap();
    before(&full, "ratio [95 %]");
    let mut book = Xlsx::new(std::io::Cursor::new(written(&report, "x.xlsx"))).unwrap();
    let names = book.sheet_names();
    assert_eq!(names[1], "Verdict");
    let first = book.worksheet_range(&names[0]).unwrap();
    let says = |row: usize, col: usize| first.get((row, col)).map(ToString::to_string);
    assert_eq!(says(4, 0).as_deref(), Some("claim"));
    assert_eq!(says(5, 0).as_deref(), Some(claim));
    assert_eq!(says(5, 2).as_deref(), Some("no"));
}

#[test]
fn a_study_answers_in_40_lines() {
    let report = of(&PLAN).build();
    let text = printed(&report, 100);
    let answer = text.as_str();
    // One table or none; the others are counted.
    let tables = &study(&report).tables;
    let shown = tables
        .iter()
        .filter(|t| answer.contains(&format!("\n{}\n", t.title)));
    let (left, word) = match shown.count() {
        0 => (tables.len(), "table"),
        n => (tables.len() - n, "more table"),
    };
    assert!(tables.len() > 2 && left + 1 >= tables.len(), "{answer}");
    let rest = format!("and {left} {word}s: --full");
    assert!(answer.contains(&rest), "{rest}: {answer}");
    assert!(answer.lines().count() <= 40, "{answer}");
    let longest = answer.lines().map(|l| l.chars().count()).max();
    assert!(longest <= Some(100), "{longest:?}: {answer}");
    // Every claim, with an answer for each layer that it is asked of.
    let claims = study(&report).claims().unwrap();
    for (claim, _) in &claims.claims {
        assert!(answer.contains(claim), "{claim}: {answer}");
    }
    let is_cell = |word: &&str| ["yes", "no", "?", "-"].contains(word);
    let rows = answer
        .lines()
        .filter(|l| claims.claims.iter().any(|(c, _)| l.starts_with(c)));
    let cells: usize = rows
        .map(|l| l.split_whitespace().filter(is_cell).count())
        .sum();
    assert_eq!(cells, claims.claims.len() * claims.layers.len(), "{answer}");
    let headline = report.headline.replace('`', "");
    let start: String = headline.chars().take(40).collect();
    assert!(answer.contains(&start), "{start}: {answer}");
    let sentences = |text: &str| {
        let all = [Holds::Yes, Holds::No, Holds::Open].map(|h| format!("  {}: ", h.words()));
        let starts = |line: &&str| all.iter().any(|s| line.starts_with(s));
        text.lines().filter(starts).count()
    };
    let conclusions = &study(&report).conclusions;
    let shown = sentences(answer);
    assert!((2..=5).contains(&shown), "{answer}");
    let more = format!("and {} more conclusions: --full", conclusions.len() - shown);
    assert!(answer.contains(&more), "{more}: {answer}");
    // The exception is told, and `--full` tells all.
    assert!(
        answer.contains("no: write in fuse takes as long"),
        "{answer}"
    );
    let full = String::from_utf8(written(&report, "x.txt")).unwrap();
    assert_eq!(sentences(&full), conclusions.len());
}

#[test]
fn a_table_too_wide_for_the_window_is_split_into_groups_of_columns() {
    let report = report();
    for width in [60, 80, 100] {
        let style = Style {
            width,
            ..Style::default()
        };
        let mut text = Vec::new();
        render::print_full(&report, style, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let longest = text.lines().map(|l| l.chars().count()).max();
        assert!(longest <= Some(width), "{width}: {longest:?}");
        let table = text.split("Write, 250M: seconds").nth(1).unwrap();
        let table = table.split("Read, the first time").next().unwrap();
        // The first column names the row in each group; no row is a sentence.
        let rows = table
            .lines()
            .filter(|l| l.trim_start().starts_with("32K  "));
        let groups = if width == 100 { 1 } else { 2 };
        assert!(rows.count() >= groups, "{width}: {table}");
        assert!(!table.contains("; "), "{table}");
    }
}
