//! What another user's plan or store reaches beyond the run's directory, and that nothing of it happens.

use std::{fs, os::unix::fs::chown};

use super::NOBODY;
use crate::common::{Lm, MOCK, history, needs_root};

/// A plan of these lines, which belongs to another user.
fn theirs(lines: &str) -> Lm {
    let lm = Lm::new().plan(&format!("name = 'theirs'\nblocks = 1\n{lines}"));
    chown(lm.dir.path().join("plan.toml"), Some(NOBODY), Some(NOBODY)).expect("chown");
    lm
}

/// One option each, and what the message names. None of the paths and addresses has to exist.
const REACHING: &[(&str, &str)] = &[
    (
        "layers = ['vm:kernel=/theirs']",
        "`vm: kernel = /theirs` (kernel)",
    ),
    ("layers = ['vm:root=host']", "`vm: root = host` (path)"),
    (
        "layers = ['vm:root=host,secrets=on']",
        "`vm: secrets = on` (secrets)",
    ),
    (
        "layers = ['vm:root=/theirs']",
        "`vm: root = /theirs` (path)",
    ),
    (
        "layers = ['container:crun,rootfs=/theirs']",
        "`container: rootfs = /theirs` (path)",
    ),
    (
        "layers = ['container:podman,image=x']",
        "`container: image = x` (path)",
    ),
    ("layers = ['container:docker']", "`container:docker` (path)"),
    ("layers = ['dir:/root/x']", "`dir:/root/x` (path)"),
    (
        "layers = ['dir:/srv,below=/root']",
        "`dir: below = /root` (path)",
    ),
    (
        "layers = ['command:/theirs.toml']",
        "`command:/theirs.toml` (program)",
    ),
    (
        "layers = ['ssh:box,config=/theirs']",
        "`ssh: config = /theirs` (program)",
    ),
    (
        "layers = ['ssh:box,identity=/theirs']",
        "`ssh: identity = /theirs` (secrets)",
    ),
    // The other places where a plan names layers.
    ("baseline = 'exec:touch ran'", "`exec:touch ran` (program)"),
    (
        "layers = ['native']\npower_cuts = { cuts = 2, records = 2, also = ['exec:touch ran'] }",
        "`exec:touch ran` (program)",
    ),
    (
        "layers = ['native']\npower_cuts = { cuts = 2, records = 2, programs = [{ name = 'x', run = 'touch ran', check = 'true' }] }",
        "`power_cuts.programs.run touch ran` (program)",
    ),
    (
        "layers = ['exec:touch ran..netns']",
        "`exec:touch ran` (program)",
    ),
];

/// The same for parameters of workloads.
const WORK: &[(&str, &str)] = &[
    (
        "workload = 'http'\nurl = 'http://127.0.0.1:2024/'",
        "`http: url = http://127.0.0.1:2024/` (network)",
    ),
    (
        "workload = 'launch'\ncommand = 'true'\nprepare = 'touch ran'",
        "`launch: prepare = touch ran` (program)",
    ),
    (
        "workload = 'launch'\ncommand = 'true'\nready = 'port=9'",
        "`launch: ready = port=9` (network)",
    ),
    (
        "workload = 'launch'\ncommand = 'true'\npackage = true\nadd = ['/root']",
        "`launch: add = /root` (path)",
    ),
    (
        "workload = 'launch'\ncommand = 'true'\nenv = ['TOKEN']",
        "`launch: env = TOKEN` (secrets)",
    ),
    (
        "workload = 'steps'\nrun = 'true'\ntree = '/root'",
        "`steps: tree = /root` (path)",
    ),
];

#[test]
fn what_another_users_plan_reaches_is_named_and_not_reached() {
    if !needs_root() {
        return;
    }
    let read = "[[work]]\nworkload = 'file'\nop = 'read'\n";
    let layers = REACHING
        .iter()
        .map(|(lines, says)| (format!("{lines}\n{read}"), says));
    let works = WORK
        .iter()
        .map(|(lines, says)| (format!("layers = ['native']\n[[work]]\n{lines}\n"), says));
    for (lines, says) in layers.chain(works) {
        let plan = theirs(&lines);
        let named = [
            "plan.toml can be changed by other users",
            says,
            "--allow-programs",
        ];
        let said = plan.env("TOKEN", "hush").run().fails(2, &named);
        assert!(!said.dir.path().join("ran").exists(), "{lines}");
        assert!(!said.stderr.contains("hush"), "{}", said.stderr);
        assert!(history(said.dir.path()).is_empty());
    }
}

/// Layers of flags are the user's own, and a plan of theirs that stays in the run's directory needs nothing.
#[test]
fn a_plan_that_stays_in_the_directory_needs_no_word() {
    if !needs_root() {
        return;
    }
    let work = "[[work]]\nworkload = 'file'\nop = 'read'\nrecord = '4K'\nfile_size = '64K'\n";
    let plan =
        format!("control = false\nlayers = ['mock', 'mock:ns=1500']\nbaseline = 'mock'\n{work}");
    theirs(&plan).run().code(4);
    let plan = format!("control = false\nlayers = ['dir:/root/x']\nbaseline = 'exec:true'\n{work}");
    let own: Vec<&str> = MOCK.iter().flat_map(|l| ["-l", l]).collect();
    theirs(&plan)
        .args(own)
        .args(["--baseline", MOCK[0]])
        .run()
        .code(4);
}

/// A store of theirs names the directory, too.
#[test]
fn the_directory_of_another_users_store_is_ours_or_named() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new().mock().run().code(4).then();
    chown(lm.store(), Some(NOBODY), Some(NOBODY)).expect("chown");
    let replay = ["run", "--replay", "last", "--store"];
    let there = Lm::new().args(replay).args([lm.store()]);
    let work = format!("`--dir {}` (path)", lm.work().display());
    there
        .run()
        .fails(2, &["in the store", &work, "--allow-programs"]);
    // Where the user is, it is the user's choice.
    let here = Lm::with(lm.dir.path()).args(replay);
    fs::copy(lm.store(), lm.dir.path().join("copy.db")).expect("a copy");
    chown(lm.dir.path().join("copy.db"), Some(NOBODY), Some(NOBODY)).expect("chown");
    here.args(["copy.db"]).run().code(4);
}

/// What such a plan reaches is not known. A moment later its owner could make the directory.
#[test]
fn a_plan_that_cannot_be_expanded_is_refused() {
    if !needs_root() {
        return;
    }
    let step = "layers = ['native']\n[[work]]\nworkload = 'steps'\nrun = 'touch ran'\ntree = '/nonexistent/tree'\n";
    let said = theirs(step).run().code(2).says("error: ");
    assert!(!said.dir.path().join("ran").exists());
    assert!(history(said.dir.path()).is_empty());
}
