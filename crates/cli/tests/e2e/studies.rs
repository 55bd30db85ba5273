//! The studies' plans, small, end to end: their tables, charts, lines and conclusions.

use std::fs;

use crate::common::{self, Lm};
use serde_json::Value;

/// Runs a plan that comes with the binary, small, and gives its report as JSON with what the page
/// and the terminal say.
fn study(name: &str, more: &[&str]) -> (Value, String, String) {
    let lm = Lm::new();
    let work = lm.work();
    let page = work.join("r.html");
    let json = work.join("r.json");
    let said = lm
        .args(["run", name, "--full"])
        .args(more)
        .args([
            "-o".as_ref(),
            page.as_os_str(),
            "-o".as_ref(),
            json.as_os_str(),
        ])
        .args(["--dir".as_ref(), work.as_os_str()])
        .run();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = serde_json::from_str(&fs::read_to_string(json).expect("JSON")).expect("JSON");
    (report, fs::read_to_string(page).expect("page"), said.stdout)
}

fn texts(section: &Value, key: &str, field: &str) -> Vec<String> {
    let all = section[key].as_array().expect("a list");
    all.iter()
        .map(|t| t[field].as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn buffer_sizes() {
    let small = ["--scale", "0.01", "--blocks", "6", "-l", "tmpfs"];
    let (report, page, text) = study("buffer-size", &small);
    let study = &report["study"];
    assert_eq!(study["name"], "buffer-size");
    assert_eq!(texts(study, "files", "name").len(), 4);
    let rows = report["buffer"].as_array().expect("recommendations");
    assert_eq!(rows.len(), 4, "{rows:#?}");
    for row in rows {
        let records = row["records"].as_array().expect("sizes");
        assert_eq!(records.len(), 8);
        for pick in ["wall", "cpu"] {
            assert!(records.contains(&row[pick]["record"]), "{row:#}");
            assert_eq!(
                row[pick]["between"].as_array().map(Vec::len),
                Some(2),
                "{row:#}"
            );
        }
        // A call for 32 bytes costs nearly what one for 4096 does.
        assert_ne!(row["wall"]["record"], 32, "{row:#}");
    }
    assert_eq!(texts(study, "conclusions", "text").len(), 8);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("block=")).collect();
    assert_eq!(lines.len(), 32, "{text}");
    assert!(
        lines[0].contains(" size=2682880 time=") && lines[0].ends_with('s'),
        "{}",
        lines[0]
    );
    for words in [
        "download=\"native-write.txt\"",
        "write: CPU time for the file over record size",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

/// Records of one byte are measured as any other.
#[test]
fn records_from_one_byte_up() {
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args([
            "file",
            "--op",
            "write,read",
            "--record",
            "1..64",
            "--file-size",
            "64K",
        ])
        .args([
            "--engine", "sync", "--passes", "1", "--blocks", "6", "-l", "tmpfs", "--json",
        ])
        .args(["--no-control", "--dir"])
        .args([work])
        .run();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    let cost = report["cost"].as_array().expect("models");
    assert_eq!(cost.len(), 4);
    assert!(cost.iter().all(|c| c["records"][0] == 1), "{cost:#?}");
    let first = &report["buffer"][0];
    assert!(first["wall"]["record"].as_u64() > Some(1), "{first:#}");
}

/// A file written and read, natively, in an overlay and in an image.
#[test]
fn application_virtualisation() {
    let mut small = vec!["--scale", "0.02", "-l", "overlay:writecopy"];
    let image = common::is_root();
    if image {
        small.extend(["-l", "image:erofs"]);
    } else {
        common::skipped("images need root");
    }
    let (report, page, text) = study("fileio-appvirt", &small);
    let study = &report["study"];
    assert_eq!(study["name"], "fileio-appvirt");
    let titles = texts(study, "tables", "title");
    for title in [
        "Write, 5M: seconds",
        "Read, the first time, 5M: seconds",
        "Read, again, 5M: seconds",
        "Written after the program had ended: seconds",
        "overlay:writecopy: write, each repeat",
        "native: read, again, each repeat",
    ] {
        assert!(
            titles.iter().any(|t| t == title),
            "no {title} in {titles:#?}"
        );
        assert!(page.contains(title) && text.contains(title), "{title}");
    }
    assert_eq!(
        titles.contains(&"image:erofs: read, again, each repeat".to_owned()),
        image
    );
    let mut repeats = study["tables"].as_array().expect("tables").iter();
    let own = repeats
        .find(|t| t["title"] == "native: write, each repeat")
        .expect("native");
    assert_eq!(own["rows"].as_array().map(Vec::len), Some(4), "{own:#}");
    let head: Vec<&str> = own["head"]
        .as_array()
        .expect("head")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        head,
        [
            "record",
            "repeat 1",
            "repeat 2",
            "repeat 3",
            "mean",
            "range",
            "data came from"
        ]
    );
    let said = texts(study, "conclusions", "text");
    for words in [
        "takes as long as natively",
        "later ones from memory",
        "has written nearly everything",
        "changes a file without a copy of it",
    ] {
        assert!(
            said.iter().any(|c| c.contains(words)),
            "no {words} in {said:#?}"
        );
    }
    for row in report["results"].as_array().expect("results") {
        assert_eq!(
            (&row["trials"], &row["failed_trials"]),
            (&3.into(), &0.into()),
            "{row:#}"
        );
    }
}

/// iozone's tests in two layers that differ in everything the study asks for.
#[test]
fn development_machines() {
    let small = ["--scale", "0.01", "--blocks", "1", "-l", "fuse"];
    let (report, page, text) = study("iozone-vm", &small);
    let study = &report["study"];
    assert_eq!(study["name"], "iozone-vm");
    let titles = texts(study, "tables", "title");
    for words in [
        "read of a 64K file: KB/s",
        "rand-read of a",
        "write of a 64K file: KB/s",
        "rand-write of a",
    ] {
        assert!(
            titles.iter().any(|t| t.starts_with(words)),
            "no {words} in {titles:#?}"
        );
        assert!(page.contains(words) && text.contains(words), "{words}");
    }
    for words in [
        "native: read() against fread(), KB/s",
        "fuse: write() against fwrite(), KB/s",
    ] {
        assert!(
            titles.iter().any(|t| t == words),
            "no {words} in {titles:#?}"
        );
    }
    let charts = texts(study, "charts", "title");
    assert_eq!(charts.len(), 6, "{charts:#?}");
    let said = texts(study, "conclusions", "text");
    for words in [
        "reaches half of native's best",
        "flushes honestly",
        "keep the database in `fuse`",
        "fread() takes as long",
    ] {
        assert!(
            said.iter().any(|c| c.contains(words)),
            "no {words} in {said:#?}"
        );
    }
    if common::is_root() {
        let about = "`fuse` flushes honestly";
        let kept = said
            .iter()
            .find(|c| c.starts_with(about))
            .expect("a conclusion");
        assert!(
            kept.contains(": 0 of ") && kept.contains(" lost in 2 power cuts"),
            "{kept}"
        );
    } else {
        common::skipped("power cuts need root");
    }
}
