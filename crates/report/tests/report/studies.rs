//! The headlines of the five studies: every figure and every answer is in the tables below them.

use layermark_report::{Holds, Report, Section};

use crate::{appvirt, iozone_vm, launch_share, sections, virtual_io};

fn study(report: &Report) -> &Section {
    report.study.as_ref().expect("the plan names it")
}

/// Names of the layers whose cell in the matrix of claims is this one.
fn cells(report: &Report, claim: &str, holds: Holds) -> Vec<String> {
    let claims = study(report).claims().expect("claims");
    let (_, all) = claims
        .claims
        .iter()
        .find(|(c, _)| *c == claim)
        .unwrap_or_else(|| panic!("no claim {claim}"));
    let with = claims.layers.iter().zip(all);
    let with = with.filter(|(_, c)| c.is_some_and(|c| c.holds == holds));
    with.map(|(layer, _)| (*layer).to_owned()).collect()
}

/// The layers named in a part of a headline.
fn named(part: &str) -> Vec<String> {
    let names = part.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// `claim: yes in A and B, no in C; ...`.
#[track_caller]
fn says_its_claims(report: &Report) {
    let mut answers = 0;
    for part in report.headline.split("; ") {
        let at = part.find(": yes in ").or_else(|| part.find(": no in "));
        let (claim, sides) = part.split_at(at.unwrap_or_else(|| panic!("{part}")));
        let claims = study(report).claims().expect("claims");
        let mut known = claims.claims.iter().map(|(c, _)| *c);
        let claim = known
            .find(|c| c.eq_ignore_ascii_case(claim))
            .unwrap_or_else(|| panic!("no claim {claim}"));
        for (word, holds) in [("yes in ", Holds::Yes), ("no in ", Holds::No)] {
            let Some((_, side)) = sides.split_once(word) else {
                continue;
            };
            let side = side.split(", no in ").next().unwrap_or_default();
            let layers = cells(report, claim, holds);
            answers += 1;
            if layers.len() > 3 {
                let count = format!("{} layers", layers.len());
                assert!(side.starts_with(&count), "{side}: {layers:?}");
            } else {
                assert_eq!(named(side), layers, "{}", report.headline);
            }
        }
    }
    assert!(answers > 0, "{}", report.headline);
}

#[test]
fn file_io_of_virtualised_applications() {
    says_its_claims(&appvirt::report());
}

#[test]
fn launches_from_disks_images_and_shares() {
    says_its_claims(&launch_share::report(10));
}

#[test]
fn file_systems_of_development_machines() {
    let report = iozone_vm::report();
    let mut parts = 0;
    for (start, claim, holds) in [
        (
            "Acknowledged writes can be lost in ",
            "flushes honestly",
            Holds::No,
        ),
        ("keep databases off ", "keep the database here", Holds::No),
        (
            "a database can be in ",
            "keep the database here",
            Holds::Yes,
        ),
        ("prefer ", "prefer it for reading", Holds::Yes),
    ] {
        for part in report.headline.split("; ").filter(|p| p.starts_with(start)) {
            assert_eq!(named(part), cells(&report, claim, holds), "{part}");
            parts += 1;
        }
    }
    assert_eq!(
        parts,
        report.headline.split("; ").count(),
        "{}",
        report.headline
    );
}

#[test]
fn emulated_against_paravirtual_devices() {
    let report = virtual_io::made(10, true).cpus(4).build();
    let claims = study(&report).claims().expect("claims");
    let cells = || {
        claims
            .claims
            .iter()
            .flat_map(|(_, all)| all.iter().flatten())
    };
    let of = |holds: Holds| cells().filter(|c| c.holds == holds).count();
    let told = format!(
        "Of {} claims of the study, {} hold here, {} do not, {} are not decided",
        cells().count(),
        of(Holds::Yes),
        of(Holds::No),
        of(Holds::Open)
    );
    assert_eq!(report.headline, told);
}

#[test]
fn buffers_for_read_and_write() {
    let report = sections::report(Some("buffer-size"), 8);
    let headline = report.headline.clone();
    let (size, costs) = headline
        .strip_prefix("Use ")
        .and_then(|rest| rest.split_once("; 1024 costs "))
        .unwrap_or_else(|| panic!("{headline}"));
    let size = size.split_once(" bytes").expect("bytes").0;
    // Seconds for the file natively: the second column.
    let seconds = |op: &str, record: &str| {
        let mut tables = study(&report).tables.iter();
        let table = tables.find(|t| t.title.starts_with(op)).expect("a table");
        assert_eq!(table.head[1], "native, time");
        let row = table.rows.iter().find(|r| r[0].text == record);
        row.and_then(|r| r[1].value).expect("seconds")
    };
    for cost in costs.split(", ") {
        let (times, op) = cost.split_once("x (").expect("x");
        let op = op.trim_end_matches(')');
        let ratio = seconds(op, "1024") / seconds(op, size);
        let told: f64 = times.parse().expect("a number");
        assert!((told / ratio - 1.0).abs() < 0.01, "{headline}: {ratio}");
    }
}
