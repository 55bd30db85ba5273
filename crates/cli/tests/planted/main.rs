//! File systems in user space with planted faults, served by this program itself (`serve KEYS BELOW AT`), and what
//! the product says of them.

#[path = "../e2e/common/mod.rs"]
mod common;
mod fs;

use std::{path::Path, process::ExitCode};

use common::{Lm, Said, needs_root, skipped};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, serve, keys, below, at] = args.as_slice()
        && serve == "serve"
    {
        return match fs::serve(keys, Path::new(below), Path::new(at)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::FAILURE
            }
        };
    }
    let tests: [(&str, fn()); 9] = [
        ("a_server_with_its_own_memory", a_server_with_its_own_memory),
        (
            "a_server_that_reads_past_the_cache",
            a_server_that_reads_past_the_cache,
        ),
        (
            "small_files_of_a_server_are_not_proved",
            small_files_of_a_server_are_not_proved,
        ),
        (
            "liars_are_no_other_file_system",
            liars_are_no_other_file_system,
        ),
        (
            "liars_lose_data_in_a_power_cut",
            liars_lose_data_in_a_power_cut,
        ),
        (
            "what_cannot_be_read_after_a_cut_is_lost",
            what_cannot_be_read_after_a_cut_is_lost,
        ),
        (
            "a_layer_that_lets_nobody_in_has_lost_nothing",
            a_layer_that_lets_nobody_in_has_lost_nothing,
        ),
        (
            "what_is_closed_before_an_unmount_is_looked_for",
            what_is_closed_before_an_unmount_is_looked_for,
        ),
        (
            "a_refused_fsync_of_a_directory_is_a_finding",
            a_refused_fsync_of_a_directory_is_a_finding,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            if needs_root() {
                test();
            }
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// A command of this program.
fn server(keys: &str) -> String {
    let own = std::env::current_exe().expect("this program");
    format!("{} serve {keys}", own.display())
}

/// A workload natively and in a planted file system over the same directory. With `below` the disk is named.
fn measured(keys: &str, work: &[&str], below: bool) -> Option<(Value, String)> {
    let lm = Lm::new();
    let (at, source) = (lm.work().join("at"), lm.work().join("below"));
    let below = if below {
        format!(",below={}", source.display())
    } else {
        String::new()
    };
    let layer = format!("dir:{}{below},label=planted", at.display());
    let before = format!(
        r#"mkdir "$W/below" "$W/at"; {} "$W/below" "$W/at" & until mountpoint -q "$W/at"; do sleep 0.01; done"#,
        server(keys)
    );
    let lm = lm
        .work_with(work, &[&layer])
        .args(["--blocks", "8", "--json"]);
    let said = lm.around(&before, r#"umount -l "$W/at""#)?.run();
    let report = said.json();
    let text = said.then().args(["report", "last", "--full"]).run().stdout;
    Some((report, text))
}

/// The planted layer's only row.
fn row(report: &Value) -> &Value {
    let rows = report["results"].as_array().expect("results");
    let row = rows.iter().find(|r| r["layer"] == "planted");
    row.unwrap_or_else(|| panic!("no result: {report:#}"))
}

/// The line about caches.
fn caches(report: &Value) -> (&str, &str) {
    let all = report["trust"].as_array().expect("checks").iter();
    let mut item = all.filter(|t| t["id"] == "cache");
    let item = item.next().expect("a check");
    let text = |key: &str| item[key].as_str().expect("text");
    (text("state"), text("text"))
}

fn advice(report: &Value) -> String {
    report["advice"].to_string()
}

const COLD: &[&str] = &[
    "file",
    "--op",
    "rand-read",
    "--record",
    "16K",
    "--file-size",
    "1M",
    "--cache",
    "cold",
];
const WARM: &[&str] = &[
    "file",
    "--op",
    "rand-read",
    "--record",
    "16K",
    "--file-size",
    "1M",
];

/// "Cold was cold and warm was warm in all 132 trials", 3.1x faster, and no byte was read from any device.
fn a_server_with_its_own_memory() {
    let Some((report, text)) = measured("read=memory", COLD, false) else {
        return;
    };
    let (cold, (state, checked)) = (row(&report), caches(&report));
    assert_eq!(cold["verdict"], "untrusted", "{cold:#}");
    let why = cold["untrusted"].as_str().expect("a reason");
    let words = "nothing proves that the cache was cold in";
    assert!(why.starts_with(words), "{why}");
    assert!(
        why.ends_with("nothing below it counts what was read"),
        "{why}"
    );
    assert_eq!(state, "warn", "{checked}");
    assert!(checked.contains("not proved in"), "{checked}");
    assert!(!text.contains("cold was cold"), "{text}");
    assert!(advice(&report).contains("below=DIRECTORY"), "{text}");
    // Its device is named, and read nothing: that it was cold is refuted, as far as others let it be seen.
    let Some((report, _)) = measured("read=memory", COLD, true) else {
        return;
    };
    let cold = row(&report);
    if device_share(cold) <= 0.05 && is_alone(cold) {
        assert_eq!(cold["verdict"], "untrusted", "{cold:#}");
        assert!(caches(&report).1.contains("refuted in"), "{report:#}");
    } else {
        skipped("other programs read from the disk");
    }
}

fn device_share(row: &Value) -> f64 {
    row["device_share"].as_f64().expect("a share")
}

/// Whether no trial ran beside busy programs. The row's counts of a device leave those trials out, and its verdict
/// does not: what others may have read proves nothing.
fn is_alone(row: &Value) -> bool {
    row["flag_counts"]["contaminated"].is_null()
}

/// What it reads was called warm, whatever it did.
fn a_server_that_reads_past_the_cache() {
    for (below, words) in [(false, "not proved in"), (true, "refuted in")] {
        let Some((report, _)) = measured("read=direct", WARM, below) else {
            return;
        };
        let (state, text) = caches(&report);
        assert_eq!(state, "warn", "{text}");
        assert!(text.contains(words), "{text}");
    }
    let Some((report, _)) = measured("read=direct", COLD, true) else {
        return;
    };
    let cold = row(&report);
    assert!(device_share(cold) >= 0.95, "{cold:#}");
    if is_alone(cold) && cold["device_others"].as_f64() == Some(0.0) {
        assert_ne!(cold["verdict"], "untrusted", "{cold:#}");
    } else {
        skipped("other programs read from the disk");
    }
}

/// "In all 34 trials" stood beside "nothing here counts device bytes or cached pages".
fn small_files_of_a_server_are_not_proved() {
    let work = ["meta", "--op", "small-read", "--files", "50"];
    let Some((report, text)) = measured("read=memory", &work, false) else {
        return;
    };
    let (state, checked) = caches(&report);
    assert!(text.contains("nothing here counts"), "{text}");
    assert_eq!(state, "warn", "{checked}");
    assert!(
        !checked.contains("in all") && checked.contains("not proved in"),
        "{checked}"
    );
    // How long repeated reads take is known all the same.
    assert_ne!(row(&report)["verdict"], "untrusted", "{report:#}");
}

/// "It is another file system (fuse.pf, natively ext4); nothing else in the data explains it".
fn liars_are_no_other_file_system() {
    let append = [
        "file",
        "--op",
        "append",
        "--record",
        "4K",
        "--file-size",
        "256K",
        "--sync",
        "each-data",
    ];
    for keys in ["fsync=second", "fsync=other", "fsync=early"] {
        let Some((report, text)) = measured(keys, &append, true) else {
            return;
        };
        let page = report.to_string() + &text;
        assert!(!page.contains("another file system"), "{keys}: {page}");
        assert!(!page.contains("reached the disk"), "{keys}: {page}");
        let flushed = &row(&report)["durability"];
        if keys == "fsync=second" {
            // Unless others flushed the same disk, which is then said.
            assert_ne!(flushed["verdict"], "honoured", "{flushed:#}");
            let others = flushed["because"].as_str().expect("evidence");
            let counted = flushed["per_sync"].as_f64();
            assert!(
                counted.is_some_and(|n| n < 0.9) || others.contains("flushed"),
                "{flushed:#}"
            );
            if counted.is_some() {
                assert!(text.contains("flushes a sync"), "{text}");
            }
        }
    }
}

fn cut(lm: Lm, more: &[&str]) -> Said {
    let work = lm.work();
    lm.args(["durability", "--no-control", "--seed", "3", "--blocks", "3"])
        .args(["--sessions", "1", "--records", "8", "--cuts", "8", "--json"])
        .args(["--dir".as_ref(), work.as_os_str()])
        .args(more)
        .run()
        .left_nothing()
}

/// Trials of the layer that is not a control.
fn trials(report: &Value) -> Vec<&Value> {
    let all = report["power_cuts"].as_array().expect("power cuts").iter();
    let planted = all.filter(|t| t["layer"].as_str().is_some_and(|l| l.contains("serve")));
    planted.collect()
}

/// What counting takes for honest, or for another file system, loses data.
fn liars_lose_data_in_a_power_cut() {
    for keys in ["fsync=second", "fsync=other", "fsync=early"] {
        let said = cut(Lm::new(), &["--server", &server(keys)]);
        let report = said.json();
        assert_eq!(said.code, Some(1), "{keys}: {report:#}");
    }
}

/// Each directory needs a file of the server's that it never flushed. "Cannot be decided", with exit code 0.
fn what_cannot_be_read_after_a_cut_is_lost() {
    let said = cut(Lm::new(), &["--server", &server("dirs=iv")]);
    let report = said.json();
    assert_eq!(said.code, Some(1), "{report:#}");
    let losing = trials(&report)
        .into_iter()
        .filter(|t| t["losing"].as_u64() > Some(0));
    assert!(losing.count() > 0, "{report:#}");
    let headline = report["headline"].as_str().expect("a headline");
    assert!(headline.contains("is lost after a power cut"), "{headline}");
}

/// Writes, flushes and acknowledges files, and looks for them.
const PROGRAM: [&str; 6] = [
    "--run",
    "i=0; while i=$((i+1)); do echo $i > $i; sync $i .; echo ack $i; sleep 0.03; done",
    "--check",
    "while read i; do [ -s $i ] || echo lost $i; done",
    "--time",
    "600ms",
];

/// What a program lost in the layer that is not a control.
fn program(report: &Value) -> &Value {
    let all = report["program_cuts"].as_array().expect("cuts").iter();
    let mut planted = all.filter(|c| c["layer"].as_str().is_some_and(|l| l.contains("serve")));
    planted.next().unwrap_or_else(|| panic!("{report:#}"))
}

/// What cannot be set up or read for a reason that is not a loss convicts nobody.
fn a_layer_that_lets_nobody_in_has_lost_nothing() {
    let server = server("dirs=denied");
    let more = ["--server", &server, "--sequence", "create a/g; fsync a"];
    let said = cut(Lm::new(), &[&more, &PROGRAM[..]].concat());
    let report = said.json();
    for trial in trials(&report) {
        let counts = ["losing", "cuts"].map(|key| trial[key].as_u64());
        assert_eq!(counts, [Some(0); 2], "{trial:#}");
        assert!(trial["unrecovered"].as_u64() > Some(0), "{trial:#}");
    }
    let cut = program(&report);
    assert_eq!(cut["losing"], 0, "{cut:#}");
    assert!(cut["unchecked"].as_u64() > Some(0), "{cut:#}");
    let all = report["sequence_cuts"].as_array().expect("cuts").iter();
    let mut planted = all.filter(|c| c["layer"].as_str().is_some_and(|l| l.contains("serve")));
    let cut = planted.next().expect("sequences");
    assert_eq!((cut["cuts"].as_u64(), cut.get("lost")), (Some(0), None));
    assert!(cut["unrecovered"].as_u64() > Some(0), "{cut:#}");
}

/// The server has written nothing yet when it is unmounted. What is flushed, it stores.
fn what_is_closed_before_an_unmount_is_looked_for() {
    let said = cut(Lm::new(), &["--server", &server("close=late")]);
    let report = said.json();
    assert_eq!(said.code, Some(1), "{report:#}");
    let closed = &trials(&report)[0]["closed"];
    assert_eq!((&closed["files"], &closed["lost"]), (&8.into(), &8.into()));
    let headline = report["headline"].as_str().expect("a headline");
    let words = "loses what was closed just before a clean unmount: 8 of 8 files (in the layer, mounted again, ";
    assert!(headline.contains(words), "{headline}");
    let said = cut(Lm::new(), &["--server", &server("fsync=pass")]);
    let report = said.json();
    assert_eq!(said.code, Some(0), "{report:#}");
    let closed = &trials(&report)[0]["closed"];
    assert_eq!((&closed["files"], &closed["lost"]), (&8.into(), &0.into()));
}

/// The whole layer was not tested.
fn a_refused_fsync_of_a_directory_is_a_finding() {
    let said = cut(Lm::new(), &["--server", &server("fsyncdir=einval")]);
    let report = said.json();
    assert_eq!(said.code, Some(0), "{report:#}");
    let all = trials(&report);
    let of = |writer: &str| {
        let found = all.iter().find(|t| t["writer"] == writer);
        *found.unwrap_or_else(|| panic!("{writer}: {report:#}"))
    };
    for writer in ["append", "overwrite", "mmap", "sqlite-wal"] {
        let trial = of(writer);
        assert!(trial["cuts"].as_u64() > Some(0), "{trial:#}");
        assert!(trial["error"].is_null(), "{trial:#}");
        let refused = trial["refused"].as_str().expect("what was refused");
        assert_eq!(
            refused,
            "fsync of a directory: Invalid argument (os error 22)"
        );
    }
    for writer in ["create", "rename"] {
        let error = of(writer)["error"].as_str().expect("a reason");
        assert!(error.contains("Invalid argument (os error 22)"), "{error}");
    }
    let page = said.then().args(["report", "last"]).run().stdout;
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        page.contains("fsync of a directory: Invalid argument"),
        "{page}"
    );
}
