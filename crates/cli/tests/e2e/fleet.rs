//! `layermark fleet`: hosts behind a command, Slurm and MPI; and what goes wrong with one of them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use layermark_testkit::slurm::Slurm;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{self, Lm, Said, binary, is_root, skipped, wait_for};

/// Starts each task here: the host is only a name.
pub const HERE: &str = "env HOST={host}";
/// One local operation in six short blocks.
const QUICK: [&str; 4] = ["--budget", "1s", "--point", "open and stat"];

fn check(lm: Lm, launcher: &str, hosts: &str) -> Lm {
    let dir = lm.work();
    let dir = dir.to_str().expect("UTF-8").to_owned();
    lm.args(["fleet", "check", "--launcher", launcher, "--hosts", hosts])
        .args(["--dir", &dir, "--json"])
        .args(QUICK)
}

/// Two kinds of work, small and short.
pub const PLAN: &str = "name = 'small'
turn = '50ms'
[[work]]
label = 'write'
workload = 'file'
op = 'write'
record = '4K'
file_size = '64K'
[[work]]
label = 'names'
workload = 'meta'
op = 'open-stat'
files = 10
";

pub fn storm(lm: Lm, launcher: &str, blocks: &str) -> Lm {
    let dir = lm.work();
    let share = dir.join("share");
    fs::create_dir_all(&share).expect("a directory");
    let path = |p: &Path| p.to_str().expect("UTF-8").to_owned();
    lm.file("plan.toml", PLAN)
        .args(["fleet", "run", "plan.toml", "--launcher", launcher])
        .args(["--dir", &path(&dir), "--share", &path(&share)])
        .args(["--blocks", blocks, "--json"])
}

/// The hosts of an answer: name, word or `lost`, and text.
fn hosts(said: &Said) -> Vec<(String, String, String)> {
    let json = said.json();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let hosts = json["hosts"].as_array().expect("hosts");
    hosts
        .iter()
        .map(|h| (text(h, "name"), text(h, "word"), text(h, "text")))
        .collect()
}

pub fn nothing_left(work: &Path) {
    wait_for("nothing is left below the directory", || {
        let mut left = fs::read_dir(work).expect("the directory").flatten();
        let own = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with("layermark-");
        left.all(|e| !own(&e)).then_some(())
    });
}

#[test]
fn each_host_of_a_check_makes_a_run_and_has_a_word() {
    let said = check(Lm::new(), HERE, "n[1-3]").run();
    assert!(matches!(said.code, Some(0 | 1)), "{}", said.stderr);
    let json = said.json();
    assert_eq!(json["schema"], "layermark.fleet-check/1", "{json:#}");
    let all = hosts(&said);
    let names: Vec<&str> = all.iter().map(|h| h.0.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3"], "{all:?}");
    assert!(all.iter().all(|h| h.1 != "lost"), "{all:?}");
    let odd = all.iter().any(|h| h.1 == "odd");
    assert_eq!(said.code, Some(i32::from(odd)), "{all:?}");
    let work = said.dir.path().join("work");
    nothing_left(&work);
    // Each host is a run of the store, which every other command reads.
    let run = json["hosts"][1]["run"].as_str().expect("a run").to_owned();
    let report = said.then().args(["report", &run, "--json"]).run();
    assert_eq!(report.json()["machine"]["label"], "n2");
    let of_host = report.then().args(["history", "--host", "n2", "--json"]);
    let of_host = of_host.run().code(0);
    let runs = of_host.json()["runs"].as_array().expect("runs").clone();
    assert_eq!((runs.len(), &runs[0]["run"]), (1, &json!(run)));
    let history = of_host.then().args(["history", "--json"]).run().code(0);
    let all = history.json();
    let listed = all["runs"]
        .as_array()
        .or(all.as_array())
        .expect("runs")
        .len();
    assert_eq!(listed, 3, "{all:#}");
}

/// A file system in user space below one of the hosts.
#[test]
fn the_host_with_a_slow_disk_is_named() {
    if !is_root() || !Path::new("/usr/bin/bindfs").exists() {
        return skipped("only root mounts, and bindfs is not installed everywhere");
    }
    let lm = Lm::new();
    let work = lm.work();
    for host in ["n1", "n2", "n3", "slow"] {
        fs::create_dir(work.join(host)).expect("a directory");
    }
    let (from, at) = (work.join("slow"), work.join("n2"));
    let mounted = Command::new("bindfs").arg(&from).arg(&at).status();
    assert!(mounted.expect("bindfs").success());
    let dir = work.join("{host}");
    let junit = lm.dir.path().join("check.xml");
    let said = lm
        .args([
            "fleet",
            "check",
            "--launcher",
            HERE,
            "--hosts",
            "n1,n2,n3",
            "--json",
        ])
        .args(["--dir", dir.to_str().expect("UTF-8")])
        .args(["--junit", junit.to_str().expect("UTF-8")])
        .args(QUICK)
        .run();
    let gone = Command::new("umount").arg(&at).status();
    assert!(gone.expect("umount").success());
    let all = hosts(&said);
    let words: Vec<&str> = all.iter().map(|h| h.1.as_str()).collect();
    assert_eq!(words[1], "odd", "{all:?} {}", said.stderr);
    assert!(words[0] != "odd" && words[2] != "odd", "{all:?}");
    assert!(
        all[1].2.starts_with("odd at open and stat natively by "),
        "{all:?}"
    );
    assert_eq!(said.code, Some(1));
    assert!(
        said.json()["answer"]
            .as_str()
            .expect("text")
            .contains("`n2` of 3 hosts is the odd one")
    );
    // The difference is told beside the word.
    let unlike = said.json()["compared"]["unlike"].to_string();
    assert!(unlike.contains("fuse"), "{unlike}");
    let xml = fs::read_to_string(junit).expect("JUnit");
    assert!(
        xml.contains(r#"tests="3" failures="1""#) && xml.contains(r#"<failure type="odd""#),
        "{xml}"
    );
}

#[test]
fn a_share_is_measured_under_one_two_and_three_hosts() {
    let said = storm(Lm::new(), HERE, "6")
        .args(["--hosts", "a,b,c"])
        .run()
        .code(0);
    let json = said.json();
    assert_eq!(json["schema"], "layermark.fleet/1");
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 2, "{json:#}");
    for point in points {
        let steps = point["steps"].as_array().expect("steps");
        let hosts: Vec<_> = steps
            .iter()
            .map(|s| (s["place"].as_str(), s["hosts"].as_u64()))
            .collect();
        let share = |n| (Some("share"), Some(n));
        assert_eq!(
            hosts,
            [(Some("own"), Some(3)), share(1), share(2), share(3)],
            "{point:#}"
        );
        for step in steps {
            assert_eq!(step["rounds"], 6, "{step:#}");
            let fair = step["fairness"].as_f64().expect("a number");
            assert!(fair > 1.0 / 3.0 && fair <= 1.0, "{step:#}");
            let (first, last) = (step["first_done_s"].as_f64(), step["last_done_s"].as_f64());
            assert!(first > Some(0.0) && first <= last, "{step:#}");
        }
        assert!(steps[3]["ratio"]["interval"].is_array(), "{point:#}");
        // On a busy machine hosts may begin far apart, which is then said in place of a knee.
        let text = point["text"].as_str().expect("text");
        let apart = text.contains("not proved to have worked at once");
        let knee = point["knee"]["hosts"]["interval"].is_array();
        assert!(knee != apart, "{point:#}");
    }
    let unlike = json["unlike"].to_string();
    assert!(unlike.contains("are on one machine"), "{unlike}");
    assert!(
        said.stderr.contains("the barrier's round trip"),
        "{}",
        said.stderr
    );
    nothing_left(&said.dir.path().join("work"));
}

/// Files of their own, one package of all, a program launched from it, and a recording.
const ONE_PACKAGE: &str = "name = 'one'
turn = '50ms'
[[work]]
label = 'own'
workload = 'file'
op = 'read'
record = '4K'
file_size = '64K'
[[work]]
label = 'one'
workload = 'file'
op = 'read'
record = '4K'
file_size = '128K'
one_package = true
[[work]]
label = 'launch'
workload = 'launch'
command = \"sh -c 'exit 0'\"
cache = ['cold', 'warm']
package = true
one_package = true
[[work]]
label = 'recording'
workload = 'replay'
time = 'io'
";

#[test]
fn hosts_read_one_package_launch_from_it_and_replay_a_recording() {
    if !is_root() || !Path::new("/usr/bin/strace").exists() {
        return skipped("only root mounts, and strace is not installed everywhere");
    }
    let lm = storm(Lm::new(), HERE, "2").args(["--hosts", "a,b"]);
    let share = lm.work().join("share");
    let (child, home) = lm.file("plan.toml", ONE_PACKAGE).start();
    // What is on the share itself: hosts mount the package in namespaces of their own.
    let with = |name: &str| {
        let dirs = fs::read_dir(&share).into_iter().flatten().flatten();
        let of = dirs.map(|dir| dir.path().join("packaged").join(name));
        of.filter(|path| path.exists()).count()
    };
    wait_for("the files of both hosts, and one package", || {
        (with("data-65536-0") == 2).then_some(())
    });
    assert_eq!((with("data-131072-0"), with("root")), (1, 1));
    let said = Said::from(common::output(child), home).code(0);
    let json = said.json();
    let rounds = json["run"]["rounds"].as_array().expect("rounds");
    // Five points in two blocks: two own directories in turn, one host, two hosts.
    assert_eq!(rounds.len(), 5 * 2 * 4, "{json:#}");
    let turns = rounds
        .iter()
        .flat_map(|r| r["turns"].as_array().expect("turns"));
    for turn in turns {
        assert!(
            turn["error"].is_null() && turn["ops"].as_u64() > Some(0),
            "{turn:#}"
        );
    }
    nothing_left(&share);
    for (work, says) in [
        ("workload = 'net'", "has two ends"),
        (
            "workload = 'file'\nop = 'write'\none_package = true",
            "it has no packaged files",
        ),
    ] {
        let plan = format!("name = 'x'\n[[work]]\n{work}\n");
        let lm = storm(Lm::new(), HERE, "2").args(["--hosts", "a,b"]);
        lm.file("plan.toml", &plan).run().fails(2, &[says]);
    }
}

/// `n2` does this in place of starting its task; the words that start it are `"$@"`.
fn bad(what: &str) -> String {
    format!("sh -c 'h=$1; shift; [ \"$h\" = n2 ] || exec \"$@\"; {what}' sh {{host}}")
}

fn lost_in_check(what: &str, says: &str) {
    let begun = Instant::now();
    let lm = check(Lm::new(), &bad(what), "n1,n2,n3,n4");
    let said = lm
        .args(["--patience", "20s", "--silence", "20s"])
        .run()
        .code(1);
    let all = hosts(&said);
    assert_eq!(all[1].1, "lost", "{what}: {all:?}");
    assert!(all[1].2.contains(says), "{what}: {all:?}");
    assert!(
        all.iter().filter(|h| h.1 == "lost").count() == 1,
        "{what}: {all:?}"
    );
    let compared = said.json()["compared"]["runs"].as_array().map(Vec::len);
    assert_eq!(compared, Some(3), "{what}");
    assert!(begun.elapsed() < Duration::from_secs(150), "{what}");
    nothing_left(&said.dir.path().join("work"));
}

#[test]
fn a_host_that_never_starts_is_a_result() {
    lost_in_check("echo no such node >&2; exit 3", "no such node");
}

#[test]
fn a_host_that_dies_is_a_result() {
    lost_in_check("exec timeout -s KILL 1.5 \"$@\"", "its launcher ended");
}

#[test]
fn a_host_that_prints_a_gigabyte_is_a_result() {
    lost_in_check(
        "exec head -c 1000000000 /dev/zero",
        "bytes that are no answer",
    );
}

#[test]
fn a_host_that_says_everything_twice_is_a_result() {
    lost_in_check("\"$@\" | sed -u p", "answered twice");
}

/// With the reason and a hint in each format.
#[test]
fn a_share_that_no_host_has_is_named() {
    let lm = Lm::new();
    let (gone, junit) = (lm.work().join("gone"), lm.dir.path().join("check.xml"));
    let gone = gone.to_str().expect("UTF-8").to_owned();
    let lm = check(lm, HERE, "a,b,c").args(["--share", &gone]);
    let said = lm
        .args(["--junit", junit.to_str().expect("UTF-8")])
        .run()
        .code(1);
    let all = hosts(&said);
    assert!(all.iter().all(|h| h.1 == "lost"), "{all:?}");
    let xml = fs::read_to_string(junit).expect("JUnit");
    for text in [&all[0].2, &xml] {
        assert!(
            text.contains("lost while the share was set up: ")
                && text.contains(&gone)
                && text.contains("hint: "),
            "{text}"
        );
    }
}

#[test]
fn a_host_with_another_binary_is_a_result() {
    let lm = Lm::new();
    let other = lm.dir.path().join("other");
    fs::copy(binary(), &other).expect("a copy");
    let mut bytes = fs::File::options()
        .append(true)
        .open(&other)
        .expect("the copy");
    std::io::Write::write_all(&mut bytes, b"x").expect("one byte more");
    drop(bytes);
    let what = format!("shift; exec {} \"$@\"", other.display());
    let said = check(lm, &bad(&what), "n1,n2,n3,n4").run().code(1);
    let all = hosts(&said);
    assert!(all[1].2.contains("its binary is another one"), "{all:?}");
}

#[test]
fn what_cannot_be_a_fleet_is_refused() {
    for (args, says) in [
        (
            vec!["check", "--launcher", "ssh {host}"],
            "--hosts n1,n2,n3",
        ),
        (
            vec!["check", "--launcher", "ssh {host}", "--hosts", "n1,-x"],
            "not the name of a host",
        ),
        (
            vec![
                "check",
                "--launcher",
                "ssh {host}",
                "--hosts",
                "a",
                "--point",
                "stat",
            ],
            "no such point",
        ),
        (
            vec![
                "run",
                "--launcher",
                "mpi",
                "--hosts",
                "3",
                "--share",
                "/tmp",
            ],
            "--hosts n1,n2,n3",
        ),
        (
            vec!["run", "--launcher", "slurm", "--hosts", "3", "--share", "x"],
            "absolute path",
        ),
        (
            vec![
                "run",
                "no-plan",
                "--launcher",
                "slurm",
                "--hosts",
                "3",
                "--share",
                "/x",
            ],
            "plan no-plan",
        ),
    ] {
        let said = Lm::new().args(["fleet"]).args(&args).run().code(2);
        assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
    }
    let gone = check(Lm::new(), "/nonexistent/launcher {host}", "a,b,c")
        .run()
        .code(3);
    assert!(
        gone.stderr.contains("command -v /nonexistent/launcher"),
        "{}",
        gone.stderr
    );
    let none = check(Lm::new(), "false {host}", "a,b,c").run().code(3);
    assert!(
        none.stderr.contains("no host has started"),
        "{}",
        none.stderr
    );
}

/// The hosts take their directories away.
#[test]
fn nothing_stays_when_the_coordinator_is_killed() {
    let lm = storm(Lm::new(), HERE, "500").args(["--hosts", "a,b,c"]);
    let work = lm.work();
    let (mut child, _home) = lm.start();
    let own = || {
        let all = fs::read_dir(&work).expect("the directory").flatten();
        all.filter(|e| e.file_name().to_string_lossy().starts_with("layermark-"))
            .count()
    };
    wait_for("three directories", || (own() == 3).then_some(()));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::KILL).expect("kill");
    let _ = child.wait();
    nothing_left(&work);
    nothing_left(&work.join("share"));
}

#[test]
fn slurm_starts_the_hosts_of_a_check_and_of_a_run() {
    let Some(slurm) = Slurm::start() else {
        return skipped("Slurm is not installed, or this is not root");
    };
    let lm = || Lm::new().env("SLURM_CONF", slurm.config());
    let said = check(lm(), "slurm", "3").run();
    let all = hosts(&said);
    let names: Vec<&str> = all.iter().map(|h| h.0.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3"], "{all:?} {}", said.stderr);
    assert!(all.iter().all(|h| h.1 != "lost"), "{all:?} {}", said.stderr);
    nothing_left(&said.dir.path().join("work"));
    let said = storm(lm(), "slurm -p p", "2")
        .args(["--hosts", "n[1-3]"])
        .run()
        .code(0);
    let json = said.json();
    assert_eq!(json["points"][0]["steps"][3]["rounds"], 2, "{json:#}");
    let answer = json["answer"].as_str().expect("an answer");
    assert_eq!(answer, "No knee is known at 2 points");
    // Cancelled in the middle: what was measured is reported, with the loss of all hosts.
    let lm = storm(lm(), "slurm", "500").args(["--hosts", "3"]);
    let (child, home) = lm.start();
    wait_for("some trials", || {
        (common::trials_stored(home.path()) > 12).then_some(())
    });
    let cancelled = slurm.command("scancel").args(["-u", "root"]).status();
    assert!(cancelled.expect("scancel").success());
    let said = child.wait_with_output().expect("its end");
    let json: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let hosts = json["hosts"].as_array().expect("hosts");
    assert!(hosts.iter().all(|h| h["lost"] == true), "{hosts:#?}");
    let rounds = json["run"]["rounds"].as_array().map(Vec::len);
    assert!(rounds > Some(0), "{rounds:?}");
}

#[test]
fn mpi_starts_the_hosts_of_a_run() {
    if !Path::new("/usr/bin/mpirun").exists() {
        return skipped("OpenMPI is not installed");
    }
    let root = if is_root() {
        " --allow-run-as-root"
    } else {
        ""
    };
    let launcher = format!("mpi --oversubscribe{root}");
    let said = storm(Lm::new(), &launcher, "2")
        .args(["--hosts", "localhost,localhost,localhost"])
        .run()
        .code(0);
    let all = hosts(&said);
    let names: Vec<&str> = all.iter().map(|h| h.0.as_str()).collect();
    assert_eq!(names, ["localhost", "localhost#2", "localhost#3"]);
    assert_eq!(said.json()["points"][0]["steps"][3]["rounds"], 2);
    nothing_left(&said.dir.path().join("work"));
}

#[test]
fn a_batch_file_of_slurm_runs() {
    let Some(slurm) = Slurm::start() else {
        return skipped("Slurm is not installed, or this is not root");
    };
    let lm = Lm::new();
    let (dir, share) = (lm.work(), lm.work().join("share"));
    fs::create_dir(&share).expect("a directory");
    let said = lm
        .args(["fleet", "script", "slurm", "--hosts", "3"])
        .args(["--dir", dir.to_str().expect("UTF-8")])
        .args(["--share", share.to_str().expect("UTF-8")])
        .run()
        .code(0);
    let at = said.dir.path();
    // Small, and without the exclusive use of one machine by three nodes.
    let text = said.stdout.replace("#SBATCH --exclusive\n", "");
    let text = text.replace(
        "fleet run share-storm",
        "fleet run share-storm --scale 0.05 --blocks 1",
    );
    fs::write(at.join("job.sh"), &text).expect("the file");
    let done = slurm
        .command("sbatch")
        .current_dir(at)
        .args(["--wait", "-o", "job.out", "job.sh"])
        .output()
        .expect("sbatch");
    let out = fs::read_to_string(at.join("job.out")).unwrap_or_default();
    assert!(done.status.success(), "{text}\n{out}");
    let made = fs::read_dir(at).expect("the directory").flatten();
    let made = made.map(|e| e.file_name().to_string_lossy().into_owned());
    let is_report = |name: &String| {
        let id = name.strip_prefix("layermark-");
        id.is_some_and(|id| id.strip_suffix(".json").is_some())
    };
    assert_eq!(made.filter(is_report).count(), 1, "{out}");
}

/// Every janitor removed a program of this name, and a task that failed before it had a janitor left its copy.
#[test]
fn a_copy_is_removed_by_its_task_also_if_that_fails_at_once_and_by_nobody_else() {
    let lm = Lm::new();
    let copy = lm.dir.path().join("layermark-copy-1");
    fs::copy(binary(), &copy).expect("a copy");
    let there_after = |words: &[&str]| {
        let mut command = Command::new(&copy);
        command.args(words).env_clear().stdin(Stdio::null());
        let said = command.output().expect("the copy");
        (said.status.success(), copy.exists())
    };
    assert_eq!(there_after(&["janitor"]), (true, true));
    assert_eq!(there_after(&["fleet-task"]), (false, true));
    // Its number is not known.
    assert_eq!(there_after(&["fleet-task", "--copied"]), (false, false));
    fs::copy(binary(), &copy).expect("a copy");
    assert_eq!(there_after(&["janitor", "--copied"]), (true, false));
}
