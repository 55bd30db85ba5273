//! Runs that were stored before workloads declared their figures: the report says the same as then.
//!
//! `stored/NAME.json` is such a run, `stored/NAME.md` what the report of that version wrote of its figures, and
//! `stored/NAME.csv` and `stored/NAME.*.csv` are its tables with every digit.

use layermark_model::{Run, TrialRecord};
use layermark_report::{LaunchSeries, Report, render};
use serde::Deserialize;

use crate::golden::rounded;

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
    }
    Report::build(&stored.run, &stored.trials)
}

fn written(report: &Report, name: &str) -> String {
    let exporter = render::for_path(name.as_ref()).expect("a format");
    let mut out = Vec::new();
    exporter.write(report, &mut out).expect("text");
    String::from_utf8(out).expect("UTF-8")
}

/// Writes an expected text again; read the diff. `None` if nobody asks for that.
fn update(name: &str, text: &str) -> Option<()> {
    std::env::var_os("UPDATE_STORED")?;
    let path = format!("{}/tests/report/stored/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(path, text).expect("a file");
    Some(())
}

/// A section of a page, from its heading to the next one.
fn section_of<'a>(text: &'a str, like: &str) -> &'a str {
    let heading = like.lines().next().expect("a heading");
    let from = text.find(&format!("{heading}\n")).expect("the section");
    let end = text[from + 1..]
        .find("\n## ")
        .map_or(text.len(), |at| from + 1 + at + 1);
    &text[from..end]
}

fn says_the_same(name: &str, run: &str, section: &str) {
    let text = written(&report(run), "x.full.md");
    let own = section_of(&text, section).trim_end().to_owned() + "\n";
    if update(name, &own).is_none() {
        assert!(text.contains(section), "{text}\n\nhas not:\n\n{section}");
    }
}

/// To the last digit that does not depend on the machine's mathematics library.
fn has_the_same_numbers(report: &Report, stored: &str, name: &str, table: &str) {
    if update(&format!("{stored}.{}", &name[2..]), &written(report, name)).is_some() {
        return;
    }
    assert_eq!(rounded(&written(report, name)), rounded(table), "{name}");
}

#[test]
fn devload() {
    says_the_same(
        "devload.md",
        include_str!("stored/devload.json"),
        include_str!("stored/devload.md"),
    );
}

#[test]
fn net() {
    says_the_same(
        "net.md",
        include_str!("stored/net.json"),
        include_str!("stored/net.md"),
    );
}

#[test]
fn http() {
    says_the_same(
        "http.md",
        include_str!("stored/http.json"),
        include_str!("stored/http.md"),
    );
}

#[test]
fn ftp() {
    says_the_same(
        "ftp.md",
        include_str!("stored/ftp.json"),
        include_str!("stored/ftp.md"),
    );
}

#[test]
fn launch() {
    let report = report(include_str!("stored/launch.json"));
    // Names of layers are marked today.
    let text = written(&report, "x.full.md").replace('`', "");
    let like = include_str!("stored/launch.md");
    let said = section_of(&text, like);
    let lines = said.lines().filter(|l| l.starts_with(['#', '|', '-']));
    let lines: Vec<&str> = lines.collect();
    if update("launch.md", &(lines.join("\n") + "\n")).is_none() {
        for line in like.lines() {
            assert!(text.contains(line), "{text}\n\nhas not:\n\n{line}");
        }
    }
    has_the_same_numbers(
        &report,
        "launch",
        "x.csv",
        include_str!("stored/launch.csv"),
    );
    let launches = include_str!("stored/launch.launches.csv");
    has_the_same_numbers(&report, "launch", "x.launches.csv", launches);
    // One section, which every format draws.
    let apart = "run 1 (3.32 ms) is set apart: far slower than those that follow.";
    for name in ["x.txt", "x.full.md", "x.html"] {
        let text = written(&report, name).replace("&nbsp;", " ");
        assert!(
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(apart),
            "{name}"
        );
    }
    assert!(written(&report, "x.html").contains("Launches in the order of the run"));
    let traced = |s: &LaunchSeries| s.trace.as_ref().map(|t| (t.processes, t.opened, t.failed));
    let traced: Vec<_> = report.series.iter().map(traced).collect();
    let (ls, nothing) = (Some((1, 20, 15)), Some((1, 2, 1)));
    assert_eq!(traced, [ls, ls, nothing, nothing]);
}

#[test]
fn iops() {
    let run = include_str!("stored/iops.json");
    says_the_same("iops.md", run, include_str!("stored/iops.md"));
    let report = report(run);
    has_the_same_numbers(&report, "iops", "x.csv", include_str!("stored/iops.csv"));
    let cells = include_str!("stored/iops.sections.csv");
    has_the_same_numbers(&report, "iops", "x.sections.csv", cells);
}

/// One table had 1.13 (1.09 to 1.17), and the other 1.13 (1.08 to 1.18).
#[test]
fn a_series_of_one_level_has_the_ratio_of_its_result() {
    let report = report(include_str!("stored/launch.json"));
    let whole = report.series.iter().filter(|s| s.levels.len() == 1);
    let whole = whole.filter(|s| s.first_apart.is_none() && s.layer != "native");
    let mut seen = 0;
    for series in whole {
        let mut rows = report.results.iter();
        let row = rows.find(|r| r.id == series.result).unwrap();
        let ends = |ratio: Option<layermark_report::Estimate>| {
            ratio.unwrap().interval.map(|i| i.map(f64::to_bits))
        };
        assert_eq!(ends(series.levels[0].ratio), ends(row.ratio));
        seen += 1;
    }
    assert!(seen > 0);
}
