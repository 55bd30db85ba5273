//! `layermark record --pid`: a program that runs already is recorded, and goes on.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use layermark_recording::{CallKind, Recording};

use crate::common::Lm;

/// A program that is killed at the end of the test.
struct Program(Child);

impl Program {
    /// A shell that prints a line when it has begun.
    fn start(dir: &Path, script: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(dir).process_group(0);
        let mut child = shell.stdout(Stdio::piped()).spawn().expect("sh");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "begun\n");
        Self(child)
    }

    /// The letter of its state.
    fn state(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        let (_, rest) = stat.rsplit_once(") ").expect("a state");
        rest[..1].to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.0.id())])
            .status();
        let _ = self.0.wait();
    }
}

/// It writes through a descriptor that it has had before, from a child process too.
const WORKS: &str = "exec 3>>log 4<in; read -r first <&4; echo begun
    while :; do echo line >&3; (mkdir -p d; cat in >d/copy; rm -r d); done";

#[test]
fn a_program_that_runs_is_recorded_and_goes_on() {
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    let tree = dir.join("tree");
    fs::create_dir(&tree).expect("a directory");
    fs::write(tree.join("in"), "first\nsecond\n").expect("a file");
    let program = Program::start(&tree, WORKS);
    let pid = program.0.id().to_string();
    let said = lm
        .args(["record", "--pid", &pid, "--for", "1s", "-o", "app.lmrec"])
        .run()
        .code(0)
        .prints(" files of the tree open, which a replay opens first");
    assert_ne!(program.state(), "T", "it goes on");
    let packed = fs::read(dir.join("app.lmrec")).expect("a recording");
    let it = Recording::unpack(packed.as_slice()).expect("a recording");
    let kinds = |kind| it.calls.iter().filter(|call| call.kind == kind).count();
    assert!(
        kinds(CallKind::Write) > 0 && kinds(CallKind::Mkdir) > 0,
        "{:?}",
        it.calls
    );
    assert!(it.head.think_ns.is_none());
    // The replay opens what was open, and every call ends as it did.
    said.then()
        .work_with(
            &["replay", "app.lmrec", "--blocks", "1", "--json"],
            &["tmpfs"],
        )
        .run()
        .code(0);
}

#[test]
fn what_cannot_be_attached_to_is_refused() {
    for pid in [std::process::id(), 1, 4_000_000] {
        let said = Lm::new()
            .args(["record", "--pid", &pid.to_string()])
            .run()
            .code(2);
        assert!(
            said.stderr.contains(&format!("process {pid}: ")),
            "{}",
            said.stderr
        );
    }
    Lm::new()
        .args(["record", "--pid", "1", "--", "true"])
        .run()
        .code(2);
    Lm::new()
        .args(["record", "--for", "1s", "--", "true"])
        .run()
        .code(2);
}
