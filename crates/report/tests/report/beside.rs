//! Another program's results beside ours: what is matched, and what is told of the difference.

use std::path::Path;

use layermark_model::{Import, ImportedPoint};
use layermark_report::{Report, render};
use layermark_testkit::sample::{self, Sample};

fn report() -> Report {
    let (run, trials) = Sample::default().build();
    Report::build(&run, &trials)
}

fn theirs(name: &str, op: &str, record: u64, file_size: Option<u64>) -> ImportedPoint {
    ImportedPoint {
        name: name.into(),
        op: Some(op.into()),
        record: Some(record),
        file_size,
        bytes_per_s: Some(1e9),
        op_us: Some(1000.0),
        direct: Some(true),
        engine: Some("pread".into()),
        ..ImportedPoint::default()
    }
}

fn import(points: Vec<ImportedPoint>) -> Import {
    Import {
        id: "01IMPORT".into(),
        file: "old.json".into(),
        format: "fio".into(),
        tool: "fio-3.33".into(),
        notes: vec!["2 lines that are not JSON were skipped".into()],
        points,
        ..Import::default()
    }
}

#[test]
fn points_are_matched_by_what_is_done_and_not_by_name() {
    let mut report = report();
    let mut deep = theirs("deep", "read", 1 << 20, None);
    deep.queue_depth = Some(32);
    report.set_beside(&import(vec![
        theirs("big", "read", 1 << 20, Some(16 << 20)),
        theirs("any size", "read", 1 << 20, None),
        theirs("other record", "read", 4096, Some(16 << 20)),
        deep,
        theirs("other op", "write", 1 << 20, Some(16 << 20)),
    ]));
    let beside = &report.beside[0];
    let layers = report.layers.iter().filter(|l| !l.control).count();
    assert_eq!(beside.rows.len(), 2 * layers, "{:?}", beside.rows);
    assert_eq!(beside.unmatched.len(), 3, "{:?}", beside.unmatched);
    assert!(beside.unmatched[1].contains("queue depth 32"));
    for row in &beside.rows {
        let ours = report.result(&row.result).unwrap();
        assert_eq!((row.unit.as_str(), row.theirs), ("B/s", 1e9));
        assert_eq!(Some(row.ours), ours.value);
        // Time an operation: theirs at twice the rate means that ours took twice as long.
        assert!(
            (row.ratio * row.ours / row.theirs - 1.0).abs() < 1e-9,
            "{row:?}"
        );
        let told = row.differences.join("; ");
        assert!(
            told.contains("cache: ours warm (host memory), theirs not told"),
            "{told}"
        );
        assert!(told.contains("engine: ours sync, theirs pread"), "{told}");
        assert_eq!(
            told.contains("file size: theirs not told"),
            row.name == "any size"
        );
    }
}

/// What one of several jobs waited for an operation is comparable, its rate is not.
#[test]
fn one_job_of_several_is_compared_by_time() {
    let mut report = report();
    let mut one = theirs("readers (1 of 4)", "read", 1 << 20, Some(16 << 20));
    one.one_of = Some(4);
    report.set_beside(&import(vec![one]));
    let beside = &report.beside[0];
    assert!(!beside.rows.is_empty() && beside.unmatched.is_empty());
    for row in &beside.rows {
        let ours = report.result(&row.result).unwrap();
        assert_eq!((row.unit.as_str(), row.theirs), ("us", 1000.0));
        assert_eq!(Some(row.ours), ours.op_us);
        let told = row.differences.join("; ");
        assert!(told.contains("theirs is one of 4 jobs at once"), "{told}");
    }
}

#[test]
fn every_format_shows_it_and_none_calls_it_a_verdict() {
    let mut report = report();
    let verdicts: Vec<_> = report.results.iter().map(|r| r.verdict).collect();
    let headline = report.headline.clone();
    report.set_beside(&import(vec![theirs(
        "big",
        "read",
        1 << 20,
        Some(16 << 20),
    )]));
    assert_eq!(
        verdicts,
        report.results.iter().map(|r| r.verdict).collect::<Vec<_>>()
    );
    assert_eq!(headline, report.headline);
    for name in ["x.html", "x.json", "x.full.md", "x.txt"] {
        let mut out = Vec::new();
        let exporter = render::for_path(Path::new(name)).unwrap();
        exporter.write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("fio-3.33") && text.contains("old.json"),
            "{name}: {text}"
        );
        assert!(text.contains("theirs not told"), "{name}: {text}");
        let verdict = name == "x.json" || text.contains("no verdict");
        assert!(verdict, "{name}: {text}");
    }
}

#[test]
fn where_nothing_is_the_same_there_is_no_table() {
    let mut report = report();
    report.set_beside(&import(vec![theirs("other op", "write", 512, None)]));
    let sections = report.sections();
    let section = sections.iter().find(|s| s.name == "beside-01IMPORT");
    let section = section.unwrap();
    assert!(section.tables.is_empty(), "{section:?}");
    let remarks = section.remarks.join("\n");
    assert!(remarks.contains("nothing to compare"), "{remarks}");
    let named = "Without one of ours: 1 operation";
    assert!(remarks.contains(named), "{remarks}");
}

#[test]
fn a_pull_request_gets_60_lines_however_many_files_are_set_beside() {
    let card = sample::card();
    let lines = |files: usize| {
        let mut report = card.clone();
        for n in 0..files {
            let mut points = vec![theirs("big", "read", 1 << 20, Some(16 << 20))];
            points.push(theirs("small", "rand-write", 4096, None));
            let mut import = import(points);
            import.tool = format!("tool {n}");
            report.set_beside(&import);
        }
        let mut out = Vec::new();
        let exporter = render::for_path(Path::new("x.md")).unwrap();
        exporter.write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() <= 60, "{files} files: {text}");
        for finding in &report.findings {
            let last = finding.text.rsplit(' ').next().unwrap();
            assert!(text.contains(last), "{files} files, {last}: {text}");
        }
        text
    };
    let two = lines(2);
    assert!(two.contains("Beside tool 0:") && two.contains("Beside tool 1:"));
    assert!(two.contains("more rows."), "{two}");
    let many = lines(12);
    assert!(
        many.contains("Beside tool 0:") && many.contains("more tables."),
        "{many}"
    );
    assert!(!many.contains("Beside tool 11:"), "{many}");
}
