//! Each format of each stored run of the testkit stays as it is: what a terminal shows as text, the others as a hash.
//! After a wanted change: `INSTA_UPDATE=always cargo test --workspace --test report fixtures`, and read the diff.

use std::{
    fmt::Write,
    io::{Cursor, Read},
};

use layermark_report::{
    Report, TALLY_RULES, Tally,
    render::{self, Exporter, Style},
};
use layermark_testkit::fixtures::{self, Kept};
use sha2::{Digest, Sha256};

use crate::golden::rounded;

/// A picture is drawn from an SVG file, by arithmetic that is not the same on every machine.
const DRAWN: [&str; 2] = ["png", "card_png"];
/// What shows a comparison of two runs.
const OF_TWO: [&str; 6] = ["html", "json", "markdown", "junit", "csv", "terminal"];

fn report(kept: &Kept) -> Report {
    let mut report = Report::build(&kept.run, &kept.trials);
    for import in &kept.imports {
        report.set_beside(import);
    }
    report
}

/// Bytes of a format that are the same on each machine and at each time.
fn steady(exporter: &dyn Exporter, report: &Report) -> Vec<u8> {
    let mut bytes = Vec::new();
    exporter.write(report, &mut bytes).expect("a file");
    if !bytes.starts_with(b"PK\x03\x04") {
        return rounded(&String::from_utf8(bytes).expect("text")).into_bytes();
    }
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).expect("a workbook");
    let mut all = Vec::new();
    for at in 0..zip.len() {
        let mut part = zip.by_index(at).expect("a part");
        let mut text = String::new();
        // With the time at which it was made.
        if part.name().expect("a name") != "docProps/core.xml" {
            part.read_to_string(&mut text).expect("XML");
            all.extend(rounded(&text).into_bytes());
        }
    }
    all
}

/// What a terminal shows, short and in full, then a line for each other format.
fn pinned(report: &Report, command: &str, formats: &[&dyn Exporter]) -> String {
    let style = Style {
        width: 100,
        colour: false,
        ..Style::default()
    };
    let (mut short, mut full) = (Vec::new(), Vec::new());
    render::print(report, style, &mut short).expect("a summary");
    render::print_full(report, style, &mut full).expect("a report");
    let [short, full] = [short, full].map(|text| String::from_utf8(text).expect("text"));
    let mut all = format!("$ {command}\n{short}\n--full:\n{full}\n");
    for exporter in formats {
        let bytes = steady(*exporter, report);
        let hash = Sha256::digest(&bytes);
        let hash = hash.iter().take(8).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let (id, length) = (exporter.id(), bytes.len());
        writeln!(all, "{id}: {length} bytes, SHA-256 {hash}...").expect("text");
    }
    all
}

fn formats(wanted: impl Fn(&str) -> bool) -> Vec<&'static dyn Exporter> {
    let all = render::ALL.iter().copied();
    all.filter(|e| wanted(e.id())).collect()
}

#[test]
fn every_format_of_every_fixture() {
    let formats = formats(|id| !DRAWN.contains(&id));
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let text = pinned(&report(&kept), &kept.command, &formats);
        insta::assert_snapshot!(format!("fixture_{}", fixture.name), text);
    }
}

#[test]
fn two_runs_with_gates() {
    let [old, new] = ["compare-old", "compare-new"].map(|name| fixtures::fixture(name).read());
    let mut both = report(&new)
        .compare(&report(&old), new.run.plan.delta)
        .expect("one point in both");
    let gates = ["slower=10%", "slower=100000x"].map(|gate| gate.parse().expect("a gate"));
    both.hold_to(&gates, false);
    let command =
        "layermark compare compare-old compare-new --fail-if slower=10% --fail-if slower=100000x";
    let text = pinned(&both, command, &formats(|id| OF_TWO.contains(&id)));
    insta::assert_snapshot!("fixture_compared", text);
}

#[test]
fn a_run_with_gates() {
    for name in ["gate-held", "gate-broken"] {
        let kept = fixtures::fixture(name).read();
        let mut report = report(&kept);
        report.hold_to(&["slower=1.5x".parse().expect("a gate")], false);
        let command = format!("{} --fail-if slower=1.5x", kept.command);
        let text = pinned(&report, &command, &formats(|id| OF_TWO.contains(&id)));
        insta::assert_snapshot!(format!("fixture_{name}_with_its_gate"), text);
    }
}

/// Stores keep tallies, and must not show those of rules that have changed.
#[test]
fn the_rules_of_tallies_have_the_name_of_what_they_give() {
    let mut hash = Sha256::new();
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let tally = Tally::of(&kept.run, &kept.trials);
        // Its headline is kept beside the counts.
        let [asked, same] = [tally.asked, tally.same];
        let [slower, faster] = [tally.slower, tally.faster];
        let counts =
            format!("Tally {{ asked: {asked}, same: {same}, slower: {slower}, faster: {faster} }}");
        hash.update(format!("{} {counts}\n", fixture.name));
    }
    let hash = hash.finalize();
    let name = format!(
        "{:08x}",
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
    );
    assert_eq!(
        TALLY_RULES, name,
        "the rules have changed: write the new name into crates/report/src/history.rs"
    );
}
