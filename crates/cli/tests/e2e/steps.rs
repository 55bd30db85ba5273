//! `layermark steps`: times of commands, and that a wrong outcome is an error and never a time.

use std::fs;

use serde_json::Value;

use crate::common::{Lm, MOCK, figures, is_root, result, skipped};

/// Steps of one command line, in native alone.
fn steps(args: &[&str]) -> Lm {
    let lm = Lm::new();
    let work = lm.work();
    lm.args(["steps", "--blocks", "1", "--json", "--dir"])
        .args([work])
        .args(args)
}

/// Why a step has no time in a layer.
#[track_caller]
fn refused<'a>(report: &'a Value, point: &str, layer: &str) -> &'a str {
    let row = result(report, point, layer);
    assert_eq!(row["trials"], 0, "{row:#}");
    row["error"].as_str().unwrap_or_else(|| panic!("{row:#}"))
}

const PLAN: &str = r#"
name = "days"
blocks = 2
sessions = 1
control = false
layers = ["overlay:upper"]

[[work]]
workload = "steps"
setup = ["sh", "-c", "echo once >> made"]
grace = "100ms"
[[work.steps]]
name = "set up once"
run = ["cat", "made"]
check = ["sh", "-c", "test $(wc -l < made) = 1"]
expect = ["line=^once$", "tree=made"]
[[work.steps]]
name = "prepared each time"
prepare = ["sh", "-c", "echo x > prepared"]
run = "rm prepared"
expect = ["tree=prepared"]
[[work.steps]]
name = "commits"
run = ["true"]
count = 200
unit = "commit"
[[work.steps]]
name = "appends"
run = ["sh", "-c", "echo x >> longer"]
expect = ["tree=longer"]
[[work.steps]]
name = "wrong in one layer"
run = ["sh", "-c", "stat -f -c %T . > kind"]
cleanup = ["rm", "-f", "kind"]
expect = ["tree=kind"]
[[work.steps]]
name = "checked"
run = ["true"]
check = ["sh", "-c", "echo broken >&2; exit 4"]
[[work.steps]]
name = "hangs"
run = ["sleep", "600"]
timeout = "300ms"
[[work.steps]]
name = "leaves children"
run = ["sh", "-c", "sleep 600 & echo started"]
[[work.steps]]
name = "needs a terminal"
run = ["sh", "-c", "cat < /dev/tty"]
[[work.steps]]
name = "not there"
run = ["./no-such-program"]
[[work.steps]]
name = "secret"
run = ["sh", "-c", "echo $TOKEN; exit 3"]
env = ["TOKEN=hunter2"]
"#;

#[test]
fn a_step_has_a_time_only_where_its_outcome_is_right() {
    if !is_root() {
        return skipped("needs root for an overlay");
    }
    let said = Lm::new().plan(PLAN).args(["--json"]).run().left_nothing();
    assert!(!said.stdout.contains("hunter2") && !said.stderr.contains("hunter2"));
    let store = fs::read(said.dir.path().join("data/layermark/layermark.db")).expect("store");
    assert!(!store.windows(7).any(|w| w == b"hunter2"));
    let report = said.json();
    for layer in ["native", "overlay:upper"] {
        for good in [
            "set up once",
            "prepared each time",
            "commits",
            "leaves children",
        ] {
            let row = result(&report, good, layer);
            assert_eq!(row["trials"], 2, "{row:#}");
        }
        let rate = |point: &str| result(&report, point, layer)["value"].as_f64();
        assert!(rate("commits") > rate("set up once"), "{layer}");
        for (point, why) in [
            ("checked", "`check` ended with exit code 4; it said: broken"),
            ("hangs", "`sleep 600` did not end within 300ms"),
            ("needs a terminal", "cannot open /dev/tty"),
            ("not there", "`./no-such-program` was not found"),
            (
                "secret",
                "ended with exit code 3 instead of 0; it said: ***",
            ),
        ] {
            let told = refused(&report, point, layer);
            assert!(told.contains(why), "{point} in {layer}: {told}");
        }
        let appends = result(&report, "appends", layer);
        assert_eq!(appends["trials"], 0, "{appends:#}");
        let told = appends["error"].as_str().unwrap_or_default();
        assert!(
            told.contains("the step does not repeat: before, `longer`: a file"),
            "{told}"
        );
    }
    assert_eq!(result(&report, "wrong in one layer", "native")["trials"], 2);
    let told = refused(&report, "wrong in one layer", "overlay:upper");
    assert!(
        told.contains("the outcome is wrong: before, `kind`: nothing; after, `kind`: a file"),
        "{told}"
    );
    assert!(told.contains("in native before"), "{told}");
}

#[test]
fn a_gigabyte_of_output_is_read_and_not_kept() {
    let report = steps(&["--", "head", "-c", "1G", "/dev/zero"])
        .run()
        .left_nothing()
        .code(0)
        .json();
    let row = result(&report, "head -c 1G /dev/zero", "native");
    assert_eq!(row["trials"], 1, "{row:#}");
}

#[test]
fn one_argument_after_the_dashes_is_a_command_line() {
    for args in [
        &["--", "cat made"][..],
        &["--", "cat", "made"],
        &["cat made"],
    ] {
        let report = steps(&["--setup", "sh -c 'echo x > made'", "--expect", "line=^x$"])
            .args(args)
            .run()
            .code(0)
            .json();
        assert_eq!(result(&report, "cat made", "native")["trials"], 1);
    }
}

#[test]
fn a_tree_of_this_machine_is_put_into_the_layer() {
    let tree = tempfile::tempdir().expect("a directory");
    fs::create_dir(tree.path().join("sub")).expect("sub");
    fs::write(tree.path().join("sub/file"), "found\n").expect("a file");
    let tree = tree.path().to_str().expect("a path");
    let report = steps(&[
        "--tree",
        tree,
        "--expect",
        "line=sub/file:found",
        "--expect",
        "tree=.",
        "--",
        "grep -r found sub",
    ])
    .run()
    .code(0)
    .json();
    assert_eq!(result(&report, "grep -r found sub", "native")["trials"], 1);
    steps(&["--tree", "no-such", "--", "true"])
        .run()
        .fails(2, &["no-such", "not a directory"]);
}

#[test]
fn wrong_steps_are_usage_errors() {
    for (args, words) in [
        (&[][..], &["no command", "layermark steps -- PROGRAM"][..]),
        (&["a | b"], &["`|` needs a shell", "sh -c 'a | b'"]),
        (&["true", "true"], &["two steps are called `true`"]),
        (
            &["--expect", "lien=x", "true"],
            &["no such outcome", "did you mean `line`?"],
        ),
        (&["--prepare", "a 'b", "true"], &["quote"]),
        (&["--timeout", "2h", "true"], &["between 1ms and 1h"]),
        (&["--count", "0", "true"], &["count"]),
    ] {
        Lm::new()
            .work_with(&[&["steps"], args].concat(), MOCK)
            .run()
            .fails(2, words);
    }
    let plan = "name = 'x'\n[[work]]\nworkload = 'steps'\n";
    for (text, word) in [
        ("steps = []", "at least 1"),
        ("steps = ['true']", "must be tables"),
        ("run = ['a', 1]", "not text"),
        ("name = 'x'", "`run` is missing in a step"),
        ("run = 'true'\nprepaer = 'true'", "did you mean `prepare`?"),
    ] {
        Lm::new()
            .plan(&format!("{plan}{text}\n"))
            .run()
            .fails(2, &[word]);
    }
}

#[test]
fn lines_that_a_step_prints_become_figures() {
    let print = "echo layermark: tps 12.5 1/s; echo layermark: p99 7 >&2";
    let said = steps(&["--name", "printed", "--", "sh", "-c", print])
        .run()
        .code(0);
    let report = said.json();
    let row = figures(&report, "printed", "native");
    assert_eq!(
        (&row["printed.tps"], &row["printed.p99"]),
        (&12.5.into(), &7.into())
    );
    said.then()
        .args(["report", "last", "--full"])
        .run()
        .prints("tps,")
        .prints("p99");
}

#[test]
fn every_preset_does_in_a_layer_what_it_does_natively() {
    if !is_root() {
        return skipped("needs root for an overlay");
    }
    let names = "git,untar,rm,grep,python,build,npm";
    let said = steps(&[
        "--preset",
        names,
        "--scale",
        "0.05",
        "--no-control",
        "-l",
        "overlay:upper",
    ])
    .run()
    .left_nothing();
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    assert!(rows.len() > 10, "{report:#}");
    for row in rows {
        assert_eq!(row["trials"], 1, "{row:#}");
    }
    for line in said
        .stderr
        .lines()
        .filter(|line| line.contains("is not installed"))
    {
        skipped(line);
    }
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_installs_it() {
    steps(&["--needs", "no-such-tool", "true"]).run().fails(
        3,
        &[
            "`no-such-tool` is not installed",
            "apt-get install no-such-tool",
        ],
    );
    steps(&["--preset", "gti"])
        .run()
        .fails(2, &["no such preset", "did you mean `git`?"]);
}

#[test]
fn a_disk_that_fills_in_mid_step_ends_the_run() {
    let fill = [
        "--allow-tmpfs",
        "--cleanup",
        "rm -f big",
        "--",
        "dd if=/dev/zero of=big bs=1M count=100",
    ];
    let Some(lm) = steps(&fill).around("mount -t tmpfs -o size=32m none $W", "ls -A $W >left")
    else {
        return;
    };
    let said = lm.run().fails(1, &["became full", "No space left"]);
    let left = fs::read_to_string(said.dir.path().join("left")).expect("what is left");
    assert_eq!(left, "", "{left}");
}
