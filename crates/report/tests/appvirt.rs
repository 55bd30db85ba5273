//! The study of application virtualisation over made-up repeats whose truth is known.

mod made;

use layermark_model::{DeviceBytes, Point, Trial};
use layermark_report::{Conclusion, Holds, Report, Section};
use made::{Made, mark};
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

fn report() -> Report {
    Made::new(&["native", "overlay:upper", "fuse", "image:erofs"], 3)
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
        .build()
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
    let debt = about(&report, "native", "goes on writing");
    assert_eq!(debt.holds, Holds::Yes);
    assert!(debt.text.contains("1.00 s more"), "{}", debt.text);
    let reports_ids = study(&report).conclusions.iter().flat_map(|c| &c.evidence);
    assert!(
        reports_ids.clone().count() > 20
            && reports_ids.clone().all(|id| report.result(id).is_some())
    );
}
