//! Layers inside a guest: this host cannot look into their directory, so the probe does.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::SystemTime,
};

use layermark_layers::{Base, Content, Facts, KernelCaches, Layer, LayerError, PowerCut, Spec};
use layermark_probe::resident;
use serde_json::json;

use crate::{
    inside::{self, Up, open},
    roots,
    state::State,
};

pub fn conform(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let (before, on_host) = (State::of(&base.dir), servers_files());
    let start = std::time::Instant::now();
    let mut up = open(layer, spec, base).unwrap();
    println!("{spec}: up after {:.2} s", start.elapsed().as_secs_f64());
    assert!(
        State::of(&base.dir) != before,
        "what it leaves behind could not be seen"
    );
    let facts = up.place.facts().unwrap();
    if let Some(how) = facts.notes.get("boot") {
        println!("told: boot {}", how.replace('\n', " | "));
    }
    println!("facts: {}", serde_json::to_string(&facts).unwrap());
    proved(spec, &facts);
    for _ in 0..2 {
        up.place.keeps_time().unwrap();
    }
    inside::trial(&mut up);
    // A probe may be started again.
    up.place.refresh(&[]).unwrap();
    inside::trial(&mut up);
    cooled(&mut up);
    confined();
    match spec.options.get("root").map(String::as_str) {
        None => {}
        Some("host") => {
            hosts_programs(&mut up);
            keeps_its_secrets(&mut up);
        }
        Some(_) => launched(&mut up, &format!("{} own", roots::PROGRAM)),
    }
    if facts.notes.get("backend").is_some_and(|b| b == "tap") {
        inside::linked(&mut up);
    } else {
        let e = up.place.link().unwrap_err();
        assert!(e.to_string().contains("no program of this host"), "{e}");
    }
    let upkeep = up.place.helper_cpu().unwrap();
    assert!(upkeep.ns > 100_000_000, "a guest costs CPU: {upkeep:?}");
    if spec.options.contains_key("switch") {
        // Two guests, each of which has reached the other before it was up.
        let second = inside::wire(&up);
        assert_eq!(second.notes["network_others"], facts.notes["network_guest"]);
        assert_eq!(second.notes["network_guest"], "10.9.0.3");
    }
    let Up {
        place, mut undo, ..
    } = up;
    drop(place);
    survives(layer, spec, base);
    assert_eq!(undo.run(), 0);
    assert_eq!(servers_files(), on_host);
    before.comes_back(&base.dir).unwrap();
}

/// The guest is killed with its place. What it had synced is read on this host, as after a power cut.
fn survives(layer: &dyn Layer, spec: &Spec, base: &Base) {
    // Root of a user namespace is not the host's, and may open no loop device.
    let loops = fs::File::options().write(true).open("/dev/loop-control");
    if loops.is_err() {
        println!("skipped: what survives in a guest needs loop devices");
        return;
    }
    if let PowerCut::No(why) = layer.describe(spec).unwrap().power_cut {
        println!("told: {why}");
        return;
    }
    let mut base = base.clone();
    base.content = Content::Survived;
    let mut again = open(layer, spec, &base).unwrap();
    assert!(again.place.info().on_this_host);
    inside::same_as_packaged(&again);
    inside::trial(&mut again);
    drop(again.place);
    assert_eq!(again.undo.run(), 0);
}

/// What servers of shares leave in directories of this host: locks, logs.
fn servers_files() -> Vec<(PathBuf, SystemTime)> {
    let dirs = [
        "/run/virtiofsd",
        "/run/samba",
        "/run/ganesha",
        "/var/log/samba",
    ];
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok());
    let mut all: Vec<_> = entries
        .flatten()
        .flatten()
        .map(|e| (e.path(), e.metadata().unwrap().modified().unwrap()))
        .collect();
    all.sort();
    all
}

/// Facts of both sides agree with what was asked for.
fn proved(spec: &Spec, facts: &Facts) {
    let asked = |name: &str, default: &str| -> String {
        let given = spec.options.get(name);
        given.map_or(default, String::as_str).to_owned()
    };
    let guest = facts.guest.as_ref().unwrap();
    assert_eq!(guest.emulated_cpu, guest.accelerator == "tcg");
    if guest.emulated_cpu {
        assert_eq!(guest.clock, "tsc");
    }
    // Otherwise the kernel decides.
    if asked("agent", "") == "serial" {
        assert_eq!(facts.notes["agent"], "serial port");
    }
    networked(spec, facts);
    let (top, cache) = (&facts.mounts[0], asked("cache", ""));
    if let Some(share) = spec.options.get("share") {
        let (fs, server) = match share.as_str() {
            "nfs" => ("nfs4", Some("nfs-ganesha")),
            "smb" => ("cifs", Some("samba")),
            other => (other, None),
        };
        assert_eq!(top.fs, fs);
        assert!(facts.notes["share_cache"].contains(&cache));
        // virtiofs's mode is the daemon's, the others' are the guest's.
        let told = share == "virtiofs" || top.options.contains(&cache);
        assert!(told, "{top:?}");
        if let Some(server) = server {
            assert!(!facts.versions[server].is_empty());
            assert!(facts.notes.contains_key("nic"));
            assert!(top.options.contains("addr=10.9.0.1"), "{top:?}");
            assert_eq!(facts.notes["delay"], "2ms round trip, by layermark's relay");
            // The server's own port is not the one that is mounted.
            let own = ["port=2049", "port=445"].map(|port| format!(",{port},"));
            let options = format!(",{},", top.options);
            assert!(!own.iter().any(|port| options.contains(port)), "{top:?}");
            assert!(share != "nfs" || options.contains(",port="), "{top:?}");
        }
        return;
    }
    assert_eq!(top.fs, asked("fs", "ext4"));
    assert_eq!(facts.notes["disk"], asked("disk", "virtio-blk"));
    assert!(facts.notes["disk_cache"].contains(&cache));
    let through = matches!(cache.as_str(), "writethrough" | "directsync");
    let wanted = if through {
        "write through"
    } else {
        "write back"
    };
    assert_eq!(guest.devices[0].write_cache, wanted);
}

/// The card is what was asked for, and its cable is in.
fn networked(spec: &Spec, facts: &Facts) {
    let Some(nic) = facts.notes.get("nic") else {
        assert!(
            !["nic", "backend", "switch"]
                .iter()
                .any(|o| spec.options.contains_key(*o))
        );
        return;
    };
    let asked = |name: &str, default: &'static str| {
        let given = spec.options.get(name);
        given.map_or(default, String::as_str).to_owned()
    };
    assert_eq!(*nic, asked("nic", "virtio-net"));
    let driver = match nic.as_str() {
        "virtio-net" => "virtio_net",
        "rtl8139" => "8139cp",
        other => other,
    };
    let note = |name: &str| facts.notes[name].as_str();
    assert_eq!(note("nic_driver"), driver);
    assert!(note("nic_link").starts_with("up"), "{}", note("nic_link"));
    assert!(note("nic_mac").starts_with("52:54:00:"));
    assert_eq!(note("backend"), asked("backend", "tap"));
    let (host, guest) = match note("backend") {
        "user" => ("10.0.2.2", "10.0.2.15"),
        _ => ("10.9.0.1", "10.9.0.2"),
    };
    assert_eq!((note("network_host"), note("network_guest")), (host, guest));
    assert_eq!(facts.notes.get("switch"), spec.options.get("switch"));
}

/// The guest runs this host's programs, and what they write stays in it.
fn hosts_programs(up: &mut Up) {
    let outside = "/usr/layermark-wrote-this";
    launched(up, "/bin/true");
    let shell = format!("echo x > {outside} && test -s {outside} && test -c /dev/null");
    launched(up, &format!("/bin/sh -c '{shell}'"));
    if Path::new("/usr/bin/python3").exists() {
        launched(
            up,
            "/usr/bin/python3 -c 'import json, socket; socket.socket()'",
        );
    } else {
        eprintln!("skipped: /usr/bin/python3 is not installed");
    }
    assert!(!Path::new(outside).exists());
}

/// What not everybody may read on this host the guest cannot, and it reaches no port of this host's.
fn keeps_its_secrets(up: &mut Up) {
    let spool = tempfile::tempdir_in("/root").ok();
    let own = spool.as_ref().map(|dir| {
        fs::write(dir.path().join("key"), b"secret").unwrap();
        format!("&& ! grep -q . {}/key", dir.path().display())
    });
    let seen = "test -s /etc/passwd && ! grep -q . /etc/shadow && ! grep -q . /etc/gshadow \
                && ! grep -q PRIVATE /etc/ssh/ssh_host_ed25519_key && test -d /root";
    launched(
        up,
        &format!("/bin/sh -c '{seen} {}'", own.unwrap_or_default()),
    );
    let facts = up.place.facts().unwrap();
    if facts.notes.get("backend").is_none_or(|b| b != "user")
        || !Path::new("/usr/bin/python3").exists()
    {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = (
        facts.notes["network_host"].as_str(),
        listener.local_addr().unwrap().port(),
    );
    let connect = format!(
        "import socket, sys; s = socket.socket(); s.settimeout(3); sys.exit(s.connect_ex({host:?}) == 0)"
    );
    let connect = connect.replace('"', "\\\"");
    launched(up, &format!("/usr/bin/python3 -c \"{connect}\""));
    listener.set_nonblocking(true).unwrap();
    assert!(
        listener.accept().is_err(),
        "the guest has reached this host's loopback"
    );
}

/// Every QEMU of this process has its system calls filtered.
fn confined() {
    let us = format!("PPid:\t{}\n", std::process::id());
    let all = fs::read_dir("/proc").unwrap().flatten();
    let status = all.filter_map(|e| fs::read_to_string(e.path().join("status")).ok());
    let qemu: Vec<_> = status
        .filter(|s| s.starts_with("Name:\tqemu-system") && s.contains(&us))
        .collect();
    assert!(!qemu.is_empty());
    for status in qemu {
        assert!(
            status.contains("\nSeccomp:\t2\n") && status.contains("\nNoNewPrivs:\t1\n"),
            "{status}"
        );
    }
}

/// The guest runs this to its good end.
fn launched(up: &mut Up, command: &str) {
    let settings = json!({"workload": "launch", "command": command});
    let said = inside::trial_of(up, &inside::point(settings));
    let trial: serde_json::Value = serde_json::from_str(&said).unwrap();
    println!("{said}");
    assert_eq!(trial["trial"]["figures"]["exit"], 0, "{command}: {trial:#}");
    let elapsed = &trial["trial"]["passes"][0]["elapsed_ns"];
    assert!(elapsed.as_u64() > Some(0), "{trial:#}");
}

/// Both caches are empty.
fn cooled(up: &mut Up) {
    let files = up.place.backing_extents(&["packaged/big".into()]);
    let cooled = up.place.drop_caches(KernelCaches::Now).unwrap();
    println!("{cooled:?}");
    let has = |what: &str| cooled.how.iter().any(|h| h == what);
    assert!(has("guest: drop_caches") && has("syncfs"), "{cooled:?}");
    assert!(!files.is_empty());
    for file in files {
        let left = resident::share(&file.path).unwrap();
        assert!(left < 0.01, "{left} of {file:?} is in this host's cache");
    }
}

/// What goes wrong is told with the guest's last words.
pub fn fails(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let before = State::of(&base.dir);
    // A binary that cannot be run there: the kernel panics, and QEMU ends.
    let mut broken = base.clone();
    broken.exe = "/bin/true".into();
    let error = |base: &Base, spec: &Spec| -> LayerError {
        match open(layer, spec, base) {
            Ok(_) => panic!("{spec} came up"),
            Err(e) => e,
        }
    };
    let e = error(&broken, spec);
    println!("{e}");
    let text = e.to_string();
    assert!(text.contains("could not boot") && text.contains("QEMU has ended"));
    assert!(text.contains("panic") || text.contains("init"), "{text}");
    assert!(e.hint().is_some());
    before.comes_back(&base.dir).unwrap();
    // A packaged file that cannot be read.
    broken = base.clone();
    broken.packaged = "/nonexistent".into();
    let e = error(&broken, spec);
    assert!(e.to_string().contains("/nonexistent"), "{e}");
    before.comes_back(&base.dir).unwrap();
}
