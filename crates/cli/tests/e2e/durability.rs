//! What is said of flushes while another program flushes the same disk.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::common::{Lm, disk_dir, needs_root, skipped};

/// Runs `work` while another thread flushes a file on the same disk, for so long at most.
fn beside_flushes<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    let (dir, over) = (disk_dir(), AtomicBool::new(false));
    let file = File::create(dir.path().join("log")).expect("a file");
    thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while !over.load(Ordering::Relaxed) && begun.elapsed() < limit {
                file.write_all_at(&[b'a'; 4096], 0).expect("written");
                file.sync_all().expect("flushed");
            }
        });
        let made = work();
        over.store(true, Ordering::Relaxed);
        made
    })
}

/// The reproduction: native and both layers were "absorbed", with exit code 0, because the other program
/// had flushed while the session began.
fn measured(layers: &[&str]) -> Value {
    let args = [
        "file",
        "--op",
        "write",
        "--sync",
        "fsync",
        "--record",
        "1M",
        "--file-size",
        "16M",
        "--scale",
        "0.25",
    ];
    let said = Lm::new()
        .work_with(&args, layers)
        .args(["--sessions", "1", "--blocks", "8", "--json"])
        .run();
    said.json()
}

fn verdicts(report: &Value) -> Vec<(String, String)> {
    let rows = report["results"].as_array().expect("results");
    assert!(rows.len() > 1, "{report:#}");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    rows.iter()
        .map(|r| (text(&r["layer"]), text(&r["durability"]["verdict"])))
        .collect()
}

#[test]
fn honest_layers_skip_no_fsync_while_another_program_flushes() {
    if !needs_root() {
        return;
    }
    for limit in [Duration::from_millis(1600), Duration::from_mins(9)] {
        let report = beside_flushes(limit, || measured(&["fuse", "overlay:upper"]));
        for (layer, verdict) in verdicts(&report) {
            assert_ne!(verdict, "absorbed", "{layer}: {report:#}");
        }
        let said = format!("{} {}", report["headline"], report["advice"]);
        assert!(
            !said.contains("skip") && !said.contains("power cut"),
            "{said}"
        );
    }
}

#[test]
fn a_liar_is_never_called_honest_whoever_flushes() {
    if !needs_root() {
        return;
    }
    for limit in [Duration::ZERO, Duration::from_mins(9)] {
        let report = beside_flushes(limit, || measured(&["overlay:volatile"]));
        let found = verdicts(&report);
        let liar = found.iter().find(|(layer, _)| layer == "overlay:volatile");
        assert_ne!(liar.expect("measured").1, "honoured", "{report:#}");
    }
}

/// Names of the disks below each layer, in their order.
fn disks(report: &Value) -> Vec<Vec<String>> {
    let layers = report["layers"].as_array().expect("layers");
    let of = |layer: &Value| {
        let devices = layer["facts"]["devices"].as_array().expect("devices");
        let disks = devices.iter().filter(|d| d["physical"] == true);
        disks.map(|d| d["name"].to_string()).collect()
    };
    layers.iter().map(of).collect()
}

/// What podman hides of a container.
#[test]
fn the_disk_is_found_where_sys_dev_is_hidden() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new().measure(&["overlay:upper"]).args(["--json"]);
    let Some(lm) = lm.around("mount -t tmpfs none /sys/dev", "") else {
        return;
    };
    let report = lm.run().json();
    let found = disks(&report);
    assert!(!found[0].is_empty() && found[0] == found[1], "{found:?}");
}

#[test]
fn a_fuse_mount_of_a_directory_has_the_disk_of_that_directory() {
    if !needs_root() || !program("bindfs") {
        return;
    }
    let lm = Lm::new();
    let mount = lm.dir.path().join("work/shown");
    let layer = format!("dir:{}", mount.display());
    let before = r#"mkdir "$W/kept" "$W/shown" && bindfs "$W/kept" "$W/shown""#;
    let lm = lm.measure(&[&layer]).args(["--json"]);
    let Some(lm) = lm.around(before, r#"umount "$W/shown""#) else {
        return;
    };
    let report = lm.run().json();
    let found = disks(&report);
    assert!(!found[0].is_empty() && found[0] == found[1], "{found:?}");
}

/// Whether it is installed.
fn program(name: &str) -> bool {
    let there = std::process::Command::new(name).arg("--version").output();
    let there = there.is_ok_and(|said| said.status.success());
    if !there {
        skipped(&format!("{name} is not installed"));
    }
    there
}
