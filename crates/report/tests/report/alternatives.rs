//! Commands, engines and the like that a user chooses between, set against the first of them.

use layermark_model::{Point, Verified};
use layermark_report::{AlternativeRow, Report, Verdict, render};
use serde_json::{Value, json};

use crate::made::Made;

/// Microseconds a launch: the second command takes half as much again. A layer doubles all of them.
fn cost(layer: &str, point: &Point, _: f64) -> f64 {
    let command = match point.text("command") {
        "b" | "sleep 2" => 1500.0,
        _ => 1000.0,
    };
    match layer {
        "native" => command,
        _ => 2.0 * command,
    }
}

fn report(layers: &[&str], settings: &Value, blocks: u32) -> Report {
    let made = Made::new(layers, blocks).work(settings);
    made.cost(cost).noise(0.01).build()
}

fn commands(commands: &Value) -> Value {
    json!({"workload": "launch", "command": commands})
}

/// Label, layer and word of each row.
fn words(report: &Report) -> Vec<(&str, &str, &str)> {
    let label = |row: &AlternativeRow| report.result(&row.result).expect("a result");
    let rows = report.alternatives.iter();
    rows.map(|r| {
        (
            label(r).label.as_str(),
            r.layer.as_str(),
            r.comparison.word(),
        )
    })
    .collect()
}

#[test]
fn commands_are_compared_with_the_first_within_each_layer() {
    let report = report(&["native", "fuse"], &commands(&json!(["a", "b", "c"])), 9);
    assert_eq!(
        words(&report),
        [
            ("b", "native", "slower"),
            ("c", "native", "same"),
            ("b", "fuse", "slower"),
            ("c", "fuse", "same"),
        ]
    );
    for row in report.alternatives.iter().step_by(2) {
        let ratio = row.comparison.ratio.expect("a ratio");
        let [low, high] = ratio.interval.expect("an interval");
        assert!((ratio.estimate / 1.5 - 1.0).abs() < 0.02, "{ratio:?}");
        assert!(low < ratio.estimate && ratio.estimate < high && low > 1.4);
        let reference = report.result(&row.reference).expect("a result");
        assert_eq!(
            (reference.label.as_str(), &reference.layer),
            ("a", &row.layer)
        );
        assert_eq!(row.blocks, 9);
        let extra = row.comparison.extra_us.expect("a difference").estimate;
        let expected = if row.layer == "native" { 500.0 } else { 1000.0 };
        assert!((extra / expected - 1.0).abs() < 0.1, "{extra}");
    }
}

#[test]
fn a_layer_beside_changes_no_word() {
    let both = commands(&json!(["a", "b"]));
    let alone = report(&["native"], &both, 9);
    assert_eq!(words(&alone), [("b", "native", "slower")]);
    assert_eq!(alone.headline, "`b` takes 1.50x as long as `a`");
    let few = report(&["native"], &both, 2);
    assert_eq!(words(&few), [("b", "native", "too few repeats")]);
    assert_eq!(
        few.headline,
        "Compared with the first one: 1 too few repeats"
    );
}

/// Holm's procedure over all of them: one wrong word in twenty reports, not in twenty comparisons.
#[test]
fn commands_that_cost_the_same_are_called_neither_slower_nor_faster() {
    let names: Vec<String> = (0..40).map(|n| format!("same {n}")).collect();
    let made = Made::new(&["native"], 10).work(&commands(&json!(names)));
    let report = made.cost(cost).noise(0.3).build();
    assert_eq!(report.alternatives.len(), 39);
    for row in &report.alternatives {
        assert_eq!(row.comparison.verdict, Verdict::Undecided, "{row:?}");
        let [low, high] = row
            .comparison
            .ratio
            .and_then(|r| r.interval)
            .expect("an interval");
        assert!(low < high);
    }
    let held = report.alternatives.iter().filter(|row| {
        let interval = row.comparison.ratio.and_then(|r| r.interval);
        interval.is_some_and(|[low, high]| low <= 1.0 && 1.0 <= high)
    });
    // Nine in ten at least: all of them share the reference's own noise.
    assert!(held.count() >= 35);
}

#[test]
fn what_is_not_trusted_is_not_compared() {
    let made = Made::new(&["native"], 9).work(&commands(&json!(["a", "b", "c"])));
    let made = made.cost(cost).change(|_, point, _, trial| {
        trial.verified = Some(Verified {
            records: 1,
            bad: u64::from(point.text("command") == "b"),
        });
    });
    let report = made.build();
    let verdicts: Vec<Verdict> = report
        .alternatives
        .iter()
        .map(|a| a.comparison.verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Untrusted, Verdict::Same]);
}

#[test]
fn values_of_a_scan_and_engines_are_alternatives_and_operations_are_not() {
    let scan = json!({"workload": "launch", "command": "sleep {t}", "parameters": ["t=1,2"]});
    assert_eq!(
        words(&report(&["native"], &scan, 9)),
        [("sleep 2, t=2", "native", "slower")]
    );
    let engines = json!({"workload": "file", "op": "read,reread", "engine": "pread,sync"});
    let labels: Vec<String> = report(&["native"], &engines, 9)
        .alternatives
        .iter()
        .map(|a| format!("{} {}", a.what, a.comparison.word()))
        .collect();
    assert_eq!(labels.len(), 2, "{labels:?}");
    assert!(
        labels
            .iter()
            .all(|l| l.ends_with("same") && !l.contains("sync"))
    );
    for alone in [
        commands(&json!("a")),
        json!({"workload": "file", "op": "read,reread"}),
    ] {
        let report = report(&["native", "fuse"], &alone, 9);
        assert!(report.alternatives.is_empty());
        assert!(report.sections().iter().all(|s| s.name != "alternatives"));
    }
}

#[test]
fn every_format_that_people_read_tells_it() {
    for layers in [&["native"][..], &["native", "fuse"]] {
        let report = report(layers, &commands(&json!(["a", "b"])), 9);
        for id in ["html", "markdown", "markdown_full", "terminal", "json"] {
            let exporter = render::ALL.iter().find(|e| e.id() == id);
            let mut out = Vec::new();
            let exporter = exporter.unwrap_or_else(|| panic!("no {id}"));
            exporter.write(&report, &mut out).expect("written");
            let text = String::from_utf8(out).expect("text");
            let told = if id == "json" {
                "\"alternatives\""
            } else {
                "Compared with"
            };
            assert!(text.contains(told), "{id}:\n{text}");
        }
    }
}
