//! The figures of netperf, from a made-up run whose numbers are known.

use layermark_model::{CpuUse, Meaning, Pass, Point, Run, TrialRecord};
use layermark_report::{FigureRow, Report, render};
use layermark_testkit::sample::Sample;
use serde_json::json;

fn point(op: &str, message: u64) -> Point {
    let transaction = u64::from(message == 0);
    let params = json!({
        "op": op, "request": transaction, "response": transaction, "message": message,
        "socket_buffer": 32768, "streams": 1, "placement": "other", "nodelay": false,
    });
    let mut point = Point::new("net", op.into(), &params, Meaning::default()).unwrap();
    point.meaning = layermark_probe::workloads::meaning(&point);
    point
}

/// Native does 50,000 transactions a second and 1 GB/s, the other layer half of it.
fn made() -> Report {
    let (mut run, mut trials): (Run, Vec<TrialRecord>) = Sample {
        layers: vec!["overlay:upper"],
        control: false,
        ..Sample::default()
    }
    .build();
    run.machine.cpus = 1;
    run.points = vec![point("rr", 0), point("udp-stream", 1000)];
    trials.retain(|record| record.cell.point < 2);
    for record in &mut trials {
        let (rr, native) = (record.cell.point == 0, record.cell.layer == 0);
        let trial = record.trial.as_mut().unwrap();
        // In 100 ms.
        let ops = if rr { 5_000 } else { 100_000 } / if native { 1 } else { 2 };
        trial.passes = vec![Pass {
            elapsed_ns: 100_000_000,
            ops,
            bytes: ops * if rr { 2 } else { 1000 },
            ..Pass::default()
        }];
        if !rr {
            trial.latency = None;
        }
        trial.cpu = CpuUse {
            user_ns: 10_000_000,
            sys_ns: 40_000_000,
        };
        // 2 CPUs, of which this process may use one.
        trial.busy_ns = Some(150_000_000);
        let end =
            |cpu: u32| json!({"send_buffer": 65536, "receive_buffer": 131_072, "cpus": [cpu]});
        let figures = json!({
            "near": end(0), "far": end(1), "far_cpu": {"user_ns": 0, "sys_ns": 30_000_000}, "one_host": true,
            "sent": if rr { 0 } else { ops + ops / 4 }, "lost": if rr { 0 } else { ops / 4 },
            "ceiling": if rr { 55_000.0 } else { 10e6 },
        });
        trial.figures = serde_json::from_value(figures).unwrap();
    }
    Report::build(&run, &trials)
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.01
}

#[test]
fn rates_and_service_demand_are_netperfs() {
    let report = made();
    let rows = || report.figures.iter().flat_map(|g| &g.rows);
    assert_eq!(rows().count(), 4, "two points in two layers");
    let row = |op: &str, layer: &str| rows().find(|r| r.label == op && r.layer == layer).unwrap();
    let rr = row("rr", "native");
    let is = |row: &FigureRow, name: &str, value: f64| {
        let found = row.number(name).unwrap();
        assert!(close(found, value), "{name}: {found} instead of {value}");
    };
    is(rr, "trans_s", 50_000.0);
    // 50, 30 and 150 ms of CPU for 5,000 transactions.
    is(rr, "near_cpu_us", 10.0);
    is(rr, "far_cpu_us", 6.0);
    is(rr, "service_demand_us", 30.0);
    is(rr, "ceiling_percent", 91.0);
    assert!(rr.number("p50_us").is_some() && rr.number("mbit_s").is_none());
    let udp = row("udp-stream", "overlay:upper");
    is(udp, "mbit_s", 4000.0);
    // A KB of 50 MB.
    is(udp, "near_cpu_us", 1.024);
    is(udp, "socket_buffer", 32768.0);
    assert!(udp.number("trans_s").is_none() && udp.number("p50_us").is_none());
    assert!(udp.number("lost") > Some(0.0), "{udp:?}");
}

#[test]
fn the_table_is_in_every_format() {
    let report = made();
    let section = report
        .sections()
        .into_iter()
        .find(|s| s.name == "net")
        .unwrap();
    assert!(section.is_own());
    let [rr, udp] = &section.tables[..] else {
        panic!("a table for each kind of work: {section:?}")
    };
    assert_eq!(rr.title, "rr, 1/1 bytes");
    let head = [
        "layer",
        "buffers asked",
        "trans/s",
        "p50 us",
        "p99 us",
        "near us/trans",
        "far us/trans",
        "host us/trans",
        "near buffers",
        "far buffers",
        "CPUs",
    ];
    assert_eq!(rr.head, head);
    let cells: Vec<&str> = rr.rows[0].iter().map(|c| c.text.as_str()).collect();
    assert_eq!(cells[..3], ["`native`", "32K", "50000"]);
    assert_eq!(
        cells[5..],
        ["10.0", "6.00", "30.0", "64K/128K", "64K/128K", "0 1"]
    );
    assert!(
        rr.note
            .contains("`native`: 91 % of what the generator does without a network")
    );
    assert!(!rr.note.contains("`overlay:upper`"), "{}", rr.note);
    assert_eq!(udp.head.last().unwrap(), "lost %");
    assert!(udp.note.contains("datagrams were lost"), "{}", udp.note);
    for (ending, words) in [
        ("txt", "rr, 1/1 bytes"),
        ("md", "| trans/s | p50 us | p99 us |"),
        ("full.md", "service demand"),
        ("html", "service demand"),
        ("json", "\"service_demand_us\""),
    ] {
        let path = format!("x.{ending}");
        let exporter = render::for_path(std::path::Path::new(&path)).unwrap();
        let mut out = Vec::new();
        exporter.write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(words), "{ending} has no {words}:\n{text}");
    }
}
