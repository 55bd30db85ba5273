//! `layermark why`: why a command is slow in a layer.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Lm, has_fuse, is_root, skipped};

/// A command and its directory, where calls can be traced in a file system in user space.
fn traces_in_fuse() -> Option<(Lm, PathBuf)> {
    if !is_root() || !has_fuse() {
        skipped("no file system in user space can be mounted here");
        return None;
    }
    if !Path::new("/usr/bin/strace").exists() {
        skipped("strace counts the calls: apt-get install strace");
        return None;
    }
    let lm = Lm::new();
    let work = lm.work();
    Some((lm, work))
}

/// Makes 60 files, and opens each of them once more.
const MAKE: &str = "sh -c 'for i in $(seq 60); do echo x > f$i; read y < f$i; done'";

/// Our file system in user space takes a call from the kernel for each name, so creates and opens cost more there.
#[test]
fn the_calls_of_a_slow_command_are_named_with_what_they_cost() {
    let Some((lm, work)) = traces_in_fuse() else {
        return;
    };
    let said = lm
        .args([
            "why",
            MAKE,
            "--prepare",
            "sh -c 'rm -f f*'",
            "--blocks",
            "3",
            "--json",
            "-l",
            "fuse",
            "--dir",
        ])
        .args([work])
        .run()
        .left_nothing();
    let why = said.json();
    assert_eq!(why["schema"], "layermark.why/1", "{}", said.stderr);
    assert!(why["native_us"].as_f64() > Some(0.0), "{why:#}");
    let layer = &why["layers"][0];
    assert_eq!(layer["layer"], "fuse", "{why:#}");
    let calls = layer["calls"].as_array().expect("calls");
    let of = |kind: &str| calls.iter().find(|call| call["kind"] == kind);
    if calls.is_empty() {
        let lacks = why["lacks"].to_string();
        assert!(lacks.contains("no trusted result"), "{why:#}");
        return skipped(&lacks);
    }
    let number = |call: Option<&Value>, key: &str| call.and_then(|c| c[key].as_f64());
    assert_eq!(number(of("create"), "calls"), Some(60.0), "{why:#}");
    assert_eq!(number(of("open"), "calls"), Some(60.0), "{why:#}");
    let sum = number(of("create"), "sum_us");
    assert!(sum > Some(0.0), "{why:#}");
    let text = layer["text"].as_str().expect("a text");
    assert!(
        text.contains("`fuse`") && text.contains("instead of"),
        "{text}"
    );
    let run = why["run"].as_str().expect("a run").to_owned();
    let report = said.then().args(["report", &run, "--full"]).run();
    report.prints("What the system calls of a step cost");
}

/// In one of two layers each request takes 2 ms, so however busy the machine is, it is the slow one, and 60 creates of files
/// are what it loses most by.
#[test]
fn the_slow_layer_is_named_first_with_the_call_that_makes_it_slow() {
    const SLOW: &str = "fuse:delay=2ms";
    let Some((lm, work)) = traces_in_fuse() else {
        return;
    };
    let said = lm
        .args(["why", "sh -c 'for i in $(seq 60); do : > f$i; done'"])
        .args(["--prepare", "sh -c 'rm -f f*'", "--blocks", "3", "--json"])
        .args(["-l", "bind:rw", "-l", SLOW, "--dir"])
        .args([work])
        .run()
        .left_nothing();
    let why = said.json();
    let layers = why["layers"].as_array().expect("layers");
    let of = |at: usize, key: &str| &layers[at][key];
    assert_eq!(of(0, "layer"), SLOW, "{why:#}");
    assert_eq!(of(1, "layer"), "bind:rw", "{why:#}");
    let times = [0, 1].map(|at| of(at, "us").as_f64().expect("a time"));
    assert!(times[0] > 2.0 * times[1], "{why:#}");
    let text = of(0, "text").as_str().expect("a text");
    assert!(text.starts_with(&format!("`{SLOW}`")), "{text}");
    let calls = of(0, "calls").as_array().expect("calls");
    let sum = |call: &&Value| call["sum_us"].as_f64().unwrap_or(0.0);
    let most = calls.iter().max_by(|a, b| sum(a).total_cmp(&sum(b)));
    let most = most.unwrap_or_else(|| panic!("no calls: {why:#}"));
    assert_eq!(most["kind"], "create", "{why:#}");
    assert_eq!(most["calls"].as_f64(), Some(60.0), "{why:#}");
    assert!(sum(&most) > 60.0 * 2000.0, "each waits 2 ms: {why:#}");
    // While other programs take the CPUs, most of its time may be waiting for one, and then there is no verdict.
    let answer = why["answer"].as_str().expect("an answer");
    match of(0, "verdict").as_str().expect("a verdict") {
        "slower" => {
            assert!(text.contains(": 60 creates +"), "{text}");
            assert!(!answer.contains(SLOW), "it is not what to use: {answer}");
        }
        verdict => {
            assert_eq!(verdict, "undecided", "{why:#}");
            assert!(text.contains("whether it is slower is not known"), "{text}");
            assert!(answer.contains("not known"), "{answer}");
        }
    }
    let run = why["run"].as_str().expect("a run").to_owned();
    let again = said.then().args(["report", &run]).run();
    assert!(again.stdout.contains(SLOW), "{}", again.stdout);
}

#[test]
fn a_command_and_a_layer_have_to_be_named() {
    Lm::new()
        .args(["why", "-l", "fuse"])
        .run()
        .fails(2, &["no command", "layermark why"]);
    Lm::new()
        .args(["why", "git status"])
        .run()
        .fails(2, &["no layer", "-l overlay:upper"]);
    // The calls were measured for a minute before the program was missed.
    Lm::new()
        .args(["why", "no-such-program x", "-l", "fuse"])
        .run()
        .fails(
            2,
            &[
                "why: `no-such-program` was not found",
                "hint: name a program",
            ],
        );
    // With itself it would be compared with nothing.
    for flags in ["-l native", "-l bind --baseline bind"] {
        Lm::new()
            .args(["why", "git status"])
            .args(flags.split(' '))
            .run()
            .fails(2, &["is the baseline", "-l fuse"]);
    }
}
