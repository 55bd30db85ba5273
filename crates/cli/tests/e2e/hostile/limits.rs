//! Limits of a shell and a bare container: an error and a hint each, no signal and no panic.

use crate::common::{Lm, is_root, skipped};

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

#[test]
fn soft_limits_are_raised() {
    let soft = "ulimit -S -n 20; ulimit -S -s 64; ulimit -S -f 64";
    if let Some(lm) = Lm::new().mock().around(soft, "") {
        lm.run().code(4).left_nothing();
    }
}

#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let args = ["--budget", "20s", "--precision", "0.1%"];
    let lm = Lm::new().work_with(crate::common::READ, &["mock", "mock:ns=1500,noise=0.3"]);
    // In units of 512 bytes for sh: 4 MiB.
    if let Some(lm) = lm.args(args).around("ulimit -f 8192", "") {
        let said = lm.run();
        assert!(
            matches!(said.code, Some(1 | 4)),
            "{:?}: {}",
            said.code,
            said.stderr
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
