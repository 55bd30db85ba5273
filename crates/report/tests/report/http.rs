//! The figures of ab, from a made-up run whose numbers are known.

use layermark_model::{CpuUse, Meaning, Pass, Point};
use layermark_report::{Report, render};
use layermark_testkit::sample::Sample;
use serde_json::json;

fn point() -> Point {
    let params = json!({
        "url": "", "remote": false, "server": "auto", "body": 1000, "concurrency": 4,
        "connection": "keep-alive", "rate": 0, "time": 0, "placement": "other",
    });
    let mut point = Point::new("http", "get".into(), &params, Meaning::default()).unwrap();
    point.meaning = layermark_probe::workloads::meaning(&point);
    point
}

/// Native answers 20,000 requests a second, the other layer half of it, by another server.
fn made() -> Report {
    let (mut run, mut trials) = Sample {
        layers: vec!["overlay:upper"],
        control: false,
        ..Sample::default()
    }
    .build();
    run.points = vec![point()];
    trials.retain(|record| record.cell.point == 0);
    for record in &mut trials {
        let native = record.cell.layer == 0;
        let trial = record.trial.as_mut().unwrap();
        // In 100 ms.
        let ops = if native { 2_000 } else { 1_000 };
        trial.passes = vec![Pass {
            elapsed_ns: 100_000_000,
            ops,
            bytes: ops * 1000,
            ..Pass::default()
        }];
        trial.cpu = CpuUse {
            user_ns: 10_000_000,
            sys_ns: 30_000_000,
        };
        trial.busy_ns = Some(150_000_000);
        let figures = json!({
            "server": if native { "nginx/1" } else { "layermark/1" }, "checked": native, "concurrency": 4,
            "far_cpu_ns": 60_000_000, "ceiling": 25_000.0, "unsent": 0, "rate": 0,
        });
        trial.figures = serde_json::from_value(figures).unwrap();
    }
    Report::build(&run, &trials)
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.01
}

#[test]
fn rates_and_times_are_abs() {
    let report = made();
    let [group] = &report.figures[..] else {
        panic!("one kind of work: {:?}", report.figures)
    };
    let [native, other] = &group.rows[..] else {
        panic!("a row for each layer: {:?}", group.rows)
    };
    for (name, value) in [
        ("requests_s", 20_000.0),
        ("across_us", 50.0),
        ("body_mb_s", 20.0),
        // 40, 60 and 150 ms of CPU for 2,000 requests.
        ("near_cpu_us", 20.0),
        ("far_cpu_us", 30.0),
        ("host_cpu_us", 75.0),
        ("ceiling_percent", 80.0),
    ] {
        let found = native.number(name).unwrap();
        assert!(close(found, value), "{name}: {found} instead of {value}");
    }
    let percents = [50, 66, 75, 80, 90, 95, 98, 99, 100];
    let within = percents.map(|percent| native.number(&format!("within_{percent}_us")).unwrap());
    assert!(within.is_sorted(), "{within:?}");
    assert!(close(other.number("requests_s").unwrap(), 10_000.0));
    assert_eq!(other.number("checked"), Some(0.0));
}

#[test]
fn the_table_says_what_makes_a_figure_less_than_it_looks() {
    let report = made();
    let mut sections = report.sections().into_iter();
    let section = sections.find(|s| s.name == "http").unwrap();
    assert!(section.is_own());
    let [table] = &section.tables[..] else {
        panic!("one kind of work: {section:?}")
    };
    let cells: Vec<&str> = table.rows[0].iter().map(|c| c.text.as_str()).collect();
    assert_eq!(cells[..3], ["`native`", "`nginx/1`", "20000"]);
    for words in [
        "Not the same server everywhere (`layermark/1` and `nginx/1`)",
        "`native`: 80 % of what the client does",
        "`overlay:upper`: the page is not the same twice",
    ] {
        assert!(table.note.contains(words), "{}", table.note);
    }
    assert!(!table.note.contains("`overlay:upper`: 40 %"));
    for (ending, words) in [
        ("txt", "requests/s"),
        ("md", "| 50 % | 66 % |"),
        ("json", "\"across_us\""),
    ] {
        let path = format!("x.{ending}");
        let exporter = render::for_path(std::path::Path::new(&path)).unwrap();
        let mut out = Vec::new();
        exporter.write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(words), "{ending} has no {words}:\n{text}");
    }
}

/// Commits natively: 1830 a second beside 1330 in `overlay:upper`, which took 1.06 times as long.
#[test]
fn a_table_says_that_the_baseline_was_faster_in_other_rounds() {
    let note_with = |times: f64, both: Option<[f64; 2]>| {
        let mut report = made();
        for block in &mut report.results[1].block_ratios {
            block.both = both;
        }
        let native = report.results[0].average_us.unwrap();
        report.results[1].native_average_us = Some(times * native);
        let ratio = report.results[1].ratio.as_mut().expect("a ratio");
        if let Some(average) = &mut ratio.average {
            average.interval = Some([1.9, 1.95]);
        }
        let mut sections = report.sections().into_iter();
        let section = sections.find(|s| s.name == "http").unwrap();
        section.tables[0].note.clone()
    };
    let note = |times: f64| note_with(times, None);
    let told = "The row of `native` has all its rounds. In those beside `overlay:upper`, an operation took 260 us there: the ratios compare these.";
    assert!(note(1.3).ends_with(told), "{}", note(1.3));
    let told = "The row of `native` has all its rounds without its control's turns. In those beside `overlay:upper`, with the control's, an operation took 260 us there: the ratios compare these.";
    let with_control = note_with(1.3, Some([1.9, 2.0]));
    assert!(with_control.ends_with(told), "{with_control}");
    assert!(!note(1.005).contains("all its rounds"), "{}", note(1.005));
    // Less than 5 %, but 400 us are twice 200 us, and the ratio says otherwise.
    assert!(note(1.04).contains("all its rounds"), "{}", note(1.04));
}
