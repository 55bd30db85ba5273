//! Paths, `client..server`: what reaches what, who may not, and the facts of both ends.

use serde_json::Value;

use crate::common::{Lm, all_guests, is_root, result, skipped};

const RR: &[&str] = &["net", "--op", "rr", "--blocks", "1", "--json"];

/// The facts of a layer, by name.
#[track_caller]
fn notes<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let layers = report["layers"].as_array().expect("layers");
    let found = layers.iter().find(|l| l["name"] == layer);
    &found.unwrap_or_else(|| panic!("no {layer} in {report:#}"))["facts"]["notes"]
}

#[test]
fn each_end_of_a_path_proves_where_it_is() {
    const LAYERS: [&str; 4] = [
        "netns",
        "netns..native",
        "netns..netns",
        "netns:mtu=9000,rate=100mbit",
    ];
    let said = Lm::new().work_with(RR, &LAYERS).run().left_nothing();
    if said.stderr.contains("the right to make a network") {
        return skipped("no network can be made here");
    }
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    for layer in LAYERS {
        let row = result(&report, label, layer);
        assert!(row["value"].as_f64() > Some(0.0), "{row:#}");
    }
    let facts = |layer: &str| {
        ["near_address", "address", "near_nic_driver", "nic_driver"].map(|name| {
            notes(&report, layer)[name]
                .as_str()
                .unwrap_or("none")
                .to_owned()
        })
    };
    for (layer, expected) in [
        ("native", ["127.0.0.1", "127.0.0.1", "loopback", "loopback"]),
        ("netns", ["10.9.0.1", "10.9.0.2", "bridge", "veth"]),
        ("netns..native", ["10.9.0.2", "10.9.0.1", "veth", "bridge"]),
        ("netns..netns", ["10.9.0.3", "10.9.0.2", "veth", "veth"]),
    ] {
        assert_eq!(facts(layer), expected, "{layer}");
    }
    let far = notes(&report, LAYERS[3]);
    assert_eq!(
        (&far["nic_mtu"], &far["near_nic_mtu"]),
        (&"9000".into(), &"9000".into())
    );
    // The far end is a process of this host, and works in the turns of the near one.
    for layer in ["native", "netns"] {
        let row = result(&report, label, layer);
        let upkeep = row["cpu_us_per_op"]["upkeep"].as_f64();
        assert!(upkeep.is_some(), "{row:#}");
    }
}

#[test]
fn layers_without_a_network_are_refused() {
    let said = Lm::new().work_with(RR, &["overlay:upper"]).run();
    said.fails(2, &["`overlay:upper`", "no network of its own", "-l netns"]);
    let said = Lm::new().work_with(RR, &["container:podman"]).run();
    let words = [
        "no network of its own",
        "-l container:podman,network=slirp4netns",
    ];
    said.fails(2, &words);
    let crun = ["container:crun,network=bridge"];
    Lm::new()
        .work_with(RR, &crun)
        .run()
        .fails(2, &["is an option of podman"]);
}

/// Transactions, streams and a web server, each with ports that the container has chosen itself.
#[test]
fn a_container_is_reached_through_its_network() {
    const WORK: &str = r#"
name = "containers"
control = false
blocks = 2
sessions = 1

[[work]]
workload = "net"
op = "rr,stream"

[[work]]
workload = "http"
body = "1K"
"#;
    let layers = [
        ("container:podman,network=slirp4netns", ["10.0.2.100"; 2]),
        (
            "container:podman,network=bridge",
            ["10.88.0.1", "10.88.0.2"],
        ),
    ];
    let list = layers.map(|(layer, _)| format!("'{layer}'")).join(", ");
    let plan = format!("layers = [{list}]\n{WORK}");
    let said = Lm::new().plan(&plan).args(["--json"]).run().left_nothing();
    // What can be installed may be missing. All else has to work for root.
    let missing = |text: &str| !is_root() || text.contains("apt-get install");
    if said.code == Some(3) && missing(&said.stderr) {
        return skipped(&said.stderr);
    }
    let report = said.json();
    for (layer, addresses) in layers {
        let all = report["layers"].as_array().expect("layers");
        let its = all.iter().find(|l| l["name"] == layer).expect("a layer");
        if its["status"] != "ready" && missing(&its["hint"].to_string()) {
            skipped(&format!("{layer}: {}", its["reason"]));
            continue;
        }
        assert_eq!(its["status"], "ready", "{its:#}");
        let facts = notes(&report, layer);
        assert_eq!(
            [&facts["near_address"], &facts["address"]],
            addresses,
            "{facts:#}"
        );
        let rows = report["results"].as_array().expect("results");
        let rows: Vec<&Value> = rows.iter().filter(|r| r["layer"] == layer).collect();
        assert_eq!(rows.len(), 4, "{rows:#?}");
        for row in rows {
            assert!(row["value"].as_f64() > Some(0.0), "{row:#}");
            assert_eq!(row["failed_trials"], 0, "{row:#}");
        }
    }
}

#[test]
fn what_cannot_be_a_path_is_refused_before_anything_is_measured() {
    let file: &[&str] = &[
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "--record",
        "4K",
    ];
    for (work, layer, words) in [
        (
            file,
            "native..netns",
            &["is a path", "`file` has one end"][..],
        ),
        (
            RR,
            "overlay:upper..netns",
            &["overlay:upper", "cannot be in a network"],
        ),
        (
            RR,
            "netns:switch=a..netns:switch=b",
            &["not in one network"],
        ),
        (RR, "netns..netns..netns", &["more than two ends"]),
        (RR, "vm:backend=user", &["no program of this host"]),
        (RR, "netns:rate=fast", &["rate", "1mbit"]),
    ] {
        Lm::new()
            .work_with(work, &[layer])
            .run()
            .left_nothing()
            .fails(2, words);
    }
    // What this kernel lacks is named, and the rest is measured.
    let said = Lm::new().work_with(RR, &["netns:delay=1ms", "netns"]).run();
    if said.stderr.contains("the right to make a network") {
        return skipped("no network can be made here");
    }
    let (report, names) = (said.json(), ["netns:delay=1ms", "netns"]);
    let status = names.map(|name| {
        let layers = report["layers"].as_array().expect("layers");
        let layer = layers.iter().find(|l| l["name"] == name).expect("a layer");
        (layer["status"].clone(), layer["hint"].clone())
    });
    assert_eq!(status[1].0, "ready");
    if status[0].0 != "ready" {
        assert_eq!(said.code, Some(3));
        assert!(
            status[0]
                .1
                .as_str()
                .is_some_and(|h| h.contains("modprobe sch_netem")),
            "{report:#}"
        );
    }
}

/// Each layer does what it is for, and what is left out says why.
#[test]
fn one_plan_has_work_with_one_end_and_with_two() {
    const PLAN: &str = r#"
name = "mixed"
layers = ["native", "netns", "tmpfs", "native..netns"]
control = false
blocks = 2

[[work]]
label = "round trips"
workload = "net"
op = "rr"

[[work]]
label = "read"
workload = "file"
op = "read"
record = "4K"
file_size = "64K"
"#;
    let said = Lm::new().plan(PLAN).args(["--json"]).run().left_nothing();
    if said.stderr.contains("the right to") {
        return skipped("no network, or nothing mounted, can be made here");
    }
    let report = said.json();
    for (label, layers) in [
        ("round trips", ["native", "netns", "native..netns"]),
        ("read", ["native", "netns", "tmpfs"]),
    ] {
        for layer in layers {
            let row = result(&report, label, layer);
            assert!(row["value"].as_f64() > Some(0.0), "{row:#}");
            assert_eq!(row["trials"], 2, "{row:#}");
        }
    }
    for (layer, label, why) in [
        ("tmpfs", "round trips", "no network of its own"),
        (
            "native..netns",
            "read",
            "it has one end, and this is a path",
        ),
    ] {
        let left = report["left_out"].as_array().expect("what is left out");
        let its = left.iter().filter(|l| l["layer"] == layer);
        let its: Vec<&Value> = its.collect();
        assert_eq!(
            (its.len(), &its[0]["point"]),
            (1, &label.into()),
            "{its:#?}"
        );
        assert!(its[0]["reason"].as_str().is_some_and(|r| r.contains(why)));
    }
    let far = &notes(&report, "tmpfs")["address"];
    assert!(far.is_null(), "a network that nothing uses: {far}");
    // The store has it as well.
    let run = report["run"].as_str().expect("a run");
    let later = said.then().args(["report", run, "--json"]).run().json();
    assert_eq!(later["left_out"], report["left_out"]);
}

/// Two guests on one switch. Each has a shared folder, so two servers of them are there at once. No other test has two
/// guests of one run.
#[test]
fn guests_reach_each_other() {
    let both = (
        "vm:share=virtiofs..vm:nic=e1000,share=virtiofs",
        ["10.9.0.3", "10.9.0.2", "virtio_net", "e1000"],
    );
    // One that this host is a server for, and two in a network that no program of this host is in.
    let client = ("vm..native", ["10.9.0.2", "10.9.0.1", "virtio_net", "tun"]);
    let apart = (
        "vm:backend=socket..vm:backend=socket",
        ["10.9.0.3", "10.9.0.2", "virtio_net", "virtio_net"],
    );
    let paths = if all_guests() {
        vec![both, client, apart]
    } else {
        vec![both]
    };
    let layers: Vec<&str> = paths.iter().map(|path| path.0).collect();
    let said = Lm::new().work_with(RR, &layers).run().left_nothing();
    if !is_root() || said.stderr.contains("needs ") {
        return skipped("no guest with a network can be made here");
    }
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    for (layer, facts) in paths {
        let its = notes(&report, layer);
        let names = ["near_address", "address", "near_nic_driver", "nic_driver"];
        assert_eq!(names.map(|name| &its[name]), facts, "{layer}");
        let row = result(&report, label, layer);
        // One block says nothing of how slow it is: on a busy machine native may be the slower one.
        assert!(row["ratio"]["estimate"].is_number(), "{row:#}");
        // Of QEMU; a few transactions may take less than a tick.
        let upkeep = row["cpu_us_per_op"]["upkeep"].as_f64();
        assert!(upkeep.is_some(), "{row:#}");
    }
}
