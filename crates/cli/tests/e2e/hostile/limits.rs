//! Limits of a shell and a bare container: an error and a hint each, no signal and no panic.

use layermark_testkit::fixtures::fixture;

use crate::common::{Lm, READ, is_root, skipped};

/// What a limit makes of a run, which it ends.
#[track_caller]
fn limited(limit: &str, word: &str) {
    let Some(lm) = Lm::new().mock().around(limit, "") else {
        return;
    };
    let said = lm.run().fails(1, &[word, "ulimit"]).left_nothing();
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
}

#[test]
fn limits_that_no_run_keeps_are_said() {
    // Hard limits: root may raise them, unless it lacks the right.
    let drop = |limit: &str| {
        format!(
            "{limit}; set -- setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource \"$@\""
        )
    };
    limited(&drop("ulimit -s 64"), "the stack is limited too much here");
    limited(
        &drop("ulimit -f 64"),
        "the size of a file is limited too much here",
    );
    limited(
        &drop("ulimit -n 12"),
        "the number of open files is limited too much here",
    );
    limited(
        &drop("ulimit -v 130000"),
        "the memory of a process is limited too much here",
    );
}

/// What a hint offers is enough.
#[test]
fn a_run_works_with_the_limits_that_hints_name() {
    let limits = [
        ("-s 64", "-s "),
        ("-f 64", "-f "),
        ("-n 12", "-n "),
        ("-v 130000", "-v "),
    ];
    let lack = "set -- setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource \"$@\"";
    for (low, option) in limits {
        let Some(lm) = Lm::new()
            .measure(&["tmpfs"])
            .around(&format!("ulimit {low}; {lack}"), "")
        else {
            return;
        };
        let said = lm.run().fails(1, &["ulimit"]);
        let (_, named) = said
            .stderr
            .split_once("allow more: ulimit ")
            .expect("a hint");
        let named = named.split(',').next().expect("a limit");
        assert!(named.starts_with(option), "{named}");
        // sh counts blocks of 512 bytes.
        let named = match named.strip_prefix("-f ") {
            Some(kilobytes) => format!("-f $((2 * {kilobytes}))"),
            None => named.to_owned(),
        };
        let lm = Lm::new().measure(&["tmpfs"]);
        let lm = lm
            .around(&format!("ulimit {named}; {lack}"), "")
            .expect("as before");
        let said = lm.run().left_nothing();
        assert!(matches!(said.code, Some(0 | 4)), "{named}: {}", said.stderr);
    }
}

/// A control group of this test, for the command that moves itself there.
fn group(max: u64) -> Option<(String, String)> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = |line: &&str| {
        line.contains(" - cgroup2 ") || line.contains(",pids ") || line.ends_with(",pids")
    };
    let at = mounts.lines().find(kind)?.split(' ').nth(4)?;
    let group = format!("{at}/layermark-test-{}-{max}", std::process::id());
    let before = format!(
        "mkdir {group}; echo {max} >{group}/pids.max; echo $$ >{group}/cgroup.procs; \
         cat {group}/pids.current >/dev/null"
    );
    // The shell itself has to leave first.
    let after = format!(
        "echo $$ >{at}/cgroup.procs; for i in $(seq 100); do rmdir {group} && break; sleep 0.1; done"
    );
    Some((before, after))
}

/// At each limit the run ends with an error that names it, or works. In one place after another a thread or a
/// process is the first that cannot be started.
#[test]
fn too_few_processes_are_an_error_that_names_the_limit() {
    if !is_root() {
        return skipped("only root limits control groups");
    }
    let mut worked = false;
    for max in (4..=16).step_by(4).chain(17..=32) {
        let Some((before, after)) = group(max) else {
            return skipped("no controller of processes is mounted here");
        };
        // A second session starts all processes again; more of either would start no others.
        let small = ["--blocks", "2", "--sessions", "2", "--silence", "20s"];
        let lm = Lm::new().work_with(READ, &["tmpfs"]).args(small);
        let Some(lm) = lm.around(&before, &after) else {
            return;
        };
        let said = lm.run().left_nothing();
        let words = &said.stderr;
        assert!(!words.contains("panicked"), "{max}: {words}");
        if matches!(said.code, Some(0 | 4)) {
            worked = true;
            continue;
        }
        assert!(
            matches!(said.code, Some(1 | 3)),
            "{max}: {:?} {words}",
            said.code
        );
        let named = [
            &format!("pids.max allows {max}"),
            "hint: allow more: echo 256 | sudo tee /sys/",
        ];
        assert!(
            named.iter().all(|named| words.contains(*named)),
            "{max}: {words}"
        );
    }
    assert!(worked, "no limit was enough");
}

/// `thread::spawn` and `Scope::spawn` panic where no thread can be started. `thread::Builder` returns an error.
#[test]
fn no_thread_is_started_in_a_way_that_panics() {
    let mut wrong = Vec::new();
    let mut next = vec![crate::common::root().join("crates")];
    while let Some(dir) = next.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["tests", "testkit", "fuzz", "benches"].contains(&&*name) {
                    next.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") && !name.contains("test") {
                let text = std::fs::read_to_string(&path).expect("a source");
                let own = text
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default();
                let bad =
                    |line: &&str| line.contains("thread::spawn(") || line.contains("scope.spawn(");
                wrong.extend(
                    own.lines()
                        .filter(bad)
                        .map(|l| format!("{}: {l}", path.display())),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn soft_limits_are_raised() {
    let soft = "ulimit -S -n 20; ulimit -S -s 64; ulimit -S -f 64";
    if let Some(lm) = Lm::new().mock().around(soft, "") {
        lm.run().code(4).left_nothing();
    }
}

/// The store is beyond the limit, so that its log cannot be emptied into it, and each block adds to the log until this
/// may not grow either.
#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let mut large = fixture("quiet").read();
    large.run.machine.label = Some("x".repeat(5 << 20));
    let lm = Lm::new().keeping_runs([large]);
    let lm = lm.work_with(READ, &["mock", "mock:ns=1500"]);
    // In units of 512 bytes for sh: 4 MiB.
    let lm = lm.args(["--blocks", "2000"]).around("ulimit -f 8192", "");
    if let Some(lm) = lm {
        let said = lm.run().fails(
            1,
            &["no file may have more than 4194304 bytes", "ulimit -f"],
        );
        assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
    }
}

#[test]
fn a_machine_without_dev_random_makes_runs() {
    if !is_root() {
        skipped("only root may mount devices here");
        return;
    }
    let devices = "mkdir dev; mount -t tmpfs none dev; \
        for d in null zero full urandom; do : > dev/$d; mount --bind /dev/$d dev/$d; done; mount --rbind dev /dev";
    if let Some(lm) = Lm::new().mock().around(devices, "") {
        lm.run().code(4).left_nothing();
    }
}

#[test]
fn a_plan_that_is_too_large_is_refused_at_once() {
    let work = "[[work]]\nworkload = 'file'\n";
    let joined = |all: Vec<String>| all.concat();
    let points = |n: u32| {
        let sizes = (0..11).map(|k| format!("'{}M',", k * 2000 + n)).collect();
        format!("{work}record = '4K'\nfile_size = [{}]\n", joined(sizes))
    };
    let layers = joined((1..=101).map(|n| format!("'mock:ns={n}',")).collect());
    let plans = [
        (work.repeat(1001), "at most 1000 [[work]] tables"),
        (work.repeat(1_000_000), "longer than 1 MiB"),
        (
            joined((1..=1000).map(points).collect()),
            "at most 10000 points",
        ),
        (format!("layers = [{layers}]\n{work}"), "at most 100 layers"),
    ];
    for (plan, why) in plans {
        let plan = format!("name = 'large'\n{plan}");
        Lm::new().plan(&plan).run().fails(2, &[why]).left_nothing();
    }
}
