//! A disk that fills up during a trial: a tmpfs of 1 MiB in a mount namespace of its own.

mod common;

use std::process::Command;

use common::{Lab, point};
use layermark_model::protocol::FromProbe;
use rustix::mount::{MountFlags, mount};
use serde_json::json;

#[test]
fn a_full_disk_is_an_error_that_the_probe_survives() {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["-U", "-r"]);
    }
    let run = unshare
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inside_a_namespace", "--ignored", "--nocapture"])
        .output();
    let output = match run {
        Ok(output) => output,
        Err(e) => return eprintln!("skipped: unshare: {e}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if text.contains("unshare failed") || text.contains("no mount here") {
        return eprintln!("skipped: no mount namespace here: {text}");
    }
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "run by the test above in a mount namespace"]
fn inside_a_namespace() {
    let at = tempfile::tempdir().unwrap();
    if let Err(e) = mount(
        "tmpfs",
        at.path(),
        "tmpfs",
        MountFlags::empty(),
        Some(c"size=1m"),
    ) {
        panic!("no mount here: {e}");
    }
    let mut lab = Lab::in_dir(at.path());
    let too_large = point(
        "file",
        json!({"op": "write", "file_size": "4M", "record": "64K"}),
    );
    assert!(matches!(lab.prepare(&too_large), FromProbe::Ready { .. }));
    no_space(lab.go(), "work/file-0");
    no_space(
        lab.prepare(&point(
            "file",
            json!({"op": "rewrite", "file_size": "4M", "record": "64K"}),
        )),
        "work/file-0",
    );
    let many = point(
        "meta",
        json!({"op": "small-write", "files": 200, "file_size": "16K"}),
    );
    assert!(matches!(lab.prepare(&many), FromProbe::Ready { .. }));
    no_space(lab.go(), "work/d");
    let fits = point(
        "file",
        json!({"op": "write", "file_size": "256K", "record": "64K"}),
    );
    assert!(lab.trial(&fits).ops() >= 4);
    lab.end();
    // The namespace takes the mount with it; until then the directory below is not empty.
    rustix::mount::unmount(at.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
}

fn no_space(event: FromProbe, path: &str) {
    match event {
        FromProbe::Error {
            message,
            hint,
            errno,
            ..
        } => {
            assert_eq!(errno, Some(28), "{message}");
            assert!(message.contains(path) && hint.is_some(), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
