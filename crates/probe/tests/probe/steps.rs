//! The workload `steps`: many executions in a block.

use std::{fs, io::Read, os::unix::fs::OpenOptionsExt, path::Path};

use crate::common::{Lab, point};
use layermark_model::{
    Trial,
    protocol::{FromProbe, ToProbe, TurnRequest, Turned},
};
use layermark_sys::process::Schedstat;
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    io::Errno,
};
use serde_json::json;

/// A turn of the job that is ready, with all CPU time of its programs, ns.
fn turn(lab: &mut Lab, round: u32) -> (Turned, u64) {
    match lab.turn(round, 1) {
        FromProbe::Turned {
            turned, probe_ns, ..
        } => (turned, probe_ns),
        other => panic!("{other:?}"),
    }
}

/// Answer of the probe to what is to be done between two turns.
fn between(lab: &mut Lab, id: u64, again: bool) -> FromProbe {
    lab.say(&ToProbe::Between { id, again });
    lab.answer()
}

/// The trial of the first job after its last turn.
fn finish(lab: &mut Lab, turned: Turned) -> Trial {
    let said = lab.finish(FromProbe::Turned {
        id: 1,
        turned,
        probe_ns: 0,
    });
    match said {
        FromProbe::Trial { trial, .. } => *trial,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_step_leaves_running_has_ended_before_the_next_turn() {
    let mut lab = Lab::new();
    let pipe = lab.dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut pipe_end = fs::File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&pipe)
        .unwrap();
    // The child has the pipe open from its start to its end.
    let script = format!("exec 3>{}; echo here >&3; sleep 600 &", pipe.display());
    let step = point(
        "steps",
        json!({"run": ["sh", "-c", script], "grace": "100ms"}),
    );
    assert!(matches!(lab.prepare(&step), FromProbe::Ready { .. }));
    let mut said = [0; 16];
    for round in 0..2 {
        turn(&mut lab, round);
        assert_eq!(pipe_end.read(&mut said).unwrap(), 5);
        let next = pipe_end.read(&mut said).map_err(|e| e.raw_os_error());
        assert_ne!(
            next,
            Err(Some(Errno::AGAIN.raw_os_error())),
            "it still runs"
        );
    }
    let trial = finish(&mut lab, Turned::default());
    assert_eq!(trial.figures.number("left_running"), Some(1.0));
    lab.end();
}

#[test]
fn the_cpu_time_of_the_process_that_reads_the_output_is_known() {
    let mut lab = Lab::new();
    let step = point("steps", json!({"run": "head -c 100M /dev/zero"}));
    assert!(matches!(lab.prepare(&step), FromProbe::Ready { .. }));
    let (turned, probe_ns) = turn(&mut lab, 0);
    let of_step = turned.cpu.user_ns + turned.cpu.sys_ns;
    assert!(turned.programs_ns > of_step, "{turned:?}");
    assert!(probe_ns >= turned.programs_ns, "{probe_ns} {turned:?}");
    finish(&mut lab, turned);
    lab.end();
}

#[test]
fn a_step_that_writes_is_flushed_after_each_execution_and_others_are_not() {
    let mut lab = Lab::new();
    for (run, writes) in [
        ("sh -c 'echo x >file'", true),
        ("sh -c 'cat file; ls >&2'", false),
        ("true", false),
    ] {
        let step = point(
            "steps",
            json!({"run": run, "setup": "sh -c 'echo x >file'"}),
        );
        let trial = lab.turns(&step, 3, 1);
        assert_eq!(trial.debt.is_some(), writes, "{run}");
        assert_eq!((trial.turns.len(), trial.ops()), (3, 3), "{run}");
        assert_eq!(trial.verified.map(|v| v.records), Some(3), "{run}");
    }
    lab.end();
}

#[test]
fn a_step_that_changes_its_input_is_prepared_and_checked_each_time() {
    let mut lab = Lab::new();
    let step = json!({
        "run": "rmdir input",
        "prepare": "sh -c 'mkdir input && echo >>prepared'",
        "check": "sh -c 'test ! -e input && echo >>checked'",
        "cleanup": "sh -c 'echo >>cleaned'",
        "expect": ["tree=input"],
    });
    assert!(matches!(
        lab.prepare(&point("steps", step)),
        FromProbe::Ready { .. }
    ));
    let dir = fs::read_dir(lab.dir.path()).unwrap();
    let mut all = dir.map(|entry| entry.unwrap().path());
    let dir = all
        .find(|path| path.to_string_lossy().contains("/steps-"))
        .unwrap();
    let lines = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default().len();
    let counts = || ["prepared", "checked", "cleaned"].map(lines);
    assert!(turn(&mut lab, 0).0.between);
    assert_eq!(counts(), [1, 0, 0]);
    assert_eq!(between(&mut lab, 1, false), FromProbe::Ready { id: 1 });
    assert_eq!(counts(), [1, 1, 1]);
    assert_eq!(between(&mut lab, 1, true), FromProbe::Ready { id: 1 });
    assert_eq!(counts(), [2, 1, 1]);
    turn(&mut lab, 1);
    // Without being asked, it is done in the turn.
    let (turned, _) = turn(&mut lab, 2);
    assert_eq!(counts(), [3, 2, 2]);
    let trial = finish(&mut lab, turned);
    assert_eq!(counts(), [3, 3, 3]);
    assert!(trial.debt.is_some());
    assert_eq!(
        trial.outcome.as_deref(),
        Some("before, `input`: 0 entries, 2d06800538d394c2; after, `input`: nothing")
    );
    lab.end();
}

#[test]
fn an_execution_whose_input_or_outcome_differs_is_an_error() {
    let mut lab = Lab::new();
    let step = json!({"run": "sh -c 'echo >>longer'", "expect": ["tree=longer"]});
    assert!(matches!(
        lab.prepare(&point("steps", step)),
        FromProbe::Ready { .. }
    ));
    turn(&mut lab, 0);
    assert_eq!(between(&mut lab, 1, false), FromProbe::Ready { id: 1 });
    assert_eq!(between(&mut lab, 1, true), FromProbe::Ready { id: 1 });
    turn(&mut lab, 1);
    match between(&mut lab, 1, false) {
        FromProbe::Error { message, .. } => {
            assert!(message.contains("the step does not repeat"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    lab.end();
}

#[test]
fn a_directory_that_the_layer_has_lost_is_set_up_again() {
    let mut lab = Lab::new();
    let step = json!({"run": "cat made", "setup": "sh -c 'echo x >made'"});
    let step = point("steps", step);
    lab.turns(&step, 1, 1);
    let dir = fs::read_dir(lab.dir.path()).unwrap();
    let mut all = dir.map(|entry| entry.unwrap().path());
    let is_own = |path: &std::path::PathBuf| path.to_string_lossy().contains("/steps-");
    fs::remove_dir_all(all.find(is_own).unwrap()).unwrap();
    let trial = lab.turns(&step, 1, 1);
    assert_eq!(trial.verified.map(|v| v.records), Some(1));
    lab.end();
}

#[test]
fn the_first_execution_of_a_block_leads_in() {
    let mut lab = Lab::new();
    let step = point("steps", json!({"run": "sh -c 'echo >>done'"}));
    assert!(matches!(lab.prepare(&step), FromProbe::Ready { .. }));
    let dir = fs::read_dir(lab.dir.path()).unwrap();
    let mut all = dir.map(|entry| entry.unwrap().path());
    let dir = all
        .find(|path| path.to_string_lossy().contains("/steps-"))
        .unwrap();
    let executed = || fs::read_to_string(dir.join("done")).unwrap().len();
    let ask = |round| TurnRequest {
        round,
        ns: 1,
        lead_in_ns: 1,
    };
    let mut turn = |round| {
        lab.say(&ToProbe::Turn {
            id: 1,
            ask: ask(round),
        });
        match lab.answer() {
            FromProbe::Turned { turned, .. } => turned,
            other => panic!("{other:?}"),
        }
    };
    let first = turn(0);
    assert_eq!((executed(), first.turn.ops), (2, 1));
    let of_one = first.cpu.user_ns + first.cpu.sys_ns;
    assert!(
        first.uncounted_ns > 0 && first.programs_ns > of_one,
        "{first:?}"
    );
    let second = turn(1);
    assert_eq!((executed(), second.uncounted_ns), (3, 0));
    let trial = finish(&mut lab, second);
    assert_eq!((trial.turns.len(), trial.ops()), (2, 2));
    // Each is checked, and each was flushed.
    assert_eq!(trial.verified.map(|v| v.records), Some(3));
    lab.end();
}

/// Where others work beside it, what it waits is not time that passes.
#[test]
fn the_waiting_of_a_program_that_works_alone_is_known() {
    let own = Schedstat::of(Path::new("/proc/self"));
    if !own.is_some_and(|own| own.is_counted()) {
        return eprintln!("skipped: this kernel does not count");
    }
    let child = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
    for (run, alone) in [
        (json!("head -c 1M /dev/zero"), true),
        (json!(["sh", "-c", child]), true),
        (json!(["sh", "-c", format!("({child}); true")]), false),
        (json!(["sh", "-c", format!("({child}) & wait")]), false),
    ] {
        let mut lab = Lab::new();
        let step = point("steps", json!({"run": run}));
        assert!(matches!(lab.prepare(&step), FromProbe::Ready { .. }));
        let (turned, _) = turn(&mut lab, 0);
        assert_eq!(turned.turn.waited_ns.is_some(), alone, "{run}");
        let waited = turned.turn.waited_ns;
        assert!(
            waited.is_none_or(|ns| ns < turned.turn.elapsed_ns),
            "{turned:?}"
        );
        assert_eq!(finish(&mut lab, turned).waited_ns(), waited, "{run}");
        lab.end();
    }
}

/// Ends a program, however the test ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_waits_for_the_cpu_that_another_one_uses() {
    let own = Schedstat::of(Path::new("/proc/self"));
    if !own.is_some_and(|own| own.is_counted()) {
        return eprintln!("skipped: this kernel does not count");
    }
    let may = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| may.is_set(*cpu));
    let cpu = cpu.unwrap().to_string();
    let busy = ["-c", &cpu, "sh", "-c", "while :; do :; done"];
    let busy = std::process::Command::new("taskset").args(busy).spawn();
    let _busy = Ended(busy.unwrap());
    let mut lab = Lab::new();
    // Much more work than one turn of the scheduler.
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
    let step = point(
        "steps",
        json!({"run": ["taskset", "-c", cpu, "sh", "-c", work]}),
    );
    assert!(matches!(lab.prepare(&step), FromProbe::Ready { .. }));
    let (turned, _) = turn(&mut lab, 0);
    let waited = turned.turn.waited_ns;
    assert!(
        waited.is_some_and(|ns| ns > 0 && ns < turned.turn.elapsed_ns),
        "{turned:?}"
    );
    finish(&mut lab, turned);
    lab.end();
}

#[test]
fn what_tested_the_directory_of_a_copy_is_removed() {
    let mut lab = Lab::new();
    let tree = tempfile::tempdir().unwrap();
    let name = tree.path().to_str().unwrap();
    let packaged = format!(
        "packaged/steps/{:016x}",
        xxhash_rust::xxh3::xxh3_64(name.as_bytes())
    );
    let packaged = lab.dir.path().join(packaged);
    fs::create_dir_all(&packaged).unwrap();
    fs::write(packaged.join("f"), "x").unwrap();
    let step = json!({"run": "touch g", "tree": name, "copy": "each"});
    assert!(matches!(
        lab.prepare(&point("steps", step)),
        FromProbe::Ready { .. }
    ));
    let works = |lab: &Lab| {
        let all = fs::read_dir(lab.dir.path()).unwrap();
        let names = all.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("work-")).count()
    };
    // Its home and the tests of two directories.
    assert!(works(&lab) >= 3);
    let (turned, _) = turn(&mut lab, 0);
    between(&mut lab, 1, true);
    turn(&mut lab, 1);
    finish(&mut lab, turned);
    assert_eq!(works(&lab), 0);
    lab.end();
}
