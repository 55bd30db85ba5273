//! `layermark coherence`: changes of one side of a shared directory, seen from the other.

use crate::common::{Lm, figures, result, skipped};

const SHORT: &[&str] = &["coherence", "--blocks", "1", "--json"];

/// The names that our own file system lets the kernel keep for a second are stale for as long. Events of
/// other sides do not reach a file system in user space.
#[test]
fn a_cache_of_names_delays_what_the_other_side_sees() {
    let layers = ["fuse:cache=auto", "fuse:cache=none"];
    let said = Lm::new()
        .work_with(SHORT, &layers)
        .args(["--op", "append,notify", "--wait", "2s"])
        .run()
        .left_nothing();
    if said.stderr.contains("the right to mount") || said.stderr.contains("/dev/fuse") {
        return skipped("no file system in user space can be mounted here");
    }
    let report = said.json();
    let seen = |layer: &str, label: &str| {
        let row = result(&report, label, layer);
        assert_eq!(row["failed_trials"], 0, "{row:#}");
        let its = figures(&report, label, layer);
        assert!(its["seen"].as_u64() > Some(0), "{its:#}");
        assert_eq!(its["absent"], 0, "{its:#}");
        row["latency_us"]["p50"].as_f64().expect("a median")
    };
    let [here, there] =
        ["layer", "host"].map(|side| format!("append, seen {}, within 2s", place(side)));
    let stale = seen("fuse:cache=auto", &here);
    // A name is kept for a second, and a change comes at any time of it.
    assert!((100_000.0..1_900_000.0).contains(&stale), "{stale} us");
    // What a program writes through it is in the directory below at once.
    let at_once = [
        ("native", &here),
        ("fuse:cache=none", &here),
        ("fuse:cache=auto", &there),
    ];
    for (layer, label) in at_once {
        let fresh = seen(layer, label);
        assert!(fresh < stale, "{layer}, {label}: {fresh} us, {stale} us");
    }
    let notified = "notify, seen in the layer, within 2s";
    let row = result(&report, notified, "fuse:cache=none");
    assert_eq!(
        (&row["trials"], &row["failed_trials"]),
        (&1.into(), &0.into()),
        "{row:#}"
    );
    assert_eq!(row["flag_counts"]["not seen in time"], 1, "{row:#}");
    let its = figures(&report, notified, "fuse:cache=none");
    assert_eq!(
        (&its["seen"], &its["absent"]),
        (&0.into(), &1.into()),
        "{its:#}"
    );
    seen("native", notified);
}

fn place(side: &str) -> &str {
    if side == "layer" {
        "in the layer"
    } else {
        "on the host"
    }
}

/// Both sides are one directory: what is made on one is there on the other.
#[test]
fn each_layer_with_two_sides_shows_what_is_made_on_either() {
    let layers = [
        "bind",
        "fuse:bindfs",
        "sshfs",
        "container:podman,at=volume",
        "container:bubblewrap,at=volume",
    ];
    let said = Lm::new()
        .work_with(SHORT, &layers)
        .args(["--op", "create", "--wait", "5s"])
        .run()
        .left_nothing();
    if said.code == Some(3) && said.stderr.contains("hint: ") {
        return skipped(&said.stderr);
    }
    let report = said.json();
    for layer in layers {
        let all = report["layers"].as_array().expect("layers");
        let its = all.iter().find(|l| l["name"] == layer).expect("a layer");
        if its["status"] != "ready" {
            skipped(&format!("{layer}: {}", its["reason"]));
            continue;
        }
        for side in ["layer", "host"] {
            let label = format!("create, seen {}, within 5s", place(side));
            let its = figures(&report, &label, layer);
            assert!(its["seen"].as_u64() > Some(0), "{its:#}");
        }
    }
}

/// rclone sends a file five seconds after it was closed, and remembers for five minutes which names there are. So the
/// directory was never seen when it was made on this host, and nothing could be measured.
#[test]
fn a_client_that_writes_later_shows_its_files_later() {
    let layer = "rclone";
    let said = Lm::new()
        .work_with(SHORT, &[layer])
        .args(["--op", "create", "--wait", "10s"])
        .run()
        .left_nothing();
    if said.code == Some(3) && said.stderr.contains("hint: ") {
        return skipped(&said.stderr);
    }
    let report = said.json();
    let on_host = result(&report, "create, seen on the host, within 10s", layer);
    assert_eq!(on_host["failed_trials"], 0, "{on_host:#}");
    let late = on_host["latency_us"]["p50"].as_f64().expect("a median");
    assert!(late > 1_000_000.0, "{on_host:#}");
    let in_layer = result(&report, "create, seen in the layer, within 10s", layer);
    assert_eq!(
        in_layer["flag_counts"]["not seen in time"], 1,
        "{in_layer:#}"
    );
}

/// The kernel gathers writes, and gives them to the server when the file is closed. What a program writes to a file that
/// it keeps open, as a log, is not in the directory below.
#[test]
fn a_writer_that_keeps_its_file_open_is_an_operation_of_its_own() {
    let layer = "fuse:writeback=on";
    let said = Lm::new()
        .work_with(SHORT, &[layer])
        .args([
            "--op",
            "append,append-open",
            "--seen",
            "host",
            "--wait",
            "2s",
        ])
        .run()
        .left_nothing();
    if said.stderr.contains("the right to mount") || said.stderr.contains("/dev/fuse") {
        return skipped("no file system in user space can be mounted here");
    }
    let report = said.json();
    let seen = |label: &str| {
        let its = figures(&report, label, layer);
        its["seen"].as_u64().expect("a count")
    };
    assert!(seen("append, seen on the host, within 2s") > 0);
    assert_eq!(seen("append-open, seen on the host, within 2s"), 0);
}

#[test]
fn a_layer_with_one_side_is_a_usage_error() {
    let none = [
        "tmpfs",
        "overlay:upper",
        "vm",
        "native..netns",
        "container:podman",
        "container:gvisor,at=volume",
    ];
    for layer in none {
        Lm::new()
            .work_with(SHORT, &[layer])
            .run()
            .fails(2, &[layer, "no second directory", "-l sshfs"]);
    }
    Lm::new()
        .work_with(SHORT, &["native"])
        .args(["--op", "touch"])
        .run()
        .fails(2, &["touch"]);
}
