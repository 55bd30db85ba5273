//! What a user can write wrongly: each is told in words with a hint, exit code 2, and nothing is made.

use crate::common::Lm;
/// A plan with one `[[work]]` table.
fn work(lines: &str) -> String {
    format!("name = \"x\"\n\n[[work]]\nworkload = \"file\"\nop = \"read\"\n{lines}\n")
}

/// Runs a plan that must be refused, once for people and once for programs.
#[track_caller]
fn refused(plan: &str, words: &[&str]) {
    let lm = || Lm::new().plan(plan).args(["-l", "tmpfs"]);
    lm().run().fails(2, words).left_nothing();
    let said = lm().args(["--json"]).run().fails(2, words);
    let error = said.json();
    assert_eq!(
        (&error["schema"], &error["code"]),
        (&"layermark.error/1".into(), &2.into())
    );
    assert!(error["hint"].is_string(), "{error}");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    refused(
        &format!("budgte = \"2m\"\n{}", work("")),
        &["budgte", "did you mean `budget`?"],
    );
    refused(
        &format!("layer = [\"tmpfs\"]\n{}", work("")),
        &["`layer`", "did you mean `layers`?"],
    );
    refused(
        &format!("colour = 1\n{}", work("")),
        &["unknown key `colour`"],
    );
}

#[test]
fn an_unknown_parameter_of_a_workload_is_refused_with_the_nearest_known_one() {
    refused(
        &work("recrod = \"4K\""),
        &["recrod", "did you mean `record`?"],
    );
    refused(&work("cache = \"hot\""), &["`cache`", "hot", "warm"]);
    refused(&work("threads = 0"), &["threads"]);
    refused(
        &work("").replace("read", "raed"),
        &["raed", "did you mean `read`?"],
    );
    refused(
        &work("").replace("file", "fiel"),
        &["fiel", "did you mean `file`?"],
    );
}

#[test]
fn a_negative_size_is_refused() {
    refused(&work("record = \"-4K\""), &["record", "-4K", "negative"]);
    refused(&work("record = -4"), &["record", "-4"]);
    refused(&work("file_size = \"-1G\""), &["file_size", "negative"]);
    refused(&work("record = 0"), &["record", "between 1 and 256M"]);
}

#[test]
fn a_record_above_its_file_is_refused() {
    let plan = work("record = \"64K\"\nfile_size = \"4K\"");
    refused(
        &plan,
        &["record", "64K", "cannot be larger than its file (4K)"],
    );
}

#[test]
fn ten_to_the_twelve_bytes_are_refused_before_anything_is_written() {
    refused(
        &work("file_size = 1000000000000"),
        &["too little space", "needed", "free"],
    );
    refused(
        &work("file_size = \"1TB\""),
        &["too little space", "--scale"],
    );
    refused(&work("file_size = \"99999999T\""), &["file_size"]);
}

#[test]
fn what_is_no_plan_is_refused() {
    refused("a = [", &["plan.toml", "line 1"]);
    refused("", &["plan.toml"]);
    refused(
        "name = \"x\"\nwork = []\n",
        &["at least one [[work]] table"],
    );
    refused(&work("precision = 0.5"), &["precision"]);
    refused(
        &format!("precision = 7.0\n{}", work("")),
        &["precision", "between 0 and 1"],
    );
    refused(
        &format!("budget = \"soon\"\n{}", work("")),
        &["budget", "not a duration"],
    );
    refused(&format!("scale = -1.0\n{}", work("")), &["scale"]);
    let garbage: Vec<u8> = (0..4096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    Lm::new()
        .file("g.toml", garbage)
        .args(["run", "g.toml"])
        .run()
        .fails(2, &["g.toml"]);
    Lm::new()
        .args(["run", "absent.toml"])
        .run()
        .fails(2, &["absent.toml", "not found"]);
    Lm::new().args(["run", "."]).run().fails(2, &["plan ."]);
}

#[test]
fn a_layer_that_does_not_exist_is_refused_with_the_nearest_known_one() {
    let refused = |layer: &str, words: &[&str]| {
        Lm::new()
            .measure(&[layer])
            .run()
            .fails(2, words)
            .left_nothing();
    };
    refused("ovrlay", &["ovrlay", "did you mean `overlay`?"]);
    refused(
        "overlay:uper",
        &["uper", "did you mean `upper`?", "writecopy"],
    );
    refused("fuse,cahe=none", &["cahe", "did you mean `cache`?"]);
    refused("fuse,cache=nine", &["nine", "did you mean `none`?"]);
    refused("fuse,delay=zz", &["delay", "zz"]);
    refused("overlay:upper,fast", &["fast", "not key=value"]);
    refused(":x", &["names no layer"]);
    refused(
        "teleport",
        &["unknown layer `teleport`", "layermark layers"],
    );
    Lm::new()
        .measure(&["tmpfs", "tmpfs"])
        .run()
        .fails(2, &["tmpfs", "named twice"]);
    Lm::new()
        .measure(&["tmpfs,label=a", "tmpfs,size=64M,label=a"])
        .run()
        .fails(2, &["have the same name: `a`", "label=a-2"]);
    let plan = format!("layers = [\"ovrlay\"]\n{}", work(""));
    Lm::new()
        .plan(&plan)
        .run()
        .fails(2, &["did you mean `overlay`?"]);
}

#[test]
fn flags_that_cannot_be_are_refused_with_a_hint() {
    let refused = |args: &[&str], words: &[&str]| {
        Lm::new()
            .measure(&["tmpfs"])
            .args(args)
            .run()
            .fails(2, words)
            .left_nothing();
        let said = Lm::new()
            .measure(&["tmpfs"])
            .args(args)
            .args(["--json"])
            .run()
            .code(2);
        assert_eq!(said.json()["code"], 2);
    };
    refused(&["--precision", "0"], &["--precision", "above 0 %"]);
    refused(&["--delta", "200%"], &["--delta"]);
    refused(&["--silence", "soon"], &["--silence", "not a duration"]);
    refused(&["--seed", "many"], &["--seed", "many"]);
    refused(&["--scale", "0"], &["scale"]);
    refused(&["--nonsense"], &["--nonsense"]);
    refused(&["--op", "raed"], &["raed"]);
    refused(&["-o", "report.pdf"], &["report.pdf", "html"]);
    refused(&["-o", "absent/report.html"], &["absent", "mkdir -p"]);
    let said = Lm::new()
        .args(["run", "--resume", "last", "--replay", "last", "--json"])
        .run();
    assert_eq!(said.fails(2, &["--replay"]).json()["code"], 2);
    // What an earlier run has settled.
    for (flag, value) in [("--delta", "1%"), ("-l", "fuse"), ("--dir", "/var/tmp")] {
        for order in ["--resume", "--replay"] {
            let said = Lm::new().args(["run", order, "last", flag, value]).run();
            said.fails(2, &[order, flag, "cannot be used with"]);
        }
    }
    let said = Lm::new()
        .args(["nonsense", "--json"])
        .run()
        .fails(2, &["nonsense"]);
    assert!(
        said.json()["error"]
            .as_str()
            .is_some_and(|e| e.contains("nonsense"))
    );
}

#[test]
fn a_hint_names_what_was_asked_for() {
    let hints = [
        (&["iops", "--iodepth", "x"][..], "layermark iops --help"),
        (&["file", "--size", "4K"], "layermark file --help"),
        (&["frobnicate"], "layermark --help"),
        (&["run", "crad"], "did you mean `card`?"),
        (&["file", "-l", "dir:/nowhere"], "-l dir:DIR"),
        (&["file", "-l", "docker"], "container:docker"),
        (&["file", "-l", "frobnicate"], "layermark layers"),
    ];
    for (line, hint) in hints {
        let said = Lm::new()
            .args(line.iter().copied())
            .run()
            .code(2)
            .says(hint);
        assert!(said.stderr.contains("hint: "), "{}", said.stderr);
    }
}

#[test]
fn help_and_version_go_to_stdout_and_are_no_error() {
    let help = Lm::new()
        .args(["--help"])
        .run()
        .code(0)
        .prints("Usage: layermark");
    assert!(help.stderr.is_empty(), "{}", help.stderr);
    Lm::new()
        .args(["file", "--help"])
        .run()
        .code(0)
        .prints("--file-size");
    let version = Lm::new().args(["--version"]).run().code(0);
    assert_eq!(
        version.stdout,
        concat!("layermark ", env!("CARGO_PKG_VERSION"), "\n")
    );
    Lm::new().run().code(2).says("Usage: layermark");
}
