//! Values of `--env` reach the program and nobody else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{self, Lm, Said};

const SECRET: &str = "hunter2-very-secret";

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all
}

/// In no file of the test's directory, and in nothing that was printed.
#[track_caller]
fn kept_secret(said: Said) -> Said {
    let has = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes());
    let all = files(said.dir.path());
    assert!(all.iter().any(|f| f.ends_with("layermark.db")), "{all:?}");
    for file in all {
        let bytes = fs::read(&file).expect("file");
        assert!(!has(&bytes), "in {}", file.display());
    }
    assert!(!has(said.stdout.as_bytes()), "stdout: {}", said.stdout);
    assert!(!has(said.stderr.as_bytes()), "stderr: {}", said.stderr);
    said
}

/// A program that works only with the secret.
const CHECK: [&str; 4] = [
    "--",
    "sh",
    "-c",
    "test \"$TOKEN\" = hunter2\"-very-\"secret",
];

fn launch(args: &[&str]) -> Lm {
    let lm = Lm::new();
    let work = lm.work();
    lm.args(["launch", "--runs", "2", "--dir"])
        .args([work])
        .args(args)
}

fn token() -> String {
    format!("TOKEN={SECRET}")
}

#[test]
fn a_value_is_in_no_file_and_in_no_output() {
    let token = token();
    let outputs = [
        "html",
        "json",
        "csv",
        "md",
        "txt",
        "xlsx",
        "svg",
        "png",
        "hyperfine.json",
    ];
    let outputs: Vec<String> = outputs.iter().map(|o| format!("report.{o}")).collect();
    let mut flags = vec!["--env", &token];
    flags.extend(outputs.iter().flat_map(|o| ["-o", o.as_str()]));
    let said = kept_secret(launch(&[&flags[..], &CHECK[..]].concat()).run().code(0));
    for format in [&["--json"][..], &["-o", "again.html"]] {
        let said = said_again(&said, &[&["report", "last"], format].concat());
        kept_secret(said.code(0));
    }
    let report = said_again(&said, &["report", "last", "--json"]).json();
    let text = report.to_string();
    assert!(
        text.contains("\"TOKEN\""),
        "its name is in the report: {text}"
    );
}

fn said_again(said: &Said, args: &[&str]) -> Said {
    Lm::with(said.dir.path()).args(args).run()
}

#[test]
fn what_a_program_says_of_it_is_masked() {
    let token = token();
    let fails = [
        "--env",
        &token,
        "--",
        "sh",
        "-c",
        "echo no $TOKEN >&2; exit 3",
    ];
    let said = launch(&[&["--json"], &fails[..]].concat()).run();
    let said = kept_secret(said.code(1));
    let error = said.json()["results"][0]["error"].to_string();
    assert!(error.contains("it said: no ***"), "{error}");
    let wrong = format!("={SECRET}");
    let said = launch(&["--env", &wrong, "--", "true"]).run();
    assert!(!said.stderr.contains(SECRET), "{}", said.stderr);
    said.fails(2, &["`--env`", "letters, digits"]);
}

#[test]
fn a_name_alone_takes_the_value_from_our_own_environment() {
    let named = [&["--env", "TOKEN"][..], &CHECK[..]].concat();
    kept_secret(launch(&named).env("TOKEN", SECRET).run().code(0));
    launch(&named)
        .run()
        .fails(2, &["no value for TOKEN", "--env TOKEN=VALUE"]);
}

#[test]
fn a_replay_and_a_resumed_run_need_the_value_again() {
    let token = token();
    let said = launch(&[&["--env", &token][..], &CHECK[..]].concat())
        .run()
        .code(0);
    let again = |args: &[&str]| said_again(&said, args);
    again(&["run", "--replay", "last"]).fails(2, &["no value for TOKEN", "--env TOKEN=VALUE"]);
    kept_secret(again(&["run", "--replay", "last", "--env", &token]).code(0));
    let from_ours = Lm::with(said.dir.path()).args(["run", "--replay", "last"]);
    from_ours.env("TOKEN", SECRET).run().code(0);
    again(&[
        "run", "--replay", "last", "--env", &token, "--env", "OTHER=1",
    ])
    .fails(2, &["takes a variable OTHER"]);

    let long = ["--json", "--env", &token, "--", "sleep", "0.3"];
    let lm = Lm::new();
    let work = lm.work();
    let lm = lm
        .args(["launch", "--runs", "9", "--dir"])
        .args([work])
        .args(long);
    let (mut child, dir) = lm.start();
    common::wait_for("trials", || {
        (common::trials_stored(dir.path()) >= 2).then_some(())
    });
    child.kill().expect("kill");
    child.wait().expect("wait");
    let resume = ["run", "--resume", "last", "--json"];
    let resumed = |args: &[&str]| Lm::with(dir.path()).args(args).run();
    resumed(&resume).fails(2, &["no value for TOKEN"]);
    let done = resumed(&[&resume[..], &["--env", &token]].concat());
    assert_eq!(kept_secret(done.code(0)).json()["status"], "done");
}

#[test]
fn a_plan_file_is_stored_without_its_values() {
    let plan = format!(
        "name = 'x'\nlayers = ['native']\nblocks = 2\ncontrol = false\n[[work]]\nworkload = 'launch'\n\
         command = 'true'\nenv = ['{}', 'HOME']\n",
        token()
    );
    let said = Lm::new().plan(&plan).run().code(0);
    fs::remove_file(said.dir.path().join("plan.toml")).expect("plan");
    kept_secret(said);
}

/// The hint for a budget that is too small repeats the command, but not its values.
#[test]
fn a_budget_that_is_too_small_repeats_no_value() {
    let said = Lm::new()
        .work_with(
            &["meta", "--op", "open-stat", "--budget", "1ms"],
            &["tmpfs"],
        )
        .run();
    let said = said.fails(
        2,
        &["the budget of 1ms is too small", "meta --op open-stat"],
    );
    drop(said);
    let args = ["--budget", "1ms", "-l", "tmpfs", "--env", &token()];
    let said = launch(&args).args(CHECK).run().code(2);
    assert!(!said.stderr.contains(SECRET), "{}", said.stderr);
}
