//! Layers that programs of others serve in user space: what they are, and what goes wrong with them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    common::{Lm, Said, machine, needs_root, output, result, skipped, trials_stored, wait_for},
    places::{WRITE, has},
};

const LAYERS: [(&str, &str, &str); 4] = [
    ("fuse:bindfs", "fuse", "bindfs"),
    ("fuse:gocryptfs", "fuse.gocryptfs", "gocryptfs"),
    ("overlay:fuse", "fuse.fuse-overlayfs", "fuse-overlayfs"),
    ("sshfs", "fuse.sshfs", "sshfs"),
];

/// Whether root can set all of them up.
fn can_be_served() -> bool {
    if !needs_root() {
        return false;
    }
    let json = Lm::new().args(["layers", "--json"]).run().code(0).json();
    let layers = json["layers"].as_array().expect("layers").iter();
    let mut specs = layers.flat_map(|l| l["specs"].as_array().expect("specs"));
    let lacking = specs.find(|s| {
        let spec = s["spec"].as_str().unwrap_or_default();
        LAYERS.iter().any(|(layer, ..)| *layer == spec) && s["ready"] == false
    });
    if let Some(spec) = lacking {
        skipped(&format!("{}: {}", spec["spec"], spec["missing"]));
    }
    lacking.is_none()
}

fn rows<'a>(report: &'a Value, layer: &str) -> Vec<&'a Value> {
    let rows = report["results"].as_array().expect("results").iter();
    rows.filter(|row| row["layer"] == layer).collect()
}

/// Each is mounted by its program, and its flushes are counted at the disk below. `O_DIRECT` is dropped by all,
/// so reads come from this host's memory, and the report says that the figure is not what it claims.
#[test]
fn each_is_proved_and_a_dropped_o_direct_is_told() {
    if !can_be_served() {
        return;
    }
    let plan = "name = \"served\"\nblocks = 2\nsessions = 1\ncontrol = false\n\
        layers = [\"fuse:bindfs\", \"fuse:gocryptfs\", \"overlay:fuse\", \"sshfs\"]\n\
        [[work]]\nlabel = \"direct\"\nworkload = \"file\"\nop = \"rand-read\"\nrecord = \"4K\"\n\
        file_size = \"1M\"\ndirect = true\n\
        [[work]]\nlabel = \"synced\"\nworkload = \"file\"\nop = \"write\"\nrecord = \"4K\"\n\
        file_size = \"64K\"\nsync = \"each\"\n";
    let said = Lm::new().plan(plan).args(["--json"]).run().left_nothing();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    let layers = report["layers"].as_array().expect("layers");
    let device = &layers[0]["facts"]["devices"][0]["number"];
    let mut found = 0;
    for (spec, fs, program) in LAYERS {
        let layer = layers.iter().find(|l| l["spec"] == spec).expect("a layer");
        assert_eq!(layer["status"], "ready", "{layer:#}\n{}", said.stderr);
        let facts = &layer["facts"];
        assert_eq!(facts["mounts"][0]["fs"], fs, "{facts:#}");
        assert_eq!(&facts["devices"][0]["number"], device, "{facts:#}");
        let version = facts["versions"][program].as_str().unwrap_or_default();
        assert!(version.to_lowercase().contains(program), "{facts:#}");
        assert_eq!(facts["notes"]["direct"], "drop", "{facts:#}");
        let gathers = if spec == "overlay:fuse" { "on" } else { "off" };
        assert_eq!(facts["notes"]["writeback"], gathers, "{facts:#}");
        let rows = rows(&report, spec);
        let told = |label: &str| {
            let row = rows.iter().find(|r| r["label"] == label);
            *row.unwrap_or_else(|| panic!("no {label}: {report:#}"))
        };
        for label in ["direct", "synced"] {
            assert_eq!(told(label)["failed_trials"], 0, "{:#}", told(label));
        }
        // It is known from the bytes that the device did not read. Other tests may read meanwhile.
        let direct = told("direct");
        let ignored = direct["flag_counts"]["O_DIRECT ignored"].as_u64() > Some(0);
        let others_read = direct["device_share"].as_f64() >= Some(0.5);
        assert!(ignored || others_read, "{direct:#}");
        found += u32::from(ignored);
        let synced = &told("synced")["durability"];
        assert!(synced["flushes"].as_u64() > Some(0), "{synced:#}");
    }
    assert!(
        found > 0,
        "O_DIRECT was not found to be dropped: {report:#}"
    );
}

/// rclone answers fsync itself, and what was written is in its cache on this disk: the facts say where. It is never
/// reported as a layer that flushes.
#[test]
fn rclone_skips_fsync_and_its_cache_is_named() {
    if !needs_root() || !["rclone", "fusermount", "sshd"].into_iter().all(has) {
        return;
    }
    let layers = ["rclone", "rclone:cache=full"];
    let said = Lm::new()
        .work_with(WRITE, &["native", layers[0], layers[1]])
        .args(["--blocks", "9", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    let all = report["layers"].as_array().expect("layers");
    let device = &all[0]["facts"]["devices"][0]["number"];
    for (spec, cache) in layers.into_iter().zip(["writes", "full"]) {
        let layer = all.iter().find(|l| l["spec"] == spec).expect("a layer");
        assert_eq!(layer["status"], "ready", "{layer:#}\n{}", said.stderr);
        let facts = &layer["facts"];
        assert_eq!(facts["mounts"][0]["fs"], "fuse.rclone", "{facts:#}");
        assert_eq!(&facts["devices"][0]["number"], device, "{facts:#}");
        assert_eq!(facts["notes"]["cache"], cache, "{facts:#}");
        assert_eq!(facts["notes"]["direct"], "drop", "{facts:#}");
        let dir = facts["notes"]["cache_dir"].as_str().expect("a note");
        assert!(dir.ends_with("/cache"), "{facts:#}");
        let row = result(&report, label, spec);
        assert_eq!(row["failed_trials"], 0, "{row:#}");
        // A conviction needs silence around it: on a busy machine the flushes of others count too.
        let verdict = &row["durability"]["verdict"];
        assert_ne!(verdict, "honoured", "{row:#}");
        if verdict == "cannot tell" {
            skipped(&format!(
                "whether {spec} skips fsync: {}",
                row["durability"]["because"]
            ));
        }
    }
}

/// The SSH server dies in the middle of a run: that layer fails, and the other is measured to the end.
#[test]
fn a_server_that_dies_costs_its_layer_alone() {
    if !can_be_served() {
        return;
    }
    let lm = Lm::new().measure(&["sshfs", "fuse:bindfs"]);
    let (child, home) = lm.args(["--sessions", "1", "--json"]).start();
    wait_for("trials", || (trials_stored(home.path()) >= 4).then_some(()));
    let of_run = machine::tree(child.id());
    let family = of_run.iter().map(|p| (p.pid, p.start)).collect::<Vec<_>>();
    let of_sshd = |p: &&machine::Proc| p.command[0].contains("sshd");
    for server in of_run.iter().filter(of_sshd) {
        let pid = Pid::from_raw(i32::try_from(server.pid).unwrap()).unwrap();
        // The one for the connection may end with the other.
        let _ = kill_process(pid, Signal::KILL);
    }
    let said = Said::from(output(child), home).left_nothing();
    machine::nothing_left(said.dir.path(), &family);
    let report = said.code(4).says("layer sshfs is left out").json();
    let layers = report["layers"].as_array().expect("layers");
    let status = |name: &str| {
        layers
            .iter()
            .find(|l| l["name"] == name)
            .map(|l| &l["status"])
    };
    assert_eq!(status("sshfs"), Some(&"failed".into()), "{report:#}");
    assert_eq!(status("fuse:bindfs"), Some(&"ready".into()), "{report:#}");
}

/// The mount is refused: the program's own words are shown, and nothing is left.
#[test]
fn a_refused_mount_is_told_in_the_words_of_the_program() {
    if !can_be_served() {
        return;
    }
    let refused = "printf '#!/bin/sh\\necho no mount today >&2\\nexit 7\\n' >no; chmod 755 no; \
        mount --bind no /usr/bin/bindfs";
    let Some(lm) = Lm::new().measure(&["fuse:bindfs"]).around(refused, "") else {
        return;
    };
    lm.run()
        .says("bindfs failed (exit code 7)")
        .says("no mount today")
        .left_nothing();
}

/// Programs that are not installed are named with the command that installs them; the plan does the rest.
#[test]
fn a_missing_program_is_told_with_its_package() {
    let hide = "mount -t tmpfs none $W/../no; for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin; do \
        [ ! -d $d ] || hidden=\"${hidden:-} $d\"; done; for d in $hidden; do mount --bind $W/../no $d; done";
    for (layer, package) in [
        ("fuse:gocryptfs", "apt-get install gocryptfs"),
        ("overlay:fuse", "apt-get install fuse-overlayfs"),
        ("sshfs", "apt-get install openssh-server"),
        ("rclone", "apt-get install rclone"),
    ] {
        let lm = Lm::new().measure(&[layer]);
        fs::create_dir(lm.dir.path().join("no")).unwrap();
        let Some(lm) = lm.around(hide, "") else {
            return;
        };
        lm.run().fails(3, &[layer, package]).left_nothing();
    }
}
