//! The figures of netperf, from a made-up run whose numbers are known.

use layermark_model::{CpuUse, Meaning, NetEnd, NetTrial, Pass, Point, Run, TrialRecord};
use layermark_report::{Report, exporters};
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
        let end = |cpu| NetEnd {
            send_buffer: 65536,
            receive_buffer: 131_072,
            cpus: vec![cpu],
        };
        trial.net = Some(Box::new(NetTrial {
            near: end(0),
            far: end(1),
            far_cpu: CpuUse {
                user_ns: 0,
                sys_ns: 30_000_000,
            },
            one_host: true,
            sent: if rr { 0 } else { ops + ops / 4 },
            lost: if rr { 0 } else { ops / 4 },
            ceiling: Some(if rr { 55_000.0 } else { 10e6 }),
            ..NetTrial::default()
        }));
    }
    Report::build(&run, &trials)
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.01
}

#[test]
fn rates_and_service_demand_are_netperfs() {
    let report = made();
    assert_eq!(report.net.len(), 4, "two points in two layers");
    let row = |op: &str, layer: &str| {
        let mut rows = report.net.iter();
        rows.find(|r| r.label == op && r.layer == layer).unwrap()
    };
    let rr = row("rr", "native");
    assert!(
        close(rr.trans_s.unwrap(), 50_000.0) && rr.mbit_s.is_none(),
        "{rr:?}"
    );
    // 50, 30 and 150 ms of CPU for 5,000 transactions.
    assert!(
        close(rr.near_cpu_us, 10.0) && close(rr.far_cpu_us, 6.0),
        "{rr:?}"
    );
    assert!(close(rr.service_demand_us.unwrap(), 30.0), "{rr:?}");
    assert!(
        rr.p50_us.is_some() && close(rr.ceiling_percent.unwrap(), 91.0),
        "{rr:?}"
    );
    let udp = row("udp-stream", "overlay:upper");
    assert!(
        close(udp.mbit_s.unwrap(), 4000.0) && udp.trans_s.is_none(),
        "{udp:?}"
    );
    assert!(close(udp.near_cpu_us, 1.024), "a KB of 50 MB: {udp:?}");
    assert!(udp.p50_us.is_none() && udp.lost > 0 && udp.socket_buffer == Some(32768));
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
        let exporter = exporters::for_path(std::path::Path::new(&path)).unwrap();
        let mut out = Vec::new();
        exporter.write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(words), "{ending} has no {words}:\n{text}");
    }
}
