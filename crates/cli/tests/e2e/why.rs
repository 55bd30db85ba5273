//! `layermark why`: why a command is slow in a layer.

use serde_json::Value;

use crate::common::{Lm, has_fuse, is_root, skipped};

/// Makes 60 files, and opens each of them once more.
const MAKE: &str = "sh -c 'for i in $(seq 60); do echo x > f$i; read y < f$i; done'";

/// Our file system in user space takes a call from the kernel for each name, so creates and opens cost more there.
#[test]
fn the_calls_of_a_slow_command_are_named_with_what_they_cost() {
    if !is_root() || !has_fuse() {
        return skipped("no file system in user space can be mounted here");
    }
    if !std::path::Path::new("/usr/bin/strace").exists() {
        return skipped("strace counts the calls: apt-get install strace");
    }
    let lm = Lm::new();
    let work = lm.work();
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
    // With itself it would be compared with nothing.
    for flags in ["-l native", "-l bind --baseline bind"] {
        Lm::new()
            .args(["why", "git status"])
            .args(flags.split(' '))
            .run()
            .fails(2, &["is the baseline", "-l fuse"]);
    }
}
