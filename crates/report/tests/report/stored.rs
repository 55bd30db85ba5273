//! Runs that were stored before workloads declared their figures: the report says the same as then.
//!
//! `stored/NAME.json` is such a run, `stored/NAME.md` what the report of that version wrote of its figures.

use layermark_model::{Run, TrialRecord};
use layermark_report::{Report, exporters};
use serde::Deserialize;

#[derive(Deserialize)]
struct Stored {
    run: Run,
    trials: Vec<TrialRecord>,
}

/// As the store reads it.
fn report(text: &str) -> Report {
    let mut stored: Stored = serde_json::from_str(text).expect("a stored run");
    for point in &mut stored.run.points {
        assert!(point.meaning.figures.is_none(), "an old run");
        point.meaning.figures = layermark_probe::workloads::meaning(point).figures;
        assert!(point.meaning.figures.is_some(), "{}", point.label);
    }
    Report::build(&stored.run, &stored.trials)
}

fn says_the_same(run: &str, section: &str) {
    let exporter = exporters::for_path("x.full.md".as_ref()).expect("Markdown");
    let mut out = Vec::new();
    exporter.write(&report(run), &mut out).expect("text");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.contains(section), "{text}\n\nhas not:\n\n{section}");
}

#[test]
fn devload() {
    says_the_same(
        include_str!("stored/devload.json"),
        include_str!("stored/devload.md"),
    );
}

#[test]
fn net() {
    says_the_same(
        include_str!("stored/net.json"),
        include_str!("stored/net.md"),
    );
}

#[test]
fn http() {
    says_the_same(
        include_str!("stored/http.json"),
        include_str!("stored/http.md"),
    );
}

#[test]
fn ftp() {
    says_the_same(
        include_str!("stored/ftp.json"),
        include_str!("stored/ftp.md"),
    );
}
