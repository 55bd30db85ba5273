//! Tables for other programs: iozone's text, CSV with the layers beside each other, CSV of trials.

use std::{collections::BTreeMap, io::Write, path::Path};

use layermark_report::{
    Report,
    render::{self, Files},
};
use layermark_testkit::sample::{Sample, matrix::Matrix};

/// Files by part.
#[derive(Default)]
struct Parts(Vec<(String, Vec<u8>)>);

impl Files for Parts {
    fn open(&mut self, part: &str) -> anyhow::Result<&mut dyn Write> {
        self.0.push((part.into(), Vec::new()));
        Ok(&mut self.0.last_mut().unwrap().1)
    }
}

fn parts(report: &Report, name: &str) -> BTreeMap<String, String> {
    let mut parts = Parts::default();
    render::for_path(Path::new(name))
        .unwrap()
        .write(report, &mut parts)
        .unwrap();
    let count = parts.0.len();
    let by: BTreeMap<String, String> = parts
        .0
        .into_iter()
        .map(|(part, bytes)| (part, String::from_utf8(bytes).unwrap()))
        .collect();
    assert_eq!(by.len(), count, "each part once");
    by
}

fn report(matrix: &Matrix) -> Report {
    let (run, trials) = matrix.build();
    Report::build(&run, &trials)
}

/// A cell by title, file and record in kB.
type Cells = BTreeMap<(String, u64, u64), u64>;

/// Reads the text as programs do: the line before the tables, titles, then rows by white space.
fn read_iozone(text: &str) -> (Vec<String>, Cells) {
    let (_, tables) = text
        .split_once("iozone test complete.\nExcel output is below:\n")
        .expect("the line that readers look for");
    let unquote = |word: &str| -> u64 { word.trim_matches('"').parse().expect("a size in kB") };
    let (mut titles, mut cells) = (Vec::new(), Cells::new());
    let mut lines = tables.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let title = line
            .strip_prefix('"')
            .and_then(|l| l.strip_suffix(" report\""))
            .expect("a title");
        titles.push(title.to_owned());
        let head = lines.next().unwrap();
        assert!(head.starts_with("        \""), "{head:?}");
        let records: Vec<u64> = head.split_whitespace().map(unquote).collect();
        for row in lines.by_ref().take_while(|l| !l.is_empty()) {
            let mut words = row.split_whitespace();
            let file = unquote(words.next().unwrap());
            for (record, value) in records.iter().zip(words) {
                cells.insert(
                    (title.to_owned(), file, *record),
                    value.parse().expect("a whole number"),
                );
            }
        }
    }
    (titles, cells)
}

#[test]
fn iozones_text_is_read_back_layer_by_layer() {
    let report = report(&Matrix::default());
    let parts = parts(&report, "iozone.txt");
    let names: Vec<&str> = parts.keys().map(String::as_str).collect();
    assert_eq!(names, ["", "fuse", "loop-xfs"]);
    for (part, layer) in [("", "native"), ("fuse", "fuse"), ("loop-xfs", "loop:xfs")] {
        let (titles, cells) = read_iozone(&parts[part]);
        assert_eq!(titles, ["Writer", "Reader", "Random read", "Fread"]);
        assert!(parts[part].contains(&format!("Layer {layer}.")));
        assert_eq!(cells[&("Reader".into(), 32_768, 4)], 0, "cut off: 0");
        assert!(
            !cells.contains_key(&("Reader".into(), 64, 1_024)),
            "a record larger than its file is absent"
        );
        let measured = report.results.iter().filter(|r| r.layer == layer).map(|r| {
            let kib = |key: &str| r.point[key].as_u64().unwrap() / 1024;
            let title = match (r.point["op"].as_str(), r.point["engine"].as_str()) {
                (Some("write"), _) => "Writer",
                (Some("rand-read"), _) => "Random read",
                (_, Some("stdio")) => "Fread",
                _ => "Reader",
            };
            let value = r.value.unwrap() / 1024.0;
            ((title, kib("file_size"), kib("record")), value)
        });
        let mut found = 0;
        for ((title, file, record), value) in measured {
            let cell = cells[&(title.into(), file, record)] as f64;
            assert!((cell - value).abs() <= 0.5, "{title} {file} {record}");
            found += 1;
        }
        assert_eq!(
            found,
            4 * (1 + 2 + 3 + 1),
            "all points but the cut-off ones"
        );
        assert_eq!(cells.values().filter(|v| **v > 0).count(), found);
    }
}

#[test]
fn iozones_text_looks_like_iozones() {
    let report = report(&Matrix {
        works: vec![("read", "sync"), ("write", "sync")],
        layers: Vec::new(),
        ..Matrix::default()
    });
    insta::assert_snapshot!(parts(&report, "iozone.txt")[""]);
}

#[test]
fn pread_is_its_own_test_only_beside_read_and_a_second_set_has_its_own_file() {
    let titles = |works: &[(&'static str, &'static str)]| -> Vec<Vec<String>> {
        let report = report(&Matrix {
            works: works.to_vec(),
            layers: Vec::new(),
            ..Matrix::default()
        });
        parts(&report, "a.iozone")
            .values()
            .map(|text| read_iozone(text).0)
            .collect()
    };
    assert_eq!(titles(&[("read", "pread")]), [["Reader"]]);
    assert_eq!(
        titles(&[("read", "pread"), ("read", "sync"), ("reread", "preadv")]),
        [["Reader", "Pread", "Re-Preadv"]]
    );
    assert_eq!(
        titles(&[("read", "mmap"), ("read", "uring"), ("write", "uring")]),
        [vec!["Writer", "Reader"], vec!["Reader"]]
    );
}

/// The default plan made two files of such tables for each layer.
#[test]
fn one_size_beside_other_work_is_no_table() {
    let (run, trials) = Sample {
        points: vec!["open and stat", "large read, warm"],
        ..Sample::default()
    }
    .build();
    let card = parts(&Report::build(&run, &trials), "x.iozone.txt");
    assert_eq!(card.len(), 1, "{:?}", card.keys());
    assert!(card[""].contains("No result is one of iozone's tests"));
    let alone = report(&Matrix {
        works: vec![("read", "sync")],
        files: vec![1 << 20],
        records: vec![4 << 10],
        ..Matrix::default()
    });
    let alone = parts(&alone, "x.iozone.txt");
    let (titles, cells) = read_iozone(&alone[""]);
    assert_eq!(
        (titles.as_slice(), cells.len()),
        (&["Reader".to_owned()][..], 1)
    );
}

#[test]
fn without_an_iozone_test_the_file_says_so() {
    let (run, trials) = Sample {
        points: vec!["open and stat"],
        ..Sample::default()
    }
    .build();
    let parts = parts(&Report::build(&run, &trials), "x.iozone.txt");
    assert_eq!(parts.len(), 1);
    assert!(parts[""].contains("No result is one of iozone's tests"));
    assert!(!parts[""].contains("Excel output is below"));
}

#[test]
fn a_hostile_layer_name_starts_no_table() {
    let (mut run, trials) = Matrix::default().build();
    run.layers[1].name = "\"Writer report\"\n\"Reader report\"\u{1b}[2J".into();
    let parts = parts(&Report::build(&run, &trials), "iozone.txt");
    for text in parts.values() {
        let (titles, _) = read_iozone(text);
        assert_eq!(titles.len(), 4);
        assert!(!text.contains('\u{1b}') && text.matches("Writer report\"").count() == 1);
    }
    assert!(parts.keys().all(|p| !p.contains(['"', '\n', '/'])));
}

fn csv(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let own = |r: &csv::StringRecord| r.iter().map(str::to_owned).collect::<Vec<_>>();
    let head = own(reader.headers().unwrap());
    let lines = reader.records().map(|r| own(&r.unwrap())).collect();
    (head, lines)
}

#[test]
fn wide_csv_has_the_layers_beside_each_other() {
    let (run, trials) = Sample::default().build();
    let report = Report::build(&run, &trials);
    let (head, lines) = csv(&parts(&report, "x.wide.csv")[""]);
    assert_eq!(lines.len(), report.points().len());
    let column = |name: &str| head.iter().position(|h| h == name).expect("a column");
    for (line, label) in lines.iter().zip(report.points()) {
        assert_eq!(line[column("point")], label);
        for row in report.results.iter().filter(|r| r.label == label) {
            let cell = |what: &str| &line[column(&format!("{} {what}", row.layer))];
            assert_eq!(cell("value").parse().ok(), row.value);
            assert_eq!(cell("ratio").parse().ok(), row.ratio.map(|r| r.estimate));
            assert_eq!(
                cell("ratio_low").parse().ok(),
                row.ratio.and_then(|r| r.interval).map(|i| i[0])
            );
            assert_eq!(cell("verdict"), row.verdict.word());
        }
    }
}

#[test]
fn trials_csv_has_every_trial() {
    let (mut run, mut trials) = Sample::default().build();
    run.layers[1].name = "=cmd()".into();
    trials[3].trial = None;
    trials[3].error = Some("read: I/O error".into());
    let report = Report::build(&run, &trials);
    let (head, lines) = csv(&parts(&report, "x.trials.csv")[""]);
    assert_eq!(lines.len(), report.trials.len());
    let column = |name: &str| head.iter().position(|h| h == name).expect("a column");
    for (line, trial) in lines.iter().zip(&report.trials) {
        assert_eq!(line[column("seq")], trial.seq.to_string());
        assert_eq!(line[column("op_us")].parse().ok(), trial.op_us);
        assert_eq!(line[column("bytes")], trial.bytes.to_string());
    }
    assert_eq!(lines[3][column("op_us")], "");
    assert_eq!(lines[3][column("error")], "read: I/O error");
    assert!(
        lines.iter().any(|l| l[column("layer")] == "'=cmd()"),
        "text is no formula"
    );
}
