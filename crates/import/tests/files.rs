//! Files as the programs write them, and what may have happened to them since.

use std::path::{Path, PathBuf};

use layermark_import::{ImportError, formats, read};
use layermark_model::{Import, ImportedPoint};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn import(name: &str) -> Import {
    read(&fixture(name), None).unwrap()
}

/// Reads a changed copy of a fixture.
fn changed(name: &str, change: impl Fn(String) -> Vec<u8>) -> Result<Import, ImportError> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let temp = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(temp.path(), change(text)).unwrap();
    read(temp.path(), None)
}

fn named<'a>(import: &'a Import, name: &str) -> &'a ImportedPoint {
    import.points.iter().find(|p| p.name == name).unwrap()
}

fn op(point: &ImportedPoint) -> &str {
    point.op.as_deref().unwrap_or("none")
}

fn close(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|v| (v / expected - 1.0).abs() < 1e-6)
}

#[test]
fn fio_json_plus() {
    let found = import("fio-3.33-jsonplus.json");
    assert_eq!(
        (found.format.as_str(), found.tool.as_str()),
        ("fio", "fio-3.33")
    );
    assert!(found.measured.as_ref().unwrap().contains("2026"));
    let read = named(&found, "seq-read");
    assert_eq!(
        (op(read), read.record, read.file_size),
        ("read", Some(65536), Some(16 << 20))
    );
    assert_eq!((read.queue_depth, read.direct), (Some(1), Some(false)));
    assert_eq!(
        (read.engine.as_deref(), read.sync.as_deref()),
        (Some("pread"), Some("none"))
    );
    let ops = read.ops_per_s.unwrap();
    assert!(
        (read.bytes_per_s.unwrap() / ops / 65536.0 - 1.0).abs() < 0.01,
        "{read:?}"
    );
    assert!(read.p99_us.unwrap() <= read.max_us.unwrap(), "{read:?}");
    let write = named(&found, "rand-write");
    assert_eq!(
        (op(write), write.sync.as_deref()),
        ("rand-write", Some("fsync"))
    );
    let mixed = named(&found, "mixed");
    assert!(
        op(mixed).starts_with("mix ") && op(mixed).contains(" % read"),
        "{mixed:?}"
    );
    assert_eq!(mixed.sync.as_deref(), Some("every 32"));
    assert_eq!(found.points.len(), 3);
}

/// 6,735 of 704,000 reads had reached the device, and the file says so.
#[test]
fn fio_says_how_many_requests_reached_the_device() {
    let told = |change: [(&str, &str); 2]| -> Vec<String> {
        let found = changed("fio-3.33-jsonplus.json", |text| {
            let text = change.iter().fold(text, |text, (a, b)| {
                if a.is_empty() {
                    text
                } else {
                    text.replace(a, b)
                }
            });
            text.into_bytes()
        });
        let mut notes = found.unwrap().notes;
        notes.retain(|note| note.contains("disk_util"));
        notes
    };
    let reads = ("\"read_ios\" : 47", "\"read_ios\" : 6735");
    let notes = told([reads, ("", "")]);
    let [note] = &notes[..] else {
        panic!("{notes:?}")
    };
    assert!(
        note.contains(" reads of the jobs, 6735 at vda; ")
            && note.contains(" writes of the jobs, 1 at vda ("),
        "{note}"
    );
    let absurd = ("\"write_ios\" : 1", "\"write_ios\" : -1");
    let notes = told([reads, absurd]);
    assert!(!notes[0].contains("writes of the jobs"), "{notes:?}");
    let absent = ("\"disk_util\"", "\"no_disks\"");
    assert!(told([absent, ("", "")]).is_empty());
}

/// fio's own file of `--fsync=1`: 18 us a write, and 5 ms the fsync after it.
#[test]
fn fio_with_a_sync_after_each_write_says_what_both_take() {
    let found = import("fio-3.33-fsync.json");
    let point = named(&found, "commit");
    assert_eq!((op(point), point.sync.as_deref()), ("write", Some("each")));
    let from_rate = 1e6 / point.ops_per_s.unwrap();
    let op_us = point.op_us.unwrap();
    assert!(
        (op_us / from_rate - 1.0).abs() < 0.01,
        "{op_us} {from_rate}"
    );
    assert_eq!((point.p99_us, point.max_us), (None, None));
    assert!(
        found.notes.iter().any(|n| n.contains("fsync apart")),
        "{:?}",
        found.notes
    );
    // Without those latencies nothing is known of an operation.
    let without = |t: String| t.replace("\"sync\" : {", "\"other\" : {").into_bytes();
    let found = changed("fio-3.33-fsync.json", without).unwrap();
    assert_eq!(named(&found, "commit").op_us, None);
}

#[test]
fn fio_with_text_before_and_after() {
    let plain = import("fio-3.33.json");
    let point = named(&plain, "plain");
    assert_eq!((op(point), point.queue_depth), ("rand-read", Some(8)));
    assert_eq!(
        (point.direct, point.engine.as_deref()),
        (Some(true), Some("uring"))
    );
    let with = |more: &'static str| {
        let changed = changed("fio-3.33.json", move |t| {
            t.replace("\"iodepth\" : \"8\",", more).into_bytes()
        });
        changed.unwrap().points.remove(0)
    };
    // psync has one under way whatever is asked for; a flush after every 32 writes is not one each.
    let psync = with("\"iodepth\" : \"8\", \"ioengine\" : \"psync\", \"fsync\" : \"32\",");
    assert_eq!(psync.sync.as_deref(), Some("every 32"));
    let one = with("\"iodepth\" : \"8\", \"numjobs\" : \"4\",");
    assert_eq!(
        (op(&one), one.threads, one.one_of),
        ("rand-read", Some(4), None),
        "an entry alone is the total"
    );
    let all = with("\"numjobs\" : \"4\", \"group_reporting\" : \"\",");
    assert_eq!((op(&all), all.threads), ("rand-read", Some(4)));
    assert_eq!(all.one_of, None, "it stands for the four");
    let around = |text: String| {
        let text = text.replace("  \"jobs\"", "fio: pid=7, err=5/file:io_u.c\n  \"jobs\"");
        format!("fio: sprandom sets norandommap=1\n{text}Run status group 0 (all jobs):\n")
            .into_bytes()
    };
    let mixed = changed("fio-3.33.json", around).unwrap();
    assert_eq!(mixed.points, plain.points);
    assert_eq!(mixed.notes[0], "3 lines that are not JSON were skipped");
    let twice = changed("fio-3.33.json", |t| t.repeat(2).into_bytes()).unwrap();
    assert_eq!(twice.notes[0], "the last of 2 reports in the file was read");
}

/// fio's own file of two jobs at a time, two of each, and a third after a `stonewall`.
#[test]
fn fio_jobs_that_are_told_one_by_one() {
    let found = import("fio-3.33-jobs.json");
    let told: Vec<_> = found
        .points
        .iter()
        .map(|p| (p.name.as_str(), op(p), p.threads, p.one_of))
        .collect();
    assert_eq!(
        told,
        [
            ("readers (1 of 2)", "rand-read", Some(2), Some(4)),
            ("readers (2 of 2)", "rand-read", Some(2), Some(4)),
            ("writers (1 of 2)", "write", Some(2), Some(4)),
            ("writers (2 of 2)", "write", Some(2), Some(4)),
            ("alone", "read", Some(1), None),
        ]
    );
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    assert!(found.notes[1].starts_with("4 of the results are of jobs that ran at the same time"));
    let three = import("fio-3.33-jsonplus.json");
    assert!(
        three
            .points
            .iter()
            .all(|p| p.one_of == Some(3) && p.threads == Some(1)),
        "three different jobs of one group"
    );
}

#[test]
fn fio_that_is_cut_off_old_or_absurd() {
    let fails = |change: &dyn Fn(String) -> String, words: &str| {
        let e = changed("fio-3.33.json", |t| change(t).into_bytes())
            .unwrap_err()
            .to_string();
        assert!(e.contains(words), "{e}");
    };
    fails(&|t| t[..t.len() / 2].to_owned(), "cut off");
    fails(
        &|t| t.replace("fio-3.33", "fio-1.59"),
        "fio-1.59: only the output of fio 2 and 3",
    );
    fails(
        &|t| t.replace("\"fio-3.33\"", "\"\""),
        "it names no version",
    );
    fails(
        &|t| t.replace("\"iops\" : 2", "\"iops\" : -2"),
        "not a rate",
    );
    fails(
        &|t| t.replace("\"bw_bytes\" : 9", "\"bw_bytes\" : 1e99"),
        "not JSON",
    );
    fails(
        &|t| t.replace("\"bw_bytes\" : 96420781", "\"bw_bytes\" : 1e30"),
        "read.bw_bytes",
    );
    fails(&|t| t.replace("\"iops\"", "\"io\""), "missing field `iops`");
    let failed = |t: String| t.replace("\"error\" : 0", "\"error\" : 5");
    fails(&failed, "ended with error 5");
}

#[test]
fn iozone_tables() {
    let found = import("iozone-3.489-R.txt");
    assert_eq!(
        (found.format.as_str(), found.tool.as_str()),
        ("iozone", "iozone 3.489")
    );
    // Six tables of 5 + 6 + 7 cells: no record above its file.
    assert_eq!(found.points.len(), 6 * 18);
    let first = &found.points[0];
    assert_eq!(
        (op(first), first.record, first.file_size),
        ("write", Some(4096), Some(65536))
    );
    assert_eq!(first.sync.as_deref(), Some("fsync"));
    assert!(
        close(first.bytes_per_s, (400_000.0 + 4000.0 + 64.0) * 1024.0),
        "{first:?}"
    );
    assert!(close(first.op_us, 4.0 / 404_064.0 * 1e6), "{first:?}");
    let ops: Vec<&str> = found.points.iter().step_by(18).map(op).collect();
    assert_eq!(
        ops,
        [
            "write",
            "rewrite",
            "read",
            "reread",
            "rand-read",
            "rand-write"
        ]
    );
    // Ended before its tables, it has printed the ordinary table.
    let early = |t: String| t.as_bytes()[..t.find("\"Writer").unwrap()].to_vec();
    let early = changed("iozone-3.489-R.txt", early).unwrap();
    assert_eq!(early.points.len(), 6);
    let in_ops = |t: String| {
        t.replace("Output is in kBytes/sec", "Output is in ops/sec")
            .into_bytes()
    };
    let other = changed("iozone-3.489-R.txt", in_ops).unwrap();
    assert!(close(other.points[0].ops_per_s, 404_064.0));
}

#[test]
fn iozone_that_is_cut_off_or_wrong() {
    let fails = |change: &dyn Fn(String) -> String, words: &str| {
        let e = changed("iozone-3.489-R.txt", |t| change(t).into_bytes())
            .unwrap_err()
            .to_string();
        assert!(e.contains(words), "{e}");
    };
    fails(&|t| t.trim_end().to_owned(), "ends within a line");
    fails(
        &|t| t[..t.find("\"64\"   ").unwrap()].to_owned(),
        "has no rows",
    );
    fails(
        &|t| t[..t.find("kB  reclen").unwrap()].to_owned() + "\n",
        "no table",
    );
    fails(&|t| t.replace("  404064 ", "  -404064 "), "not a rate");
    let per_op = |t: String| t.replace("Output is in kBytes/sec", "Microseconds/op Mode");
    fails(&|t| per_op(t).replace("  404064 ", "  inf "), "not a");
    fails(
        &|t| t.replace("  404064 ", "  fast "),
        "`fast` is not a number",
    );
    fails(
        &|t| t.replace("\"128\"   4", "\"128\"  1  2  3  4   4"),
        "values under 7 record sizes",
    );
}

#[test]
fn iometer_results() {
    let found = import("iometer-1.1.0.csv");
    assert_eq!(
        (found.format.as_str(), found.tool.as_str()),
        ("iometer", "Iometer 1.1.0")
    );
    assert_eq!(
        found.points.len(),
        2,
        "only the lines ALL: {:?}",
        found.points
    );
    let read = &found.points[0];
    assert_eq!(
        (op(read), read.record, read.queue_depth),
        ("rand-read", Some(4096), Some(4))
    );
    assert_eq!(read.file_size, Some(64 << 20));
    assert!(close(read.bytes_per_s, 21333.25 * 4096.0) && close(read.ops_per_s, 21333.25));
    assert!(read.op_us.unwrap() > 180.0, "{read:?}");
    assert_eq!(op(&found.points[1]), "mix 67 % read 100 % random");
    let old = |t: String| {
        t.replace("MBps (Decimal)", "x")
            .replace("MBps (Binary)", "MBps")
            .into_bytes()
    };
    let older = changed("iometer-1.1.0.csv", old).unwrap();
    let ratio = older.points[0].bytes_per_s.unwrap() / read.bytes_per_s.unwrap();
    assert!((ratio - 1.0).abs() < 1e-3);
}

#[test]
fn iometer_that_is_cut_off_or_wrong() {
    let fails = |change: &dyn Fn(String) -> String, words: &str| {
        let e = changed("iometer-1.1.0.csv", |t| change(t).into_bytes())
            .unwrap_err()
            .to_string();
        assert!(e.contains(words), "{e}");
    };
    fails(&|t| t[..t.find("ALL,").unwrap()].to_owned(), "no line ALL");
    fails(
        &|t| t[..t.find("ALL,").unwrap() + 60].to_owned(),
        "cut off before",
    );
    fails(
        &|t| t[..t.find("'Results").unwrap()].to_owned(),
        "no results section",
    );
    fails(&|t| t.replace("21333.25", "-21333.25"), "not a rate");
    fails(
        &|t| t.replace("21333.250000,21", "many,21"),
        "`IOps` is `many`",
    );
}

#[test]
fn hyperfine_results() {
    let found = import("hyperfine-1.15.json");
    assert_eq!(found.format, "hyperfine");
    let ls = named(&found, "ls /");
    assert_eq!((op(ls), ls.samples), ("command", Some(5)));
    assert!(close(ls.op_us, 2717.365), "the median: {ls:?}");
    let bad = |t: String| t.replace("\"median\": 0", "\"median\": -0").into_bytes();
    let e = changed("hyperfine-1.15.json", bad).unwrap_err().to_string();
    assert!(e.contains("not a time"), "{e}");
    let cut = |t: String| t.as_bytes()[..t.len() - 40].to_vec();
    assert!(
        changed("hyperfine-1.15.json", cut)
            .unwrap_err()
            .to_string()
            .contains("cut off")
    );
}

#[test]
fn a_format_that_is_named_is_the_one_that_is_tried() {
    let e = read(&fixture("iometer-1.1.0.csv"), Some("fio")).unwrap_err();
    assert!(
        e.to_string().contains("read as fio: there is no JSON"),
        "{e}"
    );
    for format in formats::ALL {
        let name = std::fs::read_dir(fixture("."))
            .unwrap()
            .flatten()
            .map(|e| e.file_name());
        let of = name
            .map(|n| n.into_string().unwrap())
            .find(|n| n.starts_with(format.id()));
        // Those of `programs.rs` that could not be run here.
        let made_up = [
            "netperf",
            "ior",
            "mdtest",
            "diskspd",
            "crystaldiskmark",
            "elbencho",
        ];
        let Some(of) = of else {
            assert!(made_up.contains(&format.id()), "{}", format.id());
            continue;
        };
        let found = read(&fixture(&of), Some(format.id())).unwrap();
        assert_eq!(found.format, format.id());
    }
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    /// Pieces of which these files are made, so that chance gets past the first line.
    const PIECES: [&str; 24] = [
        "\"fio version\" : \"fio-3.33\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\n",
        "\"jobs\" :",
        "\"read\" :",
        "\"iops\" : 1e999",
        "\"bw_bytes\" : -1",
        "\"Writer report\"\n",
        "\"4\" \"8\"\n",
        "\"64\" 1 2 3\n",
        "'Test Type\n",
        "'Target Type,Target Name,IOps\n",
        "ALL,All,-1\n",
        "ALL\n",
        "'size,x\n",
        "4096,100\n",
        "\"results\": [",
        "\"command\": \"x\"",
        "\"mean\": 1",
        "\u{feff}\0\u{e9}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

        #[test]
        fn no_text_panics_a_parser(parts in prop::collection::vec(0..PIECES.len(), 0..30), any in any::<String>()) {
            let text: String = parts.iter().map(|p| PIECES[*p]).chain([any.as_str()]).collect();
            for format in formats::ALL {
                let _ = format.knows(&text);
                if let Ok(found) = format.parse(&text) {
                    prop_assert!(!found.points.is_empty());
                }
            }
        }

        #[test]
        fn no_bytes_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let temp = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(temp.path(), bytes).unwrap();
            for format in formats::ALL {
                let _ = read(temp.path(), Some(format.id()));
            }
        }
    }

    fn texts() -> Vec<String> {
        let files = std::fs::read_dir(fixture(".")).unwrap();
        files
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(768) })]

        #[test]
        fn no_cut_or_flip_panics(text in prop::sample::select(texts()), at in 0.0..1.0f64, with in any::<char>()) {
            let at = (0..=(text.len() as f64 * at) as usize).rev().find(|n| text.is_char_boundary(*n)).unwrap();
            let flipped = format!("{}{with}{}", &text[..at], text[at..].chars().skip(1).collect::<String>());
            for text in [&text[..at], flipped.as_str()] {
                for format in formats::ALL {
                    let _ = format.parse(text);
                }
            }
        }
    }
}

/// Peak memory of this process, MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib: u64 = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib >> 10
}

/// What a format makes of an entry can be a hundred times as long as the entry.
#[test]
fn a_table_of_millions_is_refused_in_bounded_memory() {
    const BYTES: usize = 4 << 20;
    let mut rows = String::from("\"Writer report\"\n      ");
    rows.extend((1..=200).map(|n| format!(" \"{n}\"")));
    let row = format!("\n\"4\" {}", " 1".repeat(200));
    rows += &row.repeat(BYTES / row.len());
    rows.push('\n');
    let line = format!(
        "\"Writer report\"\n      \"4\"{}\n\"4\" 1\n",
        " \"4\"".repeat(BYTES / 4)
    );
    let titles = "\"no such report\"\n\"4\"\n".repeat(BYTES / 21);
    let jobs = |job: &str| {
        let all = format!("{job},").repeat(BYTES / (job.len() + 1));
        format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{all}{job}]}}")
    };
    let timed = "{\"command\":\"\",\"mean\":1},".repeat(BYTES / 24);
    let cells = format!("'Test Type,\n{}\n", ",".repeat(BYTES));
    let results = format!("{{\"results\":[{timed}{{\"command\":\"\",\"mean\":1}}]}}");
    for (format, text, why) in [
        ("iozone", rows, "more than 100000 results"),
        ("iozone", line, "line 2 is longer than 64 KiB"),
        ("iozone", titles, "further remarks"),
        ("fio", jobs("{}"), "at most 100000"),
        ("hyperfine", results, "at most 100000"),
        ("iometer", cells, "line 2 is longer than 64 KiB"),
    ] {
        let temp = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(temp.path(), text).unwrap();
        let error = read(temp.path(), Some(format)).unwrap_err().to_string();
        assert!(error.contains(why), "{format}: {error}");
    }
    // A job that was left out for each of 90,000 names, all of one group.
    let jobs = (0..90_000).map(|n| format!("{{\"jobname\":\"{n}\",\"error\":1}}"));
    let jobs = jobs.collect::<Vec<_>>().join(",");
    let text = format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{jobs}]}}");
    let temp = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(temp.path(), text).unwrap();
    assert!(read(temp.path(), Some("fio")).is_err());
    let peak = peak();
    assert!(peak < 250, "{peak} MiB");
}
