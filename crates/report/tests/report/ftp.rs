//! Transfers over FTP, from a made-up run whose numbers are known.

use layermark_model::{CpuUse, Meaning, Pass, Point, Run, TrialRecord};
use layermark_report::{FigureRow, Report, render};
use layermark_testkit::sample::Sample;
use serde_json::json;

fn point(op: &str, source: &str, sink: &str) -> Point {
    let params = json!({
        "op": op, "file_size": 1 << 20, "clients": 1, "source": source, "sink": sink, "server": "auto",
    });
    let mut point = Point::new("ftp", op.into(), &params, Meaning::default()).unwrap();
    point.meaning = layermark_probe::workloads::meaning(&point);
    point
}

/// Native moves 100 files of 1 MiB in 100 ms, the other layer half of it from another server.
fn made(other_server: &str) -> Report {
    let (mut run, mut trials): (Run, Vec<TrialRecord>) = Sample {
        layers: vec!["overlay:upper"],
        control: false,
        ..Sample::default()
    }
    .build();
    run.points = vec![point("get", "file", "null"), point("put", "memory", "file")];
    trials.retain(|record| record.cell.point < 2);
    for record in &mut trials {
        let native = record.cell.layer == 0;
        let trial = record.trial.as_mut().unwrap();
        let ops = if native { 100 } else { 50 };
        trial.passes = vec![Pass {
            elapsed_ns: 100_000_000,
            ops,
            bytes: ops << 20,
            ..Pass::default()
        }];
        trial.cpu = CpuUse {
            user_ns: 10_240_000 * ops / 100,
            sys_ns: 92_160_000 * ops / 100,
        };
        let figures = json!({
            "server": if native { "vsftpd 3.0.3" } else { other_server },
            "far_cpu_ns": 51_200_000 * ops / 100, "connect_ns": 1_000_000, "login_ns": 2_000_000,
            "passive_ns": 100_000, "first_byte_ns": 200_000, "data_ns": 650_000, "complete_ns": 50_000,
            "ceiling": 1250u64 << 20,
        });
        trial.figures = serde_json::from_value(figures).unwrap();
    }
    Report::build(&run, &trials)
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.01
}

#[test]
fn throughput_phases_and_cpu_are_those_of_the_trials() {
    let report = made("vsftpd 3.0.3");
    let rows = || report.figures.iter().flat_map(|g| &g.rows);
    assert_eq!(rows().count(), 4, "two points in two layers");
    let row = |layer: &str| {
        rows()
            .find(|r| r.label == "get" && r.layer == layer)
            .unwrap()
    };
    let (native, other) = (row("native"), row("overlay:upper"));
    let is = |row: &FigureRow, name: &str, value: f64| {
        let found = row.number(name).unwrap();
        assert!(close(found, value), "{name}: {found} instead of {value}");
    };
    is(native, "mib_s", 1000.0);
    is(other, "mib_s", 500.0);
    for (name, made) in [
        ("connect_us", 1000.0),
        ("login_us", 2000.0),
        ("passive_us", 100.0),
        ("first_byte_us", 200.0),
        ("data_us", 650.0),
        ("complete_us", 50.0),
    ] {
        is(native, name, made);
    }
    is(native, "ceiling_percent", 80.0);
    is(other, "ceiling_percent", 40.0);
    let section = report.sections().into_iter().find(|s| s.name == "ftp");
    let note = &section.unwrap().tables[0].note;
    assert!(
        note.contains("`native`: 80 % of what the clients do"),
        "{note}"
    );
    assert!(!note.contains("`overlay:upper`: "), "{note}");
    for row in [native, other] {
        // 102.4 and 51.2 ms for 102,400 KB.
        is(row, "near_cpu_us", 1.0);
        is(row, "far_cpu_us", 0.5);
    }
}

#[test]
fn the_table_is_in_every_format_and_tells_of_unlike_servers() {
    let section = |report: &Report| {
        let mut sections = report.sections().into_iter();
        sections.find(|s| s.name == "ftp").unwrap()
    };
    let report = made("vsftpd 3.0.3");
    let same = section(&report);
    assert!(same.is_own());
    let [get, put] = &same.tables[..] else {
        panic!("a table for each kind of work: {same:?}")
    };
    assert_eq!(get.title, "get, from file, to null");
    assert_eq!(put.title, "put, from memory, to file");
    let cells: Vec<&str> = get.rows[0].iter().map(|c| c.text.as_str()).collect();
    assert_eq!(cells[..4], ["`native`", "1M", "vsftpd 3.0.3", "1000"]);
    assert_eq!(
        cells[6..],
        [
            "1.00 ms", "2.00 ms", "100 us", "200 us", "650 us", "50.0 us", "1.00", "0.500"
        ]
    );
    assert_eq!(get.head.len(), cells.len());
    assert!(!get.note.contains("different servers"), "{}", get.note);
    let other = section(&made("layermark's own"));
    assert!(
        other.tables[0]
            .note
            .contains("different servers (layermark's own and vsftpd 3.0.3)"),
        "{}",
        other.tables[0].note
    );
    for (ending, words) in [
        ("txt", "get, from file, to null"),
        ("md", "| MiB/s | p50 |"),
        ("full.md", "The hash of every file was checked"),
        ("html", "The hash of every file was checked"),
        ("json", "\"first_byte_us\""),
    ] {
        let path = format!("x.{ending}");
        let exporter = render::for_path(std::path::Path::new(&path)).unwrap();
        let mut out = Vec::new();
        exporter.write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(words), "{ending} has no {words}:\n{text}");
    }
}
