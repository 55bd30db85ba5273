//! A fleet on Slurm: a copy of layermark on each node, and jobs that are cancelled or put back into the queue.

use std::{fs, path::Path, process::Command};

use layermark_testkit::slurm::{NODES, Slurm};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    common::{self, Lm, Said, binary, history, skipped, trials_stored, wait_for},
    fleet::{PLAN, nothing_left, storm},
};

fn slurm() -> Option<Slurm> {
    let slurm = Slurm::start();
    if slurm.is_none() {
        skipped("Slurm is not installed, or this is not root");
    }
    slurm
}

/// What a command of Slurm prints.
fn said(mut command: Command) -> String {
    let said = command.output().expect("a command of Slurm");
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

fn queue(slurm: &Slurm, what: &str) -> String {
    let mut queue = slurm.command("squeue");
    queue.args(["-h", "-o", what]);
    said(queue)
}

/// Names of the files in the own directory of each node.
fn copies(slurm: &Slurm) -> Vec<String> {
    let of = |node: &&str| {
        let dir = fs::read_dir(slurm.own_dir_of(node)).expect("its directory");
        let names = dir.flatten().map(|e| e.file_name());
        names
            .map(|n| n.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    NODES.iter().flat_map(of).collect()
}

/// As on nodes that share no path of it: the copies are found by their hash, and they are gone at the end, also when the
/// coordinator is killed.
#[test]
fn slurm_copies_layermark_to_its_nodes() {
    let Some(slurm) = slurm() else { return };
    let own = slurm.own_dir();
    let lm = || {
        let lm = storm(Lm::new(), "slurm", "500").env("SLURM_CONF", slurm.config());
        lm.args(["--hosts", "3", "--sbcast", own.to_str().expect("UTF-8")])
    };
    for signal in [Signal::INT, Signal::KILL] {
        let (mut child, home) = lm().start();
        wait_for("some trials", || {
            (trials_stored(home.path()) > 12).then_some(())
        });
        let there = copies(&slurm);
        let is_copy = |name: &String| name.starts_with("layermark-copy-");
        assert!(there.len() == 3 && there.iter().all(is_copy), "{there:?}");
        kill_process(Pid::from_child(&child), signal).expect("a signal");
        if signal == Signal::KILL {
            let _ = child.wait();
        } else {
            let said = Said::from(common::output(child), home).code(130);
            let hint = format!("--sbcast {}", own.display());
            assert!(said.stderr.contains(&hint), "{}", said.stderr);
        }
        wait_for("no copy is left", || {
            copies(&slurm).is_empty().then_some(())
        });
    }
    // No node has the directory.
    let lm = storm(Lm::new(), "slurm", "2").env("SLURM_CONF", slurm.config());
    let said = lm
        .args(["--hosts", "3", "--sbcast", "/nonexistent/dir"])
        .run();
    said.fails(3, &["no host has started"]);
}

/// The run that Slurm has cut off, as `history` has it: id and number of trials.
fn cut_off(home: &Path) -> (String, u64) {
    let history = Lm::with(home).args(["history", "--json"]).run().code(0);
    let json = history.json();
    let run = json["runs"]
        .as_array()
        .expect("runs")
        .last()
        .expect("a run")
        .clone();
    let status = run["status"].as_str().expect("a status");
    assert!(
        ["stopped", "interrupted", "failed"].contains(&status),
        "{json:#}"
    );
    let id = run["run"].as_str().expect("an id").to_owned();
    (id, run["trials"].as_u64().expect("a number"))
}

/// Goes on with a run in a new job until all of its blocks are there, and nothing that was stored is lost.
fn goes_on(slurm: &Slurm, home: &Path) {
    let (id, kept) = cut_off(home);
    let lm = Lm::with(home).env("SLURM_CONF", slurm.config());
    let resume = [
        "fleet",
        "run",
        "--resume",
        &id,
        "--launcher",
        "slurm",
        "--hosts",
        "3",
    ];
    let said = lm.args(resume).args(["--json"]).run().code(0);
    let json = said.json();
    assert_eq!(json["run"]["id"], *id);
    let rounds = json["run"]["rounds"].as_array().expect("rounds");
    let whole = rounds.iter().filter(|r| {
        let turns = r["turns"].as_array().expect("turns");
        let done = turns.iter().all(|t: &Value| t["error"].is_null());
        r["place"] == "share" && turns.len() == 3 && done
    });
    // Two points.
    assert_eq!(whole.count(), 2 * BLOCKS, "{json:#}");
    let report = said.then().args(["report", &id, "--json"]).run().code(0);
    let trials = report.json()["trials"].as_array().map(Vec::len);
    assert!(trials >= Some(kept as usize), "{trials:?} of {kept}");
}

const BLOCKS: usize = 4;

/// Turns of the usual length, so that Slurm ends a job in the middle.
fn long_plan() -> String {
    PLAN.replace("turn = '50ms'\n", "")
}

#[test]
fn a_job_that_is_cancelled_loses_nothing_and_can_go_on() {
    let Some(slurm) = slurm() else { return };
    let lm = storm(Lm::new(), "slurm", &BLOCKS.to_string()).env("SLURM_CONF", slurm.config());
    let lm = lm.file("plan.toml", long_plan());
    let work = lm.work();
    let (child, home) = lm.args(["--hosts", "3"]).start();
    wait_for("some trials", || {
        (trials_stored(home.path()) > 24).then_some(())
    });
    let mut cancel = slurm.command("scancel");
    cancel.args(["-u", "root"]);
    said(cancel);
    let ended = Said::from(common::output(child), home);
    let json = ended.json();
    let hosts = json["hosts"].as_array().expect("hosts");
    assert!(hosts.iter().all(|h| h["lost"] == true), "{hosts:#?}");
    for says in [
        "hint: go on: layermark fleet run --resume ",
        "--launcher slurm --hosts 3",
    ] {
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
    let measured = json["run"]["rounds"].as_array().expect("rounds").iter();
    let measured = measured.map(|r| r["turns"].as_array().map_or(0, Vec::len));
    let home = ended.dir;
    assert!(trials_stored(home.path()) as usize >= measured.sum::<usize>());
    nothing_left(&work);
    goes_on(&slurm, home.path());
}

/// The coordinator is in the job, and ends with it.
#[test]
fn a_job_that_is_put_back_into_the_queue_begins_a_new_run_and_the_first_one_can_go_on() {
    let Some(slurm) = slurm() else { return };
    let home = common::disk_dir();
    let (at, work) = (home.path(), home.path().join("work"));
    let share = work.join("share");
    fs::create_dir_all(&share).expect("a directory");
    fs::write(at.join("plan.toml"), long_plan()).expect("the plan");
    let quoted = |path: &Path| shell_words::quote(path.to_str().expect("UTF-8")).into_owned();
    let run = format!(
        "#!/bin/sh\nexport XDG_DATA_HOME={} XDG_CONFIG_HOME={}\n\
         exec {} fleet run plan.toml --launcher slurm --blocks {BLOCKS} --dir {} --share {}\n",
        quoted(&at.join("data")),
        quoted(&at.join("config")),
        quoted(binary().as_ref()),
        quoted(&work),
        quoted(&share),
    );
    fs::write(at.join("job.sh"), run).expect("the file");
    let mut batch = slurm.command("sbatch");
    batch.current_dir(at);
    batch.args([
        "--parsable",
        "--requeue",
        "-N3",
        "-o",
        "job.%j.out",
        "--open-mode=append",
    ]);
    batch.arg("job.sh");
    let job = said(batch);
    wait_for("some trials", || (trials_stored(at) > 24).then_some(()));
    let mut requeue = slurm.command("scontrol");
    requeue.args(["requeue", &job]);
    said(requeue);
    wait_for("the job waits", || {
        (queue(&slurm, "%T") == "PENDING").then_some(())
    });
    nothing_left(&work);
    let (first, kept) = cut_off(at);
    // Slurm waits two minutes otherwise.
    let mut now = slurm.command("scontrol");
    now.args(["update", &format!("JobId={job}"), "StartTime=now"]);
    said(now);
    wait_for("trials of another run", || {
        (history(at).len() == 2 && trials_stored(at) > 12).then_some(())
    });
    let mut cancel = slurm.command("scancel");
    cancel.arg(&job);
    said(cancel);
    wait_for("no job", || queue(&slurm, "%T").is_empty().then_some(()));
    nothing_left(&work);
    let out = fs::read_to_string(at.join(format!("job.{job}.out"))).unwrap_or_default();
    let again = format!("layermark report {first}");
    assert!(out.contains(&again) || out.contains("--resume"), "{out}");
    assert_eq!(cut_off(at), (first, kept));
    goes_on(&slurm, at);
}
