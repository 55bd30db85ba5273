//! A run whose baseline is another layer than `native` has that layer's name in every format.

use std::io::{Cursor, Read};

use layermark_model::{Run, TrialRecord};
use layermark_report::{
    Holds, Report, Verdict,
    render::{self, Style},
};
use layermark_testkit::sample::{
    self, Sample,
    matrix::{Matrix, doubling},
};
use serde_json::Value;

use crate::{appvirt, cost, iozone_vm};

const NAME: &str = "ssh:host:/srv/x";

/// Gives the baseline, and the control with it, another layer and name.
fn renamed(run: &mut Run) {
    let spec = NAME.parse().expect("a layer");
    for layer in &mut run.layers {
        let is_native = layer.spec.is_native();
        if is_native {
            layer.spec.clone_from(&spec);
            layer.name = layer.name.replace("native", NAME);
            for mount in &mut layer.facts.mounts {
                mount.source = "/dev/vda".into();
            }
        }
    }
    run.plan.layers.retain(|l| !l.is_native());
    run.plan.baseline = Some(spec);
}

fn report((mut run, trials): (Run, Vec<TrialRecord>)) -> Report {
    renamed(&mut run);
    Report::build(&run, &trials)
}

/// Words that name the usual baseline, with what is around them.
fn natives(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let is_word = |at: usize| {
        let before = lower[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    };
    let found = lower.match_indices("native").filter(|(at, _)| is_word(*at));
    found
        .map(|(at, _)| {
            let from = lower[..at].char_indices().rev().nth(60).map_or(0, |c| c.0);
            lower[from..].chars().take(140).collect()
        })
        .collect()
}

/// Every text in JSON. Names of fields are a contract, and stay as they are.
fn values(json: &Value) -> String {
    match json {
        Value::String(text) => format!("{text}\n"),
        Value::Array(all) => all.iter().map(values).collect(),
        Value::Object(all) => all.values().map(values).collect(),
        _ => String::new(),
    }
}

/// The text of a file of a format.
fn text(id: &str, bytes: &[u8]) -> String {
    let plain = || String::from_utf8_lossy(bytes).into_owned();
    match id {
        "json" | "hyperfine" => values(&serde_json::from_slice(bytes).unwrap_or_default()),
        // As in JSON, names of columns stay as they are.
        "csv" | "csv_wide" | "csv_trials" => plain().lines().skip(1).collect(),
        "xlsx" => {
            let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).expect("a workbook");
            let mut all = String::new();
            for at in 0..zip.len() {
                let mut part = zip.by_index(at).expect("a part");
                part.read_to_string(&mut all).expect("XML");
            }
            let named = [
                "native_us",
                "native_slow_",
                "native_average_us",
                "native ms",
            ];
            named.iter().fold(all, |all, name| all.replace(name, ""))
        }
        _ => plain(),
    }
}

fn says_only_its_name(what: &str, report: &Report) {
    assert_eq!(report.baseline(), NAME, "{what}");
    let mut named = 0;
    for exporter in render::ALL {
        let mut out = Vec::new();
        if exporter.id() == "png" || exporter.write(report, &mut out).is_err() {
            continue;
        }
        let text = text(exporter.id(), &out);
        let found = natives(&text);
        assert!(found.is_empty(), "{what}, {}: {found:#?}", exporter.id());
        named += usize::from(text.contains(NAME));
    }
    assert!(named >= 6, "{what}: {named} formats name it");
    let mut shown = Vec::new();
    render::print(report, Style::default(), &mut shown).expect("a vector");
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert_eq!(natives(&shown), [""; 0], "{what}");
}

#[test]
fn no_format_says_native_where_native_was_not_measured() {
    says_only_its_name("sample", &report(Sample::default().build()));
    says_only_its_name("everything", &report(sample::full().build()));
    let matrix = Matrix {
        files: doubling(64 << 10, 1 << 20),
        ..Matrix::default()
    };
    says_only_its_name("matrix", &report(matrix.build()));
    says_only_its_name(
        "launches",
        &report(sample::launches(&[400.0, 410.0, 405.0])),
    );
}

#[test]
fn studies_say_the_name_of_their_baseline() {
    for (what, made) in [
        ("fileio-appvirt", appvirt::made()),
        ("iozone-vm", iozone_vm::made()),
        ("buffer-size", cost::made_buffer_size()),
    ] {
        let (mut run, trials) = made.parts();
        let conclusions = report((run.clone(), trials.clone()))
            .study
            .expect("a study")
            .conclusions;
        // What a plan claims is in its words, and native was not measured.
        for said in conclusions.iter().filter(|c| c.text.contains("native")) {
            assert_eq!(said.holds, Holds::Open, "{what}: {said:?}");
            assert!(said.text.ends_with("not measured"), "{what}: {said:?}");
        }
        run.plan.claim.clear();
        let mut report = report((run, trials));
        // The text of a built-in plan is about that plan's own baseline.
        report.about.clear();
        let study = report.study.as_ref().expect("a study");
        let text = values(&serde_json::to_value(study).expect("JSON"));
        assert_eq!(natives(&text), [""; 0], "{what}");
        assert!(text.contains(NAME), "{what}: {text}");
    }
}

/// Without FUSE below the baseline, a layer that is faster than it would be an alarm.
#[test]
fn a_layer_that_is_faster_than_a_slow_baseline_is_explained_by_it() {
    let (mut run, trials) = Sample {
        layers: vec!["fuse"],
        control: false,
        ..Sample::default()
    }
    .build();
    run.layers.swap(0, 1);
    let turned = trials.into_iter().map(|mut t| {
        t.cell.layer = 1 - t.cell.layer;
        t
    });
    let report = Report::build(&run, &turned.collect::<Vec<_>>());
    let faster = report.results.iter().find(|r| r.verdict == Verdict::Faster);
    let faster = faster.expect("native is faster than FUSE");
    assert_eq!(faster.layer, "native");
    assert_eq!(
        faster.reasons[0],
        "in `fuse`: each call goes through a program in user space"
    );
    assert!(
        report.headline.contains("faster than `fuse`"),
        "{}",
        report.headline
    );
    let advice: String = report.advice.iter().map(|a| a.text.as_str()).collect();
    assert!(!advice.contains("Do not count on"), "{advice}");
}
