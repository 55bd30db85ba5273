//! Places behind a command of the user's; containers.rs has those that layermark starts.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Child,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    self, Home, Lm, READ, Said, machine, needs_root, output, result, skipped, wait_for,
};

/// What writes and flushes.
pub const WRITE: &[&str] = &[
    "file",
    "--op",
    "write",
    "--record",
    "4K",
    "--file-size",
    "64K",
    "--sync",
    "each",
];

/// Whether a program is installed; says so if not.
pub fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|dir| dir.join(program).is_file());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// A place with programs of this host, the work directory at `/data`, and nothing else of it.
fn bubble(work: &Path) -> String {
    let work = work.display();
    format!(
        "exec:bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
         --dev /dev --proc /proc --tmpfs /tmp --bind {work} /data --unshare-all --die-with-parent,dir=/data"
    )
}

/// The place does not see the binary, so it is brought there, and nothing of it is left.
#[test]
fn a_place_without_layermark_gets_it_and_keeps_nothing() {
    if !needs_root() || !has("bwrap") {
        return;
    }
    let lm = Lm::new();
    let place = bubble(&lm.work());
    let said = lm
        .work_with(WRITE, &["native", &place])
        .args(["--blocks", "9", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    let row = result(&report, label, &place);
    assert!(row["value"].as_f64().is_some_and(|v| v > 0.0), "{row:#}");
    let layers = report["layers"].as_array().expect("layers");
    let facts = &layers
        .iter()
        .find(|l| l["name"] == *place)
        .expect("the place")["facts"];
    assert_eq!(
        facts["notes"]["kernel"], "shared with this host",
        "{facts:#}"
    );
    assert_eq!(facts["mounts"][0]["at"], "/data", "{facts:#}");
    // Counted from here: the place does not see its devices.
    let device = facts["devices"][0]["number"].as_str();
    let native = &layers[0]["facts"]["devices"][0]["number"];
    assert_eq!(device, native.as_str(), "{facts:#}");
    let [inside, outside] = [row, result(&report, label, "native")].map(|r| &r["durability"]);
    assert_eq!(
        inside["verdict"], outside["verdict"],
        "{inside:#} {outside:#}"
    );
    assert_ne!(inside["flushes"], 0, "{inside:#}");
}

/// A command that never starts the probe is given up, with the reason and a command to try.
#[test]
fn a_command_that_leads_nowhere_is_told_with_what_it_said() {
    if !needs_root() {
        return;
    }
    let silent = "exec:sh -c 'exec sleep 1000'";
    for (place, says) in [
        (
            "exec:false",
            &[
                "ended before the probe spoke (exit code 1)",
                "see what it does: false true",
            ][..],
        ),
        (
            "exec:sh -c 'echo Enter your password: >&2; exit 1'",
            &[
                "Enter your password:",
                "types no password",
                "a key or an agent",
            ],
        ),
        (
            "exec:sh -c 'test ! -t 0 && test ! -e /dev/tty/x; cat >&2 /dev/tty; exit 7'",
            &["exit code 7", "/dev/tty"],
        ),
        (silent, &["did not start the probe within 10s"]),
        (
            "exec:nonesuch-command -i x",
            &["needs nonesuch-command", "write its absolute path"],
        ),
        (
            "exec:env,dir=/nonexistent",
            &["cannot work in /nonexistent: it does not exist"],
        ),
    ] {
        Lm::new()
            .work_with(READ, &["native", place])
            .args(["--blocks", "2", "--silence", "10s"])
            .run()
            .fails(3, says)
            .left_nothing();
    }
}

/// A terminal between both ends would change what they send.
#[test]
fn a_command_with_a_terminal_is_refused() {
    if !needs_root() || !has("script") {
        return;
    }
    let lm = Lm::new();
    // Runs its arguments in a terminal.
    let script = lm.dir.path().join("in-a-terminal");
    fs::write(&script, "#!/bin/sh\nexec script -qec \"$*\" /dev/null\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a program");
    let place = format!("exec:{}", script.display());
    lm.work_with(READ, &["native", &place])
        .args(["--blocks", "2"])
        .run()
        .fails(3, &["gives the probe a terminal", "leave out"])
        .left_nothing();
}

#[test]
fn a_place_is_no_end_of_a_path() {
    if !needs_root() {
        return;
    }
    Lm::new()
        .args(["net", "-l", "exec:env", "--blocks", "2"])
        .run()
        .fails(2, &["cannot be an end of a path"]);
}

/// A layer's command is a program of the plan.
#[test]
fn a_command_in_another_users_plan_runs_only_when_it_is_allowed() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let ran = lm.dir.path().join("ran");
    let layer = format!("exec:touch {}", ran.display());
    let plan = format!(
        "name = \"x\"\nlayers = [\"native\", \"{layer}\"]\nblocks = 2\n[[work]]\nworkload = \"file\"\nop = \"read\"\n"
    );
    let lm = lm.plan(&plan);
    chown(lm.dir.path().join("plan.toml"), Some(65534), Some(65534)).expect("chown");
    let said = lm.run().fails(
        2,
        &["can be changed by other users", "touch", "--allow-programs"],
    );
    assert!(!ran.exists());
    drop(said);
}

/// A file that describes a place.
fn described(lm: &Lm, text: &str) -> String {
    let file = lm.dir.path().join("place.toml");
    fs::write(&file, text).expect("a file");
    format!("command:{}", file.display())
}

/// Ten lines make a place that is measured, and what they say of it is in the report.
#[test]
fn ten_lines_make_a_place() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let gone = lm.dir.path().join("gone");
    let text = format!(
        "setup = [\"mkdir\", \"{{dir}}/tmp\"]\n\
         root = \"{{dir}}\"\n\
         enter = [\"chroot\", \"{{dir}}\"]\n\
         facts = [\"echo\", \"kind = a root of its own\"]\n\
         drop_caches = [\"true\"]\n\
         teardown = [\"touch\", \"{}\"]\n",
        gone.display()
    );
    let place = described(&lm, &text);
    let said = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "3", "--json"])
        .run()
        .code(0)
        .left_nothing();
    assert!(gone.exists(), "teardown has not run");
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    let row = result(&report, label, &place);
    assert!(row["value"].as_f64().is_some_and(|v| v > 0.0), "{row:#}");
    let layers = report["layers"].as_array().expect("layers");
    let layer = layers.iter().find(|l| l["name"] == *place);
    let notes = &layer.expect("the place")["facts"]["notes"];
    assert_eq!(notes["place.kind"], "a root of its own", "{notes:#}");
    assert_eq!(notes["kernel"], "shared with this host", "{notes:#}");
}

/// Lines before the probe's are skipped, without `copy` the binary is sent, and a shell reads what says so.
#[test]
fn a_place_may_print_a_banner_first() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let text = "shell = true\nenter = [\"echo welcome; printf 'no end of line'; exec chroot /\"]\n";
    let place = described(&lm, text);
    lm.work_with(READ, &["native", &place])
        .args(["--blocks", "2"])
        .run()
        .code(0)
        .left_nothing();
}

/// An `enter` that leads nowhere, and a `setup` that fails: `teardown` runs all the same.
#[test]
fn a_place_that_fails_is_torn_down() {
    if !needs_root() {
        return;
    }
    for (text, says) in [
        ("enter = [\"false\"]", "ended before the probe spoke"),
        (
            "setup = [\"false\"]\nenter = [\"env\"]",
            "false failed (exit code 1)",
        ),
    ] {
        let lm = Lm::new();
        let gone = lm.dir.path().join("gone");
        let text = format!("{text}\nteardown = [\"touch\", \"{}\"]\n", gone.display());
        let place = described(&lm, &text);
        let said = lm
            .work_with(READ, &["native", &place])
            .args(["--blocks", "2"])
            .run();
        let said = said.fails(3, &[says]).left_nothing();
        assert!(gone.exists(), "{text}: {}", said.stderr);
    }
}

/// Wrong files end the run before it begins.
#[test]
fn a_file_that_is_not_a_place_is_refused() {
    for (text, says) in [
        ("setup = [\"true\"]", "missing field `enter`"),
        (
            "enter = [\"env\"]\nentre = [\"x\"]",
            "unknown field `entre`",
        ),
    ] {
        let lm = Lm::new();
        let place = described(&lm, text);
        lm.work_with(READ, &["native", &place])
            .run()
            .fails(2, &[says, "layermark layers command"]);
    }
    Lm::new()
        .work_with(READ, &["native", "command:/nonexistent.toml"])
        .run()
        .fails(2, &["cannot be read", "layermark layers command"]);
}

/// A program of the test's own.
fn program(lm: &Lm, name: &str, text: &str) -> String {
    let file = lm.dir.path().join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
    file.display().to_string()
}

/// Only a place that was entered and lacks the binary is entered a second time.
#[test]
fn a_command_that_fails_is_started_once() {
    if !needs_root() {
        return;
    }
    for (text, code, times) in [
        ("exit 255", "exit code 255", 1),
        ("exit 1", "exit code 1", 1),
        (
            "echo 'Host key verification failed.' >&2; exit 255",
            "accept it once by hand",
            1,
        ),
        ("exit 127", "exit code 127", 2),
    ] {
        let lm = Lm::new();
        let ran = lm.dir.path().join("ran");
        let text = format!("echo x >>{}; {text}", ran.display());
        let place = format!("exec:{}", program(&lm, "enter", &text));
        let _home = lm
            .work_with(READ, &["native", &place])
            .args(["--blocks", "2"])
            .run()
            .fails(3, &[code])
            .left_nothing();
        let lines = fs::read_to_string(&ran).expect("it ran");
        assert_eq!(lines.lines().count(), times, "{text}");
    }
}

/// The binary that root runs is never in a directory where others could have made it before.
#[test]
fn a_binary_that_others_could_exchange_is_not_run() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let ran = lm.dir.path().join("ran");
    // What an attacker makes of it, who reads its name in the list of processes.
    let copy = program(
        &lm,
        "copy",
        &format!(
            "printf '#!/bin/sh\ntouch {}\n' >\"$1\"; chmod 777 \"$1\"",
            ran.display()
        ),
    );
    let text = format!("copy = [\"{copy}\", \"/tmp/{{run}}\"]\nenter = [\"env\"]\n");
    let place = described(&lm, &text);
    let said = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "2"])
        .run()
        .fails(2, &["`copy` is not run", "sent through `enter`", "root = "])
        .left_nothing();
    assert!(!said.dir.path().join("ran").exists());
}

/// Another binary, behind the words of the right one.
#[test]
fn a_program_that_claims_the_hash_is_not_believed() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let other = lm.dir.path().join("other");
    let enter = program(
        &lm,
        "enter",
        &format!(
            "[ \"$2\" = place ] || exit 1\n\
             \"$@\" </dev/null | grep '^layermark place'\n\
             cp \"$1\" {other}; echo >>{other}\n\
             {other} place \"$3\" | (read empty; read hello; exec cat)",
            other = other.display()
        ),
    );
    let place = format!("exec:{enter}");
    lm.work_with(READ, &["native", &place])
        .args(["--blocks", "2"])
        .run()
        .fails(3, &["the layermark there is not this one"])
        .left_nothing();
}

/// Another user's process with the agent's arguments and a lower number. It is in a user namespace, which would be in
/// the facts.
#[test]
fn another_users_process_is_not_taken_for_the_agent() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new().file("place", "read wait <wait\n");
    let dir = lm.dir.path().display();
    let enter = program(
        &lm,
        "enter",
        &format!(
            "cd {dir} && {{ [ -e wait ] || mkfifo -m 666 wait; }} && chmod 755 .\n\
             setpriv --reuid=65534 --regid=65534 --clear-groups unshare -U sh place \"$3\" 3<>wait >twin 2>&1 &\n\
             until tr '\\0' ' ' </proc/$!/cmdline | grep -q '^sh place'; do sleep 0.01; done\n\
             cd /; \"$@\"; code=$?; kill $!; exit $code"
        ),
    );
    let place = format!("exec:{enter}");
    let said = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "2", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let layers = report["layers"].as_array().expect("layers");
    let layer = layers.iter().find(|l| l["name"] == *place);
    let notes = &layer.expect("the place")["facts"]["notes"];
    assert_eq!(notes["kernel"], "shared with this host", "{notes:#}");
    assert_eq!(notes["user_namespace"], "none", "{notes:#}");
}

/// Commands know where the configuration of their programs is, and nothing else of the user's environment.
#[test]
fn a_command_gets_the_variables_of_its_program_only() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let seen = lm.dir.path().join("seen");
    let enter = program(
        &lm,
        "enter",
        &format!("env >{}; exec \"$@\"", seen.display()),
    );
    let place = format!("exec:{enter}");
    let _home = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "2"])
        .env("VAGRANT_HOME", "/v")
        .env("LIMA_HOME", "/l")
        .env("LXD_DIR", "/x")
        .env("SLURM_JOB_ID", "7")
        .env("SECRET_TOKEN", "hush")
        .env("LD_LIBRARY_PATH", "/nonexistent")
        .run()
        .code(0)
        .left_nothing();
    let seen = fs::read_to_string(seen).expect("it ran");
    for has in [
        "VAGRANT_HOME=/v",
        "LIMA_HOME=/l",
        "LXD_DIR=/x",
        "SLURM_JOB_ID=7",
    ] {
        assert!(seen.lines().any(|line| line == has), "{has}: {seen}");
    }
    assert!(
        !seen.contains("SECRET") && !seen.contains("LD_LIBRARY"),
        "{seen}"
    );
}

/// A place that is entered and at work: the run, its processes, and the process of `enter`.
pub fn at_work(lm: Lm, place: &str) -> (Child, Home, Vec<machine::Proc>) {
    let (child, home) = lm
        .work_with(READ, &["native", place])
        .args(["--blocks", "1000"])
        .start();
    let seen = wait_for("trials", || {
        let tree = machine::tree(child.id());
        (common::trials_stored(home.path()) > 0).then_some(tree)
    });
    (child, home, seen)
}

/// Ends a process as a lack of memory does.
pub fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
}

/// `teardown` runs and nothing is left when layermark is killed.
#[test]
fn a_place_is_torn_down_when_layermark_is_killed() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let [made, gone] = ["made", "gone"].map(|name| lm.dir.path().join(name));
    let text = format!(
        "setup = [\"mkdir\", \"{made}\"]\nenter = [\"env\"]\nteardown = [\"mv\", \"{made}\", \"{gone}\"]\n",
        made = made.display(),
        gone = gone.display()
    );
    let place = format!("{},dir={}", described(&lm, &text), lm.work().display());
    let (mut child, home, seen) = at_work(lm, &place);
    kill(child.id());
    child.wait().expect("a child");
    wait_for("the teardown", || gone.exists().then_some(()));
    let all: Vec<_> = seen.iter().map(|p| (p.pid, p.start)).collect();
    machine::nothing_left(home.path(), &all);
    assert!(!made.exists());
}

/// The agent is killed: the layer drops out with what the command said, and the place is torn down.
#[test]
fn a_place_whose_agent_dies_in_mid_run_is_told() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let gone = lm.dir.path().join("gone");
    // The shell stays the parent of what it runs.
    let enter = program(&lm, "enter-here", "\"$@\"; exit $?");
    let text = format!(
        "enter = [\"{enter}\"]\nteardown = [\"touch\", \"{}\"]\n",
        gone.display()
    );
    let place = format!("{},dir={}", described(&lm, &text), lm.dir.path().display());
    let (child, home, seen) = at_work(lm, &place);
    let is_agent = |p: &&machine::Proc| p.command.get(1).is_some_and(|word| word == "place");
    kill(seen.iter().find(is_agent).expect("the agent").pid);
    let said = Said::from(output(child), home);
    assert!(said.stderr.contains("exit code 137"), "{}", said.stderr);
    assert!(gone.exists(), "teardown has not run");
    said.left_nothing();
}

/// Noise between the probe's lines, from an `enter` that merges standard error: an error, and no number.
#[test]
fn noise_in_the_probes_output_is_an_error() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    // The first noise comes once the agent has spoken: the shell reads what passes.
    let enter = program(
        &lm,
        "enter",
        "\"$@\" | { sed -u '/^layermark place /q'; echo noise; cat; }",
    );
    let place = format!("exec:{enter},dir={}", lm.work().display());
    let said = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "2", "--silence", "10s"])
        .run();
    let said = said.code(3).left_nothing();
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
    assert!(said.stderr.contains("could not"), "{}", said.stderr);
}
