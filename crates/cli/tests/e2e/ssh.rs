//! Directories of other machines, through a server of the test's own.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
};

use layermark_testkit::ssh::{HOST, LOCKED, STRANGER, SshServer};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{self, Lm, READ, machine, result, skipped, wait_for};

fn server() -> Option<SshServer> {
    let server = SshServer::start();
    if server.is_none() {
        skipped("not root, or openssh-server is not installed");
    }
    server
}

/// The layer below a host's name, with the test's work directory.
fn layer(lm: &Lm, server: &SshServer, host: &str) -> String {
    let (dir, config) = (lm.work(), server.config());
    format!("ssh:{host}:{},config={}", dir.display(), config.display())
}

#[test]
fn a_directory_of_a_machine_is_measured_over_one_connection() {
    let Some(server) = server() else { return };
    let lm = Lm::new();
    let place = layer(&lm, &server, HOST);
    let said = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "5", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    let row = result(&report, label, &place);
    assert!(row["value"].as_f64().is_some_and(|v| v > 0.0), "{row:#}");
    let layers = report["layers"].as_array().expect("layers");
    let layer = layers.iter().find(|l| l["name"] == *place);
    let facts = &layer.expect("the layer")["facts"];
    assert_eq!(facts["notes"]["host"], HOST, "{facts:#}");
    let version = facts["versions"]["ssh"].as_str();
    assert!(version.is_some_and(|v| v.contains("SSH")), "{facts:#}");
    assert!(facts["versions"]["kernel"].is_string(), "{facts:#}");
    assert!(facts["mounts"][0]["at"].is_string(), "{facts:#}");
    assert_eq!(server.logins(), 1, "{}", server.log());
    assert!(
        server.files("tmp").is_empty(),
        "the binary was left: {:?}",
        server.files("tmp")
    );
    assert!(server.files("cache").is_empty());
}

/// What this host cannot see is said.
#[test]
fn what_is_not_proved_of_another_machine_is_said() {
    let Some(server) = server() else { return };
    let lm = Lm::new();
    let place = layer(&lm, &server, HOST);
    let lm = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "3", "--json"]);
    // Processes of the server's sessions are not in this one's /proc, as those of another machine.
    let said = lm
        .wrapped(&["unshare", "--pid", "--fork", "--mount-proc"])
        .run();
    let report = said.code(0).left_nothing().json();
    let layers = report["layers"].as_array().expect("layers");
    let layer = layers.iter().find(|l| l["name"] == *place);
    let facts = &layer.expect("the layer")["facts"];
    let lost = facts["notes"]["not_proved"].as_str();
    assert!(
        lost.is_some_and(|l| l.contains("from this host")),
        "{facts:#}"
    );
    assert!(facts["guest"]["kernel"].is_string(), "{facts:#}");
}

/// With `keep=on` the binary is sent once, and known by its hash.
#[test]
fn a_kept_binary_is_not_sent_again() {
    let Some(server) = server() else { return };
    let run = || {
        let lm = Lm::new();
        let place = format!("{},keep=on", layer(&lm, &server, HOST));
        lm.work_with(READ, &["native", &place])
            .args(["--blocks", "2"])
            .run()
            .code(0)
            .left_nothing();
        let kept = server.files("cache/layermark");
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert!(server.files("tmp").is_empty());
        kept
    };
    assert_eq!(run(), run());
}

/// Nothing is asked, and a login that fails is not tried again.
#[test]
fn a_login_that_fails_is_told_with_a_hint() {
    let Some(server) = server() else { return };
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
    let closed = closed.expect("a free port").port();
    for (host, more, says) in [
        (
            STRANGER,
            String::new(),
            &["host key", "accept it once by hand: ssh -F"][..],
        ),
        (
            LOCKED,
            String::new(),
            &["Permission denied", "a run types no password"],
        ),
        (
            HOST,
            format!(",port={closed}"),
            &["Connection refused", "see what it does: ssh -F"],
        ),
    ] {
        let before = server.logins();
        let lm = Lm::new();
        let place = layer(&lm, &server, host) + &more;
        lm.work_with(READ, &["native", &place])
            .args(["--blocks", "2"])
            .run()
            .fails(3, says)
            .left_nothing();
        let tried = usize::from(host == LOCKED);
        // The server logs the end of a connection a moment later.
        wait_for("a log", || {
            (server.logins() == before + tried).then_some(())
        });
    }
}

#[test]
fn a_host_is_never_an_option_of_ssh() {
    let lm = Lm::new();
    let ran = lm.dir.path().join("ran");
    let hostile = [
        format!("ssh:-oProxyCommand=touch {}", ran.display()),
        format!("ssh:x$(touch {})", ran.display()),
        "ssh:-oProxyCommand=./x".into(),
        format!("ssh:-oProxyCommand=touch {}@box", ran.display()),
    ];
    for layer in &hostile {
        Lm::new()
            .work_with(READ, &["native", layer])
            .run()
            .fails(2, &["layermark layers ssh"]);
    }
    assert!(!ran.exists());
}

/// A plan of another user logs in nowhere with our keys.
#[test]
fn another_users_plan_connects_only_when_it_is_allowed() {
    if !common::needs_root() {
        return;
    }
    let lm = Lm::new().plan(
        "name = \"x\"\nlayers = [\"native\", \"ssh:box:/tmp\"]\nblocks = 2\n[[work]]\nworkload = \"file\"\nop = \"read\"\n",
    );
    let plan = lm.dir.path().join("plan.toml");
    std::os::unix::fs::chown(plan, Some(65534), Some(65534)).expect("chown");
    lm.run().fails(
        2,
        &[
            "can be changed by other users",
            "`ssh:box:/tmp` (network)",
            "--allow-programs",
        ],
    );
}

fn is_ssh(process: &machine::Proc) -> bool {
    let program = process.command.first();
    program.is_some_and(|program| program.ends_with("/ssh"))
}

/// A run with a probe at work there, and its processes, with that of ssh.
fn at_work(lm: Lm, server: &SshServer) -> (std::process::Child, common::Home, Vec<machine::Proc>) {
    let place = layer(&lm, server, HOST);
    let (child, home) = lm
        .work_with(READ, &["native", &place])
        .args(["--blocks", "1000"])
        .start();
    let seen = wait_for("trials", || {
        let tree = machine::tree(child.id());
        let up = tree.iter().any(is_ssh);
        (up && common::trials_stored(home.path()) > 0).then_some(tree)
    });
    (child, home, seen)
}

#[test]
fn nothing_is_left_there_when_layermark_is_killed() {
    let Some(server) = server() else { return };
    let (mut child, home, seen) = at_work(Lm::new(), &server);
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
    child.wait().expect("a child");
    let all: Vec<_> = seen.iter().map(|p| (p.pid, p.start)).collect();
    machine::nothing_left(home.path(), &all);
    wait_for("an empty directory", || {
        server.files("tmp").is_empty().then_some(())
    });
}

/// A connection that breaks in mid-run ends the layer, and not the run.
#[test]
fn a_connection_that_breaks_is_told() {
    let Some(server) = server() else { return };
    let (child, home, seen) = at_work(Lm::new(), &server);
    let ssh = seen.iter().find(|p| is_ssh(p)).expect("ssh");
    let pid = Pid::from_raw(ssh.pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
    let said = common::Said::from(common::output(child), home).left_nothing();
    assert!(said.stderr.contains("signal 9"), "{}", said.stderr);
    wait_for("an empty directory", || {
        server.files("tmp").is_empty().then_some(())
    });
}

/// A file of the user's that others can change is not given to ssh.
#[test]
fn a_configuration_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let Some(server) = server() else { return };
    fs::set_permissions(server.config(), fs::Permissions::from_mode(0o666)).expect("chmod");
    let lm = Lm::new();
    let place = layer(&lm, &server, HOST);
    lm.work_with(READ, &["native", &place])
        .args(["--blocks", "2"])
        .run()
        .code(3)
        .says("other users can change it")
        .left_nothing();
}
