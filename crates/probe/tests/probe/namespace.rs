//! A disk that fills up during a trial: a tmpfs of 1 MiB in a mount namespace of its own.

use std::process::Command;

use crate::common::{Lab, point};
use layermark_model::protocol::FromProbe;
use rustix::mount::{MountFlags, mount};
use serde_json::json;

/// Runs one ignored test of this file in a mount namespace of its own.
fn in_a_namespace(name: &str) {
    let name = format!("namespace::{name}");
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["-U", "-r"]);
    }
    let run = unshare
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture"])
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
fn a_full_disk_is_an_error_that_the_probe_survives() {
    in_a_namespace("full_disk_inside");
}

#[test]
fn residency_and_first_writes_are_right_on_an_overlay() {
    in_a_namespace("overlay_inside");
}

#[test]
#[ignore = "run by a test above in a mount namespace"]
fn full_disk_inside() {
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
    no_space(lab.go(), "/file-0");
    for engine in ["stdio", "preadv", "mmap"] {
        let p = json!({"op": "write", "file_size": "4M", "record": "64K", "engine": engine});
        let too_large = point("file", p);
        assert!(matches!(lab.prepare(&too_large), FromProbe::Ready { .. }));
        no_space(lab.go(), "/file-0");
    }
    no_space(
        lab.prepare(&point(
            "file",
            json!({"op": "rewrite", "file_size": "4M", "record": "64K"}),
        )),
        "/file-0",
    );
    let many = point(
        "meta",
        json!({"op": "small-write", "files": 200, "file_size": "16K"}),
    );
    assert!(matches!(lab.prepare(&many), FromProbe::Ready { .. }));
    no_space(lab.go(), "/d");
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

#[test]
#[ignore = "run by a test above in a mount namespace"]
fn overlay_inside() {
    let at = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sub = |name: &str| {
        let path = at.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (lower, upper, work, merged) = (sub("lower"), sub("upper"), sub("work"), sub("merged"));
    let p = point(
        "file",
        json!({"op": "first-write", "file_size": "1M", "sync": "fsync"}),
    );
    // The probe's directory lies where the overlay is mounted, and in the lower layer under the
    // same name: so its packaged files are lower files.
    let mut lab = Lab::in_dir(&merged);
    let name = lab.dir.path().file_name().unwrap().to_owned();
    let files = &p.needs.packaged;
    layermark_probe::packaged::write(&lower.join(&name).join("packaged"), files, 1, &|| true)
        .unwrap();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let options = std::ffi::CString::new(options).unwrap();
    if let Err(e) = mount(
        "overlay",
        &merged,
        "overlay",
        MountFlags::empty(),
        Some(options.as_c_str()),
    ) {
        panic!("no mount here: {e}");
    }
    let file = lab.packaged("first-1048576-0");
    assert_eq!(std::fs::read(&file).unwrap().len(), 1 << 20);
    assert_eq!(layermark_probe::resident::share(&file), Some(1.0));
    let copied = upper.join(&name).join("packaged/first-1048576-0");
    assert!(!copied.exists());
    let trial = lab.trial(&p);
    assert_eq!(
        (trial.ops(), trial.syncs, trial.resident),
        (1, 1, Some(1.0))
    );
    assert!(copied.exists(), "the first write copies the file up");
    lab.end();
    rustix::mount::unmount(&merged, rustix::mount::UnmountFlags::DETACH).unwrap();
}
