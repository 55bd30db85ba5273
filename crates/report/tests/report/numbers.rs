//! Formats for programs that keep one number for each name: Bencher, github-action-benchmark,
//! `OpenMetrics`. `python/tests` reads what they write with the programs' own parsers.

use std::path::Path;

use layermark_report::{Report, render};
use layermark_testkit::sample::Sample;
use serde_json::Value;

fn written(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    let exporter = render::for_path(Path::new(name)).unwrap();
    exporter.write(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn report() -> Report {
    let (run, trials) = Sample::default().build();
    Report::build(&run, &trials)
}

#[test]
fn bencher_has_nanoseconds_and_a_ratio_with_their_intervals() {
    let report = report();
    let all: Value = serde_json::from_str(&written(&report, "x.bmf.json")).unwrap();
    let of = |row: &layermark_report::ResultRow| &all[format!("{} in {}", row.label, row.layer)];
    let shown = report
        .results
        .iter()
        .filter(|r| !report.layers.iter().any(|l| l.control && l.name == r.layer));
    let mut rows = 0;
    for row in shown {
        let latency = of(row)["latency"]["value"].as_f64().unwrap();
        assert!(
            (latency / row.op_us.unwrap() / 1e3 - 1.0).abs() < 1e-9,
            "{}",
            row.label
        );
        let ratio = row.ratio.map(|r| r.estimate);
        assert_eq!(of(row)["ratio"]["value"].as_f64(), ratio);
        let low = row.ratio.and_then(|r| r.interval).map(|i| i[0]);
        assert_eq!(of(row)["ratio"]["lower_value"].as_f64(), low);
        rows += 1;
    }
    assert!(rows > 1 && all.as_object().unwrap().len() == rows);
}

#[test]
fn github_benchmark_has_a_list_of_times() {
    let report = report();
    let all: Vec<Value> =
        serde_json::from_str(&written(&report, "x.github-benchmark.json")).unwrap();
    assert!(!all.is_empty());
    for entry in &all {
        assert!(
            entry["value"].as_f64() > Some(0.0) && entry["unit"] == "us/op",
            "{entry}"
        );
        assert!(entry["extra"].as_str().unwrap().contains(&report.run));
    }
}

#[test]
fn openmetrics_ends_with_eof_and_escapes_names() {
    let mut report = report();
    for row in &mut report.results {
        row.label = format!("a \"quoted\" \\ name\n{}", row.label);
    }
    let text = written(&report, "x.prom");
    assert!(
        text.ends_with("# EOF\n") && text.contains("layermark_run_trusted 1\n"),
        "{text}"
    );
    assert!(
        text.contains("point=\"a \\\"quoted\\\" \\\\ name\\n"),
        "{text}"
    );
    assert!(
        text.lines()
            .all(|l| l.starts_with("# ") || l.starts_with("layermark_")),
        "{text}"
    );
    // Each metric is described once, and its samples follow.
    let types = text
        .lines()
        .filter(|l| l.starts_with("# TYPE layermark_ratio "))
        .count();
    assert_eq!(types, 1);
}
