//! Power cuts on bad days: fsync fails or never answers, the command is killed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::common::{self, Lm, Said, machine, needs_root, skipped};

/// A library for `LD_PRELOAD`: fsync does nothing, or never returns.
const PRELOADED: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int answer(void) {
    const char *way = getenv("FSYNC");
    while (way && strcmp(way, "never") == 0) pause();
    return 0;
}
int fsync(int file) { (void)file; return answer(); }
int fdatasync(int file) { (void)file; return answer(); }
"#;

/// Compiles it in the directory of a test.
fn preloaded(dir: &Path) -> Option<String> {
    let (source, library) = (dir.join("preloaded.c"), dir.join("preloaded.so"));
    fs::write(&source, PRELOADED).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    match cc.status() {
        Ok(status) if status.success() => Some(library.display().to_string()),
        _ => {
            skipped("no C compiler");
            None
        }
    }
}

fn has_bindfs() -> bool {
    let there = Command::new("bindfs").arg("--version").output().is_ok();
    if !there {
        skipped("bindfs is not installed");
    }
    there
}

fn durability(lm: Lm, more: &[&str]) -> Said {
    let work = lm.work();
    lm.args([
        "durability",
        "--no-control",
        "--seed",
        "3",
        "--blocks",
        "8",
        "--json",
    ])
    .args(["--sessions", "1", "--records", "8", "--dir"])
    .args([work])
    .args(more)
    .run()
    .left_nothing()
}

/// Trials of a layer.
fn trials<'a>(report: &'a Value, layer: &str) -> Vec<&'a Value> {
    let all = report["power_cuts"].as_array().expect("power cuts");
    all.iter().filter(|t| t["layer"] == layer).collect()
}

fn losing(trials: &[&Value]) -> u64 {
    let each = trials
        .iter()
        .map(|t| t["losing"].as_u64().expect("a number"));
    each.max().expect("trials")
}

/// bindfs passes fsync of files on and does not implement that of directories; with the preloaded library
/// it flushes nothing.
#[test]
fn a_foreign_file_system_with_an_empty_fsync_is_convicted() {
    if !needs_root() || !has_bindfs() {
        return;
    }
    let lm = Lm::new();
    let Some(library) = preloaded(lm.dir.path()) else {
        return;
    };
    let preloaded = format!("env LD_PRELOAD={library} bindfs -f");
    let servers = [
        "--server",
        "bindfs -f",
        "--server",
        &preloaded,
        "--cuts",
        "8",
    ];
    let said = durability(lm, &servers);
    let report = said.json();
    assert_eq!(said.code, Some(1), "{report:#}");
    assert_eq!(losing(&trials(&report, "native")), 0, "{report:#}");
    for layer in ["bindfs -f", &preloaded] {
        let trials = trials(&report, layer);
        assert!(losing(&trials) > 0, "{layer}: {trials:#?}");
        let lost = trials
            .iter()
            .any(|t| t["first"]["finding"]["sequence"].as_u64() > Some(0));
        assert!(lost, "{layer}: {trials:#?}");
    }
    // Only the names are lost where files are flushed.
    let append = trials(&report, "bindfs -f")
        .into_iter()
        .find(|t| t["writer"] == "append");
    assert_eq!(append.expect("a writer")["losing"], 0, "{report:#}");
    let append = trials(&report, &preloaded)
        .into_iter()
        .find(|t| t["writer"] == "append");
    assert!(
        append.expect("a writer")["losing"].as_u64() > Some(0),
        "{report:#}"
    );
}

#[test]
fn an_fsync_that_never_returns_ends_the_cuts_of_its_layer_alone() {
    if !needs_root() || !has_bindfs() {
        return;
    }
    let lm = Lm::new();
    let Some(library) = preloaded(lm.dir.path()) else {
        return;
    };
    let server = format!("env FSYNC=never LD_PRELOAD={library} bindfs -f");
    let dir = lm.dir.path().to_owned();
    let said = durability(lm, &["--server", &server, "--cuts", "2", "--silence", "5s"]);
    let report = said.json();
    let hung = trials(&report, &server);
    let why = hung[0]["uncut"].as_str().unwrap_or_default();
    assert!(hung.len() == 1 && why.contains("silent"), "{hung:#?}");
    assert_eq!(losing(&trials(&report, "native")), 0, "{report:#}");
    assert!(
        losing(&trials(&report, "overlay:volatile")) > 0,
        "{report:#}"
    );
    machine::nothing_left(&dir, &[]);
}

#[test]
fn a_server_that_is_not_there_or_ends_is_named() {
    if !needs_root() {
        return;
    }
    let said = durability(
        Lm::new(),
        &[
            "--server",
            "no-such-fs -f",
            "--server",
            "true",
            "--cuts",
            "2",
        ],
    );
    let report = said.json();
    for (layer, words) in [("no-such-fs -f", "no-such-fs"), ("true", "exit code 0")] {
        let why = trials(&report, layer)[0]["uncut"]
            .as_str()
            .unwrap_or_default();
        assert!(why.contains(words), "{layer}: {why}");
    }
    Lm::new()
        .args(["durability", "--server", "'"])
        .run()
        .fails(2, &["`--server` = '", "layermark durability --server"]);
}

/// A failed fsync is not tried again: the second would succeed.
#[test]
fn an_fsync_that_fails_ends_its_writer_and_convicts_nobody() {
    if !needs_root() {
        return;
    }
    let said = durability(
        Lm::new(),
        &[
            "-l",
            "fuse:fsync=einval",
            "-l",
            "fuse:fsync=eio",
            "--cuts",
            "2",
        ],
    );
    let report = said.json();
    let invalid = trials(&report, "fuse:fsync=einval");
    assert_eq!(invalid.len(), 8, "{invalid:#?}");
    for trial in &invalid {
        let error = trial["error"].as_str().unwrap_or_default();
        assert!(!error.is_empty(), "{trial:#}");
        assert_eq!(
            (&trial["records"], &trial["losing"]),
            (&0.into(), &0.into())
        );
    }
    let once = trials(&report, "fuse:fsync=eio");
    let failed: Vec<_> = once.iter().filter(|t| t["error"].is_string()).collect();
    assert_eq!(failed.len(), 1, "{once:#?}");
    assert!(
        failed[0]["error"].as_str().unwrap().contains("os error 5"),
        "{once:#?}"
    );
    assert_eq!(losing(&once), 0, "{once:#?}");
    let headline = report["headline"].as_str().expect("a headline");
    assert!(!headline.contains("lies: record"), "{headline}");
}

/// The layer's fsync fails once, and would succeed when tried again: nothing more is measured in it, whether
/// the workload asked for the flush, or the end of its trial did.
#[test]
fn a_failed_fsync_ends_its_layer_in_a_measurement() {
    if !needs_root() {
        return;
    }
    for (work, failed) in [
        (["append", "--sync", "each"], "cannot write and flush"),
        (["write", "--sync", "none"], "cannot flush"),
    ] {
        let lm = Lm::new();
        let dir = lm.work();
        let said = lm
            .args(["file", "--record", "4K", "--scale", "0.1", "--op"])
            .args(work)
            .args(["-l", "fuse:fsync=eio", "-l", "fuse", "--no-control"])
            .args(["--sessions", "1", "--blocks", "3", "--json", "--dir"])
            .args([dir])
            .run()
            .left_nothing();
        is_left_after_one_trial(&said, failed);
    }
}

#[track_caller]
fn is_left_after_one_trial(said: &Said, failed: &str) {
    let report = said.json();
    let layer = |name: &str| {
        let all = report["layers"].as_array().expect("layers").iter();
        let mut found = all.filter(|l| l["name"] == name);
        found.next().expect("a layer").clone()
    };
    let lost = layer("fuse:fsync=eio");
    assert_eq!(lost["status"], "failed", "{lost:#}");
    let why = lost["reason"].as_str().expect("a reason");
    let begin = format!("an operation failed with an I/O error, and is not tried again: {failed}");
    assert!(why.starts_with(&begin), "{why}");
    assert_eq!(layer("fuse")["status"], "ready");
    assert!(
        said.stderr.contains("is not tried again"),
        "{}",
        said.stderr
    );
    let verdicts = report["verdicts"].to_string();
    assert!(
        verdicts.contains("`fuse:fsync=eio` failed in 1 of 1 measurement"),
        "{verdicts}"
    );
}

/// Killed while a disk is mounted that a cut left: nothing stays.
#[test]
fn a_command_that_is_killed_between_cuts_leaves_nothing() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let lm = lm
        .args([
            "durability",
            "-l",
            "loop:ext4",
            "--no-control",
            "--blocks",
            "1",
        ])
        .args([
            "--sessions",
            "1",
            "--cuts",
            "5000",
            "--records",
            "4",
            "--dir",
        ])
        .args([&work]);
    let (mut child, home) = lm.start();
    let family = common::wait_for("a disk that a cut left", || {
        let family = machine::family(child.id());
        let recovered = |(pid, _): &machine::Process| {
            let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo"));
            mounts.is_ok_and(|text| text.contains("/images/mnt-"))
        };
        family.iter().any(recovered).then_some(family)
    });
    child.kill().expect("killed");
    child.wait().expect("ended");
    machine::nothing_left(home.path(), &family);
    let left: Vec<_> = fs::read_dir(&work).expect("work").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The directory in memory in which a run looks at disks, once it is mounted, and a process that sees it.
fn images(run: u32) -> Option<(u32, PathBuf)> {
    let of = |(pid, _): machine::Process| {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
        let at = |line: &str| line.split(' ').nth(4).map(PathBuf::from);
        let mut all = mounts.lines().filter_map(at);
        let at = all.find(|at| at.ends_with("disk-0/disk/images"))?;
        Some((pid, at))
    };
    machine::family(run).into_iter().find_map(of)
}

/// No memory is left for any image: that was a loss of the layer, which "could not be set up again".
#[test]
fn cuts_that_this_machine_cannot_look_at_are_not_judged() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let (child, dir) = lm
        .args([
            "durability",
            "-l",
            "overlay:upper",
            "--no-control",
            "--json",
        ])
        .args([
            "--cuts",
            "3",
            "--records",
            "20",
            "--blocks",
            "1",
            "--sessions",
            "1",
        ])
        .args(["--sequence", "create a/g; fsync a", "--dir"])
        .args([work])
        .start();
    let run = child.id();
    let (pid, at) = common::wait_for("the disk of the first layer", || images(run));
    let small = Command::new("nsenter")
        .args([format!("--mount=/proc/{pid}/ns/mnt"), "mount".into()])
        .args(["-o", "remount,size=64k"])
        .arg(&at)
        .status();
    assert!(small.expect("nsenter").success(), "{}", at.display());
    let said = Said::from(common::output(child), dir).left_nothing();
    let report = said.json();
    let [first, second] = ["native", "overlay:upper"].map(|layer| trials(&report, layer));
    for trial in first {
        let counts = ["cuts", "losing", "unrecovered", "unjudged"].map(|key| &trial[key]);
        assert_eq!(counts, [0, 0, 0, 3], "{trial:#}");
        let why = trial["unjudged_why"].as_str().unwrap_or_default();
        assert!(why.contains("No space left"), "{trial:#}");
    }
    // Other layers have disks of their own.
    assert!(
        second
            .iter()
            .all(|t| t["cuts"] == 3 && t["unjudged"].is_null())
    );
    let cuts = report["sequence_cuts"].as_array().expect("sequences");
    let of = cuts
        .iter()
        .find(|c| c["layer"] == "native")
        .expect("a layer");
    assert_eq!(
        [&of["cuts"], &of["unrecovered"], &of["unjudged"]],
        [0, 0, 4],
        "{of:#}"
    );
    let told = said.then().args(["report", "last", "--full"]).run().stdout;
    let words: Vec<&str> = told.split_whitespace().collect();
    let told = words.join(" ").replace('`', "");
    let words = "native: cannot tell: 3 power cuts are not judged, because of an error that may be this machine's:";
    assert!(told.contains(words), "{told}");
}
