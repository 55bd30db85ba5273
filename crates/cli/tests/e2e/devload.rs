//! `layermark devload`: the same results in every layer, and what may go wrong with users' scripts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{
    self, Lm, Said, figures, found, is_root,
    machine::{family, nothing_left, tree},
    result, skipped, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Scripts of one job of each kind.
const SHORT: &[&str] = &["devload", "--scale", "0.1", "--blocks", "1", "--json"];

fn short(args: &[&str], layers: &[&str]) -> Lm {
    Lm::new().work_with(SHORT, layers).args(args)
}

/// Every layer that could be set up has scripts an hour, and all results were right.
#[track_caller]
pub fn all_right(said: &Said, label: &str, layers: &[&str]) -> usize {
    let report = said.json();
    let mut measured = 0;
    for layer in layers {
        let its = found(&report["layers"], "name", layer);
        if its["status"] != "ready" {
            skipped(&format!("{layer}: {}", its["reason"]));
            continue;
        }
        measured += 1;
        let row = result(&report, label, layer);
        assert_eq!(row["failed_trials"], 0, "{row:#}\n{}", said.stderr);
        assert!(row["value"].as_f64() > Some(0.0), "{row:#}");
        let unit = (&row["metric"], &row["unit"]);
        assert_eq!(unit, (&"rate".into(), &"scripts/h".into()));
        let scripts = figures(&report, label, layer);
        assert!(
            scripts["cpu_in_commands"].as_f64() > Some(0.5),
            "{scripts:#}"
        );
    }
    let verified = found(&report["trust"], "id", "verified");
    assert_eq!(verified["state"], "ok", "{verified:#}");
    let text = verified["text"].as_str().expect("a text");
    assert!(text.ends_with(" results of jobs were right"), "{text}");
    measured
}

#[test]
fn results_are_the_same_in_every_directory() {
    let layers: &[&str] = if is_root() {
        &[
            "native",
            "tmpfs",
            "overlay:upper",
            "loop:ext4",
            "loop:xfs",
            "loop:btrfs",
            "fuse",
        ]
    } else {
        &["native", "tmpfs", "overlay:upper", "fuse"]
    };
    let said = short(&["--users", "2"], layers).run().left_nothing();
    // A kernel may be without a file system.
    let measured = all_right(&said, "2 users, 14 jobs", layers);
    assert!(measured + 2 >= layers.len(), "{measured} of {layers:?}");
}

#[test]
fn the_peak_is_named_and_the_users_commands_have_the_time() {
    let args = ["--users", "1,2", "--job-set", "no-cc"];
    let said = short(&args, &["native"]).run().code(0);
    let report = said.json();
    let rows = report["figures"][0]["rows"].as_array().expect("rows");
    let rows: Vec<&Value> = rows.iter().map(|r| &r["values"]).collect();
    let users: Vec<_> = rows.iter().map(|r| r["users"].as_u64()).collect();
    assert_eq!(users, [Some(1), Some(2)]);
    let highest = rows.iter().filter(|r| r["peak"].is_string()).count();
    assert_eq!(highest, 1, "{rows:#?}");
    for row in rows {
        assert!(row["cpu_in_commands"].as_f64() > Some(0.95), "{row:#}");
    }
}

#[test]
fn bad_words_are_usage_errors() {
    let refused =
        |args: &[&str], words: &[&str]| drop(short(args, &["native"]).run().fails(2, words));
    refused(&["--users", "0"], &["`--users` = 0", "between 1 and"]);
    refused(&["--users", "two"], &["`two` is not a count"]);
    refused(&["--job-set", "c"], &["no-cc"]);
    refused(&["--jobs", "3"], &["`--jobs` = 3"]);
}

/// Runs scripts natively while `comm` is a script of ours, in a mount namespace of the test's own.
/// `$W` is the work directory, and `$0.real` the program.
fn with_comm(comm: &str, work: &str, args: &[&str]) -> Option<Said> {
    if !is_root() {
        skipped("only root may put another program in the place of comm");
        return None;
    }
    let lm = short(args, &["native"]).args(["--job-set", "no-cc", "--allow-tmpfs"]);
    let before = format!(
        "{work} cp /usr/bin/comm \"$W/../comm.real\"; mount --bind \"$W/../comm\" /usr/bin/comm;"
    );
    let dir = lm.dir.path().to_owned();
    let script = format!(
        "#!/bin/sh\nW={0}/work\n{comm}\nexec {0}/comm.real \"$@\"\n",
        dir.display()
    );
    let lm = lm.file("comm", script);
    fs::set_permissions(
        dir.join("comm"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("a program");
    Some(lm.around(&before, "")?.run())
}

#[test]
fn a_user_whose_result_is_wrong_makes_the_trial_invalid() {
    let wrong = "case $PWD in */user2/*) echo more ;; esac";
    let Some(said) = with_comm(wrong, "", &["--users", "2"]) else {
        return;
    };
    let words = [
        "a job came to a wrong result: user2 in job ",
        "(comm.",
        "instead of",
    ];
    let said = said.fails(1, &words);
    let report = said.json();
    let row = result(&report, "2 users, no-cc, 14 jobs", "native");
    assert_eq!((&row["trials"], &row["value"]), (&0.into(), &Value::Null));
    said.left_nothing();
}

#[test]
fn a_shell_that_is_killed_is_told() {
    let kill = "case $PWD in */user1/*) kill -9 $PPID ;; esac";
    let Some(said) = with_comm(kill, "", &["--users", "2"]) else {
        return;
    };
    let words = ["a shell was killed by signal 9: user1 in job ", "(comm."];
    said.fails(1, &words).left_nothing();
}

#[test]
fn a_full_disk_ends_the_run_with_a_hint() {
    let fill = "case $PWD in */user1/*) cat /dev/zero >$W/filler ;; esac";
    let tmpfs = "mount -t tmpfs -o size=64m none $W;";
    let Some(said) = with_comm(fill, tmpfs, &["--users", "1"]) else {
        return;
    };
    said.fails(1, &["became full", "No space left", "--resume"]);
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    if !is_root() {
        return skipped("only root may take a program away");
    }
    let lm = short(&["--users", "1"], &["native"]);
    let Some(lm) = lm.around("mount --bind /dev/null /usr/bin/ed;", "") else {
        return;
    };
    let words = ["the jobs need programs", ": ed", "apt-get install ed"];
    let said = lm.run().fails(3, &words).left_nothing();
    // Before anything is set up: no trial fails, and no run is stored.
    assert!(common::history(said.dir.path()).is_empty());
}

#[test]
fn where_no_program_may_run_the_jobs_that_compile_are_refused() {
    if !is_root() {
        return skipped("only root may mount a file system that runs no programs");
    }
    let noexec = |args: &[&str]| {
        let lm = short(args, &["native"]).args(["--users", "1", "--allow-tmpfs"]);
        Some(lm.around("mount -t tmpfs -o noexec none $W;", "")?.run())
    };
    let Some(said) = noexec(&[]) else { return };
    said.fails(1, &["mounted `noexec`", "--job-set no-cc"]);
    noexec(&["--job-set", "no-cc"])
        .expect("a namespace")
        .code(0);
}

/// What users of a run are at work in: the directory above those of two users, by the directories
/// that its processes are in.
fn home_of(run: u32) -> Option<PathBuf> {
    let home_of_user = |user: &str| {
        let mut dirs = tree(run).into_iter().filter_map(|p| directory_of(p.pid));
        let dir = dirs.find(|dir| dir.iter().any(|part| part == user))?;
        let at = dir.ancestors().find(|dir| dir.ends_with(user))?;
        at.parent().map(Path::to_owned)
    };
    home_of_user("user1").filter(|home| home_of_user("user2").as_ref() == Some(home))
}

fn directory_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Processes that are in a directory below.
fn at_work_below(home: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| directory_of(*pid).is_some_and(|dir| dir.starts_with(home)))
        .collect()
}

#[test]
fn nothing_goes_on_after_an_interrupt_or_a_kill() {
    for last in [Signal::INT, Signal::KILL] {
        let args = ["devload", "--users", "2", "--blocks", "9"];
        let (mut child, dir) = Lm::new().work_with(&args, &["native"]).start();
        let pid = Pid::from_child(&child);
        let home = wait_for("users at work", || home_of(child.id()));
        let processes = family(child.id());
        if last == Signal::INT {
            common::interrupt(&mut child, pid);
        }
        kill_process(pid, last).expect("a signal");
        common::output(child);
        wait_for("the users' commands to end", || {
            at_work_below(&home).is_empty().then_some(())
        });
        nothing_left(dir.path(), &processes);
    }
}
