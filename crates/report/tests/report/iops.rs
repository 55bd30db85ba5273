//! The figures of Iometer in every format, from a made-up run whose numbers are known.

use layermark_model::{Latency, Meaning, Pass, Point, Run, TrialRecord};
use layermark_report::{DataTable, Report, render};
use layermark_testkit::sample::Sample;
use serde_json::json;

const DEPTHS: [u64; 4] = [1, 4, 16, 64];

/// What the device of a layer can do: this many at once, each in 100 us.
fn parallel(layer: usize) -> f64 {
    if layer == 1 { 4.0 } else { 16.0 }
}

fn point(depth: u64, rate: u64) -> Point {
    let label = if rate > 0 {
        format!("{rate} a second")
    } else {
        format!("4K read, iodepth {depth}")
    };
    let params = json!({
        "spec": "4K 100% read 100% random", "size": 4096, "read": 100, "random": 100, "burst": 1,
        "delay": 0, "align": 4096, "engine": "uring", "iodepth": depth, "workers": 1,
        "direct": true, "file_size": 64 << 20, "time": 100, "ramp": 10, "rate": rate, "op": "read",
    });
    let mut point = Point::new("iops", label, &params, Meaning::default()).unwrap();
    point.meaning = layermark_probe::workloads::meaning(&point);
    point
}

fn made() -> Report {
    let (mut run, mut trials): (Run, Vec<TrialRecord>) = Sample {
        layers: vec!["overlay:upper"],
        control: false,
        ..Sample::default()
    }
    .build();
    run.points = DEPTHS.iter().map(|d| point(*d, 0)).collect();
    run.points.push(point(8, 1000));
    for record in &mut trials {
        let at = &run.points[record.cell.point];
        let (depth, rate) = (at.number("iodepth"), at.number("rate"));
        let reached = (depth as f64).min(parallel(record.cell.layer)) * 1e4;
        let reached = if rate > 0 { rate as f64 } else { reached };
        // A little apart from block to block, so that there is an interval.
        let reached = reached * (1.0 + f64::from(record.cell.block) / 1e4);
        let trial = record.trial.as_mut().unwrap();
        let ops = (reached / 10.0) as u64;
        trial.passes = vec![Pass {
            elapsed_ns: 100_000_000,
            ops,
            bytes: ops * 4096,
            ..Pass::default()
        }];
        trial.busy = Some(0.25);
        if rate > 0 {
            let slow = if record.cell.layer == 1 { 3.0 } else { 1.0 };
            let jitter = f64::from(record.cell.block);
            trial.response_ns = Some(200_000.0 * slow + jitter);
            trial.service = Some(Latency {
                min: 90_000,
                max: 110_000,
                ..trial.latency.clone().unwrap()
            });
        }
    }
    Report::build(&run, &trials)
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.01
}

#[test]
fn rates_bytes_and_cpu_are_iometers() {
    let report = made();
    assert_eq!(report.iops.len(), 10, "five points in two layers");
    let first = &report.iops[0];
    assert_eq!((first.layer.as_str(), first.iodepth), ("native", 1));
    assert!(close(first.iops, 1e4), "{first:?}");
    assert!(
        close(first.mb_s, 40.96) && close(first.mib_s, 39.0625),
        "{first:?}"
    );
    assert!(close(first.cpu_percent.unwrap(), 25.0) && close(first.iops_per_cpu.unwrap(), 400.0));
    let result = report.result(&first.result).unwrap();
    assert!(
        close(result.op_us.unwrap(), 100.0),
        "one under way: it takes as long as there is time for"
    );
    let deep = report
        .iops
        .iter()
        .find(|r| r.iodepth == 64 && r.layer == "native")
        .unwrap();
    let result = report.result(&deep.result).unwrap();
    assert!(
        close(result.op_us.unwrap(), 400.0),
        "64 wait for 16 servers of 100 us"
    );
    assert_eq!(result.unit, "ops/s");
    assert!(close(result.value.unwrap(), deep.iops), "{deep:?}");
}

/// Both layers do as many, because that is what was asked: what differs is the wait.
#[test]
fn with_a_rate_the_cost_is_the_response_time() {
    let report = made();
    let rated: Vec<_> = report
        .iops
        .iter()
        .filter(|r| r.rate == Some(1000))
        .collect();
    assert_eq!(rated.len(), 2);
    assert!(rated.iter().all(|r| close(r.iops, 1000.0)), "{rated:?}");
    assert!(
        rated.iter().all(|r| r.service_max_ms == Some(0.11)),
        "{rated:?}"
    );
    let result = report.result(&rated[1].result).unwrap();
    assert!(
        close(result.ratio.unwrap().estimate, 3.0),
        "{:?}",
        result.ratio
    );
    assert!(
        close(result.extra_us.unwrap().estimate, 400.0),
        "{:?}",
        result.extra_us
    );
}

#[test]
fn response_times_have_intervals() {
    let report = made();
    for row in &report.iops {
        let [low, high] = row.p50_interval_ms.unwrap();
        assert!(low <= row.p50_ms && row.p50_ms <= high, "{row:?}");
        let [low, high] = row.response_interval_ms.unwrap();
        assert!(low <= row.response_ms && row.response_ms <= high, "{row:?}");
        assert_eq!(row.p99_interval_ms.is_some(), row.p99_ms.is_some());
    }
    let section = report.sections().into_iter().find(|s| s.name == "iops");
    let tables = section.unwrap().tables;
    let titled = |t: &&DataTable| t.title.ends_with("response time with 95 % intervals");
    let spans: Vec<&DataTable> = tables.iter().filter(titled).collect();
    let rows: usize = spans.iter().map(|t| t.rows.len()).sum();
    assert_eq!(rows, report.iops.len());
    let p50 = &spans[0].rows[0][3];
    assert_eq!(p50.value, Some(report.iops[0].p50_ms));
    assert!(
        p50.text.contains(" to ") && p50.text.ends_with(']'),
        "{p50:?}"
    );
}

#[test]
fn the_knee_of_each_curve_is_told() {
    let report = made();
    assert_eq!(report.depth_curves.len(), 2, "the rate is no depth");
    let knees: Vec<_> = report
        .depth_curves
        .iter()
        .map(|c| c.knee.clone().unwrap())
        .collect();
    assert_eq!((knees[0].iodepth, knees[1].iodepth), (Some(16), Some(4)));
    assert_eq!((knees[0].agree, knees[0].blocks), (11, 11));
    assert!(
        knees[1]
            .text
            .starts_with("the knee is at queue depth 4: at 16 IOPS are 0 % more")
    );
    assert!(
        knees[1].text.ends_with("(in 11 of 11 repeats)"),
        "{}",
        knees[1].text
    );
}

#[test]
fn every_format_has_the_table() {
    let report = made();
    let write = |ending: &str| {
        let path = format!("x.{ending}");
        let exporter = render::for_path(std::path::Path::new(&path)).unwrap();
        let mut out = Vec::new();
        exporter.write(&report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    for (ending, words) in [
        (
            "txt",
            [
                "with 95 % intervals",
                "MiB/s",
                "the knee is at queue depth 16",
            ],
        ),
        ("md", ["IOPS/%CPU", "MiB/s | MB/s |", "-o report.full.md"]),
        (
            "full.md",
            [
                "IOPS/%CPU",
                "MiB/s | MB/s |",
                "the knee is at queue depth 16",
            ],
        ),
        (
            "html",
            [
                "I/Os a second over queue depth",
                "Response time over queue depth",
                "the knee is at queue depth 16",
            ],
        ),
        (
            "json",
            [
                "\"depth_curves\"",
                "\"iops_per_cpu\"",
                "\"response_max_ms\"",
            ],
        ),
        ("csv", ["mib_per_s", "latency_p99_us_low", "service_max_ms"]),
    ] {
        // Lines break where the window ends.
        let words_of = write(ending);
        let text = words_of.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(text.contains(word), "{ending} has no {word}:\n{text}");
        }
    }
    let lines = write("csv");
    let mut reader = csv::Reader::from_reader(lines.as_bytes());
    let column = reader
        .headers()
        .unwrap()
        .iter()
        .position(|h| h == "mb_per_s")
        .unwrap();
    let first = reader.records().next().unwrap().unwrap();
    assert!(
        close(first[column].parse().unwrap(), 40.96),
        "{}",
        &first[column]
    );
    // A terminal that is narrow still shows what matters most.
    let mut out = Vec::new();
    let style = render::Style {
        width: 60,
        colour: false,
        ..render::Style::default()
    };
    render::print(&report, style, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.lines()
            .all(|l| l.chars().count() <= 60 || !l.contains("  ")),
        "{text}"
    );
    assert!(text.contains("IOPS"), "{text}");
}

/// The first screen has the table and what follows from it. The results are with `--full`.
#[test]
fn the_table_is_the_answer_on_the_first_screen() {
    let report = made();
    let text = |full: bool| {
        let mut out = Vec::new();
        let style = render::Style::default();
        let print = if full {
            render::print_full
        } else {
            render::print
        };
        print(&report, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (short, full) = (text(false), text(true));
    let more = format!("More: layermark report {} --full", report.run);
    assert!(
        short.contains("IOPS") && short.ends_with(&(more + "\n")),
        "{short}"
    );
    assert!(
        short.contains("and 4 more tables: --full") && !short.contains("time/op"),
        "{short}"
    );
    assert!(full.contains("time/op") && short.lines().count() < full.lines().count());
    let headline = report.headline.replace('`', "");
    let start: String = headline.chars().take(40).collect();
    assert!(short.contains(&start), "{start}: {short}");
}
