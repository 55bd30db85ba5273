//! `layermark safe`: whether a directory of the user can be relied on.

use std::{fs, path::Path};

use serde_json::Value;

use crate::common::{Lm, Said, is_root, machine::inventory, skipped};

/// The answers by their questions.
fn answers(said: &Said) -> Vec<(String, String)> {
    let safety = said.json();
    assert_eq!(safety["schema"], "layermark.safe/1", "{safety:#}");
    let all = safety["answers"].as_array().expect("answers");
    let text = |of: &Value, key: &str| of[key].as_str().expect("a text").to_owned();
    all.iter()
        .map(|of| {
            assert!(!text(of, "because").is_empty(), "{of:#}");
            assert_eq!(of["advice"].is_string(), of["answer"] != "yes", "{of:#}");
            (text(of, "question"), text(of, "answer"))
        })
        .collect()
}

#[track_caller]
fn answer<'a>(all: &'a [(String, String)], question: &str) -> &'a str {
    let found = all.iter().find(|(asked, _)| asked == question);
    &found.unwrap_or_else(|| panic!("{question}: {all:?}")).1
}

/// Locks and changes of two processes are shown; what a power cut leaves is not, and nothing of the user's is touched.
#[test]
fn a_directory_on_a_disk_has_an_answer_for_each_question() {
    let lm = Lm::new().file("work/precious", "mine");
    let work = lm.work();
    let before = inventory(&work);
    let said = lm.args(["safe", "work", "--json"]).run().left_nothing();
    let all = answers(&said);
    if said.json()["file_system"] == "overlay" {
        return skipped("it may be not known what is below the overlay of a container");
    }
    for question in ["flock", "fcntl", "ofd", "shared-mappings", "coherence"] {
        assert_eq!(answer(&all, question), "yes", "{}", said.stdout);
    }
    // A disk that loses what was flushed keeps no name either.
    let lost = answer(&all, "fsync") == "no";
    assert_eq!(answer(&all, "names") == "no", lost, "{}", said.stdout);
    assert_eq!(said.code, Some(if lost { 1 } else { 4 }), "{}", said.stderr);
    assert_eq!(inventory(&work), before);
    // The run has the measurements.
    let run = said.json()["run"].as_str().expect("a run").to_owned();
    let report = said.then().args(["report", &run, "--json"]).run();
    assert_eq!(report.json()["label"], "safe");
}

#[test]
fn what_is_asked_alone_decides_the_exit_code() {
    let said = Lm::new()
        .args(["safe", "work", "--only", "locks,mappings"])
        .run()
        .left_nothing();
    if said.stdout.contains(" (overlay)") {
        return skipped("it may be not known what is below the overlay of a container");
    }
    let said = said.code(0);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let said_yes = lines.iter().filter(|l| l.contains("  yes  ")).count();
    assert_eq!(said_yes, 4, "{}", said.stdout);
    said.prints("OFD locks").prints("a second process");
}

#[test]
fn memory_keeps_nothing_after_a_power_cut() {
    let Ok(memory) = tempfile::Builder::new().tempdir_in("/dev/shm") else {
        return skipped("there is no /dev/shm");
    };
    let said = Lm::new()
        .args(["safe", "--json", "--only", "fsync,names"])
        .args([memory.path()])
        .run()
        .code(1);
    let all = answers(&said);
    let no = |question: &str| (question.to_owned(), "no".to_owned());
    assert_eq!(all, [no("fsync"), no("names")]);
    assert_eq!(fs::read_dir(memory.path()).expect("it").count(), 0);
}

/// A file system in user space keeps locks for its one client, and says nothing of others.
#[test]
fn a_mount_with_another_path_has_two_clients() {
    if !is_root() || !Path::new("/usr/bin/bindfs").exists() {
        return skipped("bindfs, mounted by root, is wanted: apt-get install bindfs");
    }
    let lm = Lm::new().args(["safe", "mnt", "--json", "--only", "locks,coherence"]);
    let both =
        "$L safe mnt --other real --only locks --json >both; echo $? >code; ls -A real >left";
    let Some(lm) = lm.around("mkdir real mnt; bindfs real mnt", both) else {
        return;
    };
    let said = lm.run();
    let alone = answers(&said);
    for question in ["flock", "fcntl", "ofd", "coherence"] {
        assert_eq!(answer(&alone, question), "not-proved", "{}", said.stdout);
    }
    let read = |name: &str| fs::read_to_string(said.dir.path().join(name)).expect(name);
    let both: Value = serde_json::from_str(&read("both")).expect("JSON");
    for of in both["answers"].as_array().expect("answers") {
        assert_eq!(of["answer"], "no", "{of:#}");
        let because = of["because"].as_str().unwrap_or_default();
        assert!(because.contains("taken by the second client"), "{of:#}");
    }
    assert_eq!((read("code").trim(), read("left").trim()), ("1", ""));
}

#[test]
fn what_is_no_directory_is_a_usage_error() {
    for (dir, why) in [
        ("absent", "does not exist"),
        ("precious", "not a directory"),
    ] {
        let lm = Lm::new().file("precious", "mine");
        lm.args(["safe", dir]).run().fails(2, &[dir, why]);
    }
    let lm = Lm::new();
    fs::create_dir(lm.dir.path().join("a,b")).expect("a directory");
    lm.args(["safe", "a,b"])
        .run()
        .fails(2, &["comma", "mount --bind a,b /mnt"]);
    let other = Lm::new().file("work/x", "");
    let said = other
        .args(["safe", "work", "--other", "data", "--only", "locks"])
        .run();
    said.fails(2, &["data", "layermark safe"]);
}

/// The hint named `-l dir:DIR`, which this command does not have.
#[test]
fn a_directory_that_cannot_be_written_has_a_hint_that_can_be_followed() {
    let said = Lm::new().file("f", "").args(["safe", "f"]).run().code(2);
    let said = said.says("hint: ").says("layermark safe DIR");
    assert!(!said.stderr.contains("-l dir:"), "{}", said.stderr);
}
