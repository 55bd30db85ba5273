//! `scripts/setup.sh` with an `apt-get` of the test's, which tells what it saw; `make run`; and what `.ci/run` compiles with.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::common::{binary, disk_dir, is_root, root, skipped, wait_for};
use rustix::process::{Pid, Signal, kill_process_group};

/// What may not be on a user's machine afterwards, and what only the installation may see replaced.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const STARTER: &str = "/usr/sbin/invoke-rc.d";

/// Starts the script with nothing in its `PATH` but an `apt-get` that runs `apt`, in a group of its own.
fn setup(dir: &Path, apt: &str) -> Child {
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    for name in [
        "sh", "cat", "env", "id", "mktemp", "rm", "grep", "mount", "unshare", "true", "sleep",
    ] {
        let found = ["/usr/bin", "/bin"].map(|at| Path::new(at).join(name));
        let program = found.iter().find(|p| p.exists()).expect(name);
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    // Rust is there, and nothing else.
    for (name, text) in [("cargo", "exit 0"), ("apt-get", apt)] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    Command::new("/bin/sh")
        .arg(root().join("scripts/setup.sh"))
        .arg("run")
        .env_clear()
        .env("PATH", &bin)
        .env("SAW", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn can_run() -> bool {
    if !is_root() {
        skipped("only root installs packages");
        return false;
    }
    if !Path::new(STARTER).exists() || !Path::new("/usr/bin/mount").exists() {
        skipped("this machine has no invoke-rc.d: apt-get install init-system-helpers mount");
        return false;
    }
    true
}

#[test]
fn one_call_installs_everything_and_its_noise_is_kept() {
    if !can_run() {
        return;
    }
    let dir = disk_dir();
    let apt = "echo \"$@\" >>\"$SAW/calls\"; echo noise; echo 'debconf: noise' >&2";
    let said = setup(dir.path(), apt).wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{stderr}");
    assert!(
        !stderr.contains("noise") && said.stdout.is_empty(),
        "{stderr}"
    );
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let installs: Vec<&str> = calls.lines().filter(|c| c.starts_with("install")).collect();
    assert_eq!(installs.len(), 1, "{calls}");
    assert!(
        installs[0].contains("squashfs-tools") && installs[0].contains("gcc"),
        "{calls}"
    );
}

#[test]
fn a_package_that_cannot_be_had_keeps_no_other_away() {
    if !can_run() {
        return;
    }
    let dir = disk_dir();
    // `install` of several, and of one of them, fails.
    let apt = "echo \"$@\" >>\"$SAW/calls\"
        case \"$*\" in *squashfuse*) echo 'E: no squashfuse'; exit 100;; esac";
    let said = setup(dir.path(), apt).wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{stderr}");
    assert!(
        stderr.contains("squashfuse could not be installed"),
        "{stderr}"
    );
    assert!(
        stderr.contains("E: no squashfuse"),
        "what apt-get said is shown: {stderr}"
    );
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    assert!(
        calls
            .lines()
            .any(|c| c.ends_with("-recommends squashfs-tools")),
        "{calls}"
    );
}

#[test]
fn killed_it_leaves_nothing() {
    if !can_run() {
        return;
    }
    let dir = disk_dir();
    let before = (
        Path::new(POLICY).exists(),
        fs::read(STARTER).unwrap(),
        mounts(),
    );
    let apt = format!(
        "case \"$1\" in install) cat {STARTER} >\"$SAW/seen\"; echo >\"$SAW/now\"; sleep 60;; esac"
    );
    let mut child = setup(dir.path(), &apt);
    let group = Pid::from_child(&child);
    wait_for("apt-get to install", || {
        dir.path().join("now").exists().then_some(())
    });
    let seen = fs::read(dir.path().join("seen")).unwrap();
    assert_eq!(
        seen,
        fs::read("/bin/true").unwrap(),
        "what starts servers is replaced there"
    );
    kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    let after = (
        Path::new(POLICY).exists(),
        fs::read(STARTER).unwrap(),
        mounts(),
    );
    assert!(
        before == after,
        "left behind: {:?} before, {:?} after",
        before.2,
        after.2
    );
}

/// `make run` with the binary under test and two layers, in the checkout. It installs nothing on this machine.
fn make_run(dir: &Path) -> std::process::Output {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let apt = bin.join("apt-get");
    fs::write(&apt, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&apt, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("make")
        .env("PATH", format!("{}:{path}", bin.display()))
        .arg("--no-print-directory")
        .arg("-C")
        .arg(root())
        .args(["run", "ARGS=-l tmpfs --blocks 2 --scale 0.1 --no-control"])
        .arg(format!("BIN={}", binary().display()))
        .arg(format!("RUN_DIR={}", dir.display()))
        .arg(format!("REPORT={}", dir.join("report.html").display()))
        .env("XDG_DATA_HOME", dir)
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap()
}

#[test]
fn make_run_leaves_a_page_and_no_file_of_yours_is_replaced() {
    if !root().join("Makefile").exists() {
        return skipped("there is no Makefile beside a copy of the tests");
    }
    let dir = disk_dir();
    let page = dir.path().join("report.html");
    for time in ["first", "second"] {
        let said = make_run(dir.path());
        let stderr = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{time}: {stderr}");
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>"), "{time}: {text:.80}");
    }
    fs::remove_file(&page).unwrap();
    fs::write(dir.path().join("mine"), "mine").unwrap();
    std::os::unix::fs::symlink("mine", &page).unwrap();
    let said = make_run(dir.path());
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success(), "{stderr}");
    assert!(stderr.contains("this is a symbolic link"), "{stderr}");
    assert_eq!(fs::read(dir.path().join("mine")).unwrap(), b"mine");
}

/// Mounts of this process's namespace that have to do with the starters.
fn mounts() -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = all
        .lines()
        .filter(|line| line.contains("invoke") || line.contains("createcluster"));
    ours.map(str::to_owned).collect()
}

/// Clippy's warnings are errors there, of this workspace alone, and the compiler's files are as it made them.
#[test]
fn what_ci_compiles_is_looked_at_by_clippy() {
    if !root().join("scripts").exists() || Command::new("clippy-driver").arg("-V").output().is_err()
    {
        return skipped("no scripts, or no clippy; hint: rustup component add clippy");
    }
    let dir = disk_dir();
    let compile = |text: &str, of: &Path| {
        let source = dir.path().join("of_test.rs");
        fs::write(&source, text).unwrap();
        let args = [
            "--crate-type=lib",
            "--emit=dep-info,metadata,link",
            "--out-dir",
        ];
        let said = Command::new(root().join("scripts/clippy-too.sh"))
            .args(["rustc", "--edition=2024"])
            .args(args)
            .args([dir.path(), &source])
            .env("CARGO_PRIMARY_PACKAGE", "1")
            .env("CARGO_MANIFEST_DIR", of)
            .output()
            .unwrap();
        assert!(fs::remove_file(dir.path().join("libof_test.rlib")).is_ok());
        (
            said.status.success(),
            String::from_utf8(said.stderr).unwrap(),
        )
    };
    let (good, bad) = (
        "pub fn five() -> u8 {\n    5\n}\n",
        "pub fn five() -> u8 {\n    return 5;\n}\n",
    );
    let own = root().join("crates/cli");
    assert_eq!(compile(good, &own), (true, String::new()));
    let (passes, said) = compile(bad, &own);
    assert!(!passes && said.contains("needless_return"), "{said}");
    assert_eq!(compile(bad, dir.path()), (true, String::new()));
    // By a link.
    let link = dir.path().join("link");
    symlink(root(), &link).unwrap();
    assert!(!compile(bad, &link.join("crates/cli")).0);
}
