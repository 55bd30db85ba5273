//! Layers inside a guest: this host cannot look into their directory, so the probe does.

use std::path::Path;

use layermark_layers::{Base, Facts, Layer, LayerError, Spec};
use layermark_probe::resident;
use serde_json::json;

use crate::{
    inside::{self, Up, open},
    state::State,
};

pub fn conform(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let before = State::of(&base.dir);
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
    up.place.refresh().unwrap();
    inside::trial(&mut up);
    cooled(&mut up);
    if spec.options.get("root").is_some_and(|r| r == "host") {
        launched(&mut up);
    }
    let upkeep = up.place.upkeep().unwrap();
    assert!(upkeep.ns > 100_000_000, "a guest costs CPU: {upkeep:?}");
    if spec.options.is_empty() {
        inside::wire(&up);
    }
    let Up {
        place, mut undo, ..
    } = up;
    drop(place);
    assert_eq!(undo.run(), 0);
    before.comes_back(&base.dir).unwrap();
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
            assert_eq!(facts.notes["nic"], asked("nic", "virtio-net"));
            assert!(top.options.contains("addr=10.9.0.1"), "{top:?}");
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

/// The guest runs this host's programs, and what they write stays in it.
fn launched(up: &mut Up) {
    let outside = "/usr/layermark-wrote-this";
    let mut commands = vec![
        "/bin/true".to_owned(),
        format!("/bin/sh -c 'echo x > {outside} && test -s {outside} && test -c /dev/null'"),
    ];
    if Path::new("/usr/bin/python3").exists() {
        commands.push("/usr/bin/python3 -c 'import json, socket; socket.socket()'".into());
    } else {
        eprintln!("skipped: /usr/bin/python3 is not installed");
    }
    for command in commands {
        let settings = json!({"workload": "launch", "command": command});
        let point = inside::point(settings);
        let said = inside::trial_of(up, &point);
        let trial: serde_json::Value = serde_json::from_str(&said).unwrap();
        println!("{said}");
        assert_eq!(trial["trial"]["launch"]["exit"], 0, "{command}: {trial:#}");
        let elapsed = &trial["trial"]["passes"][0]["elapsed_ns"];
        assert!(elapsed.as_u64() > Some(0), "{trial:#}");
    }
    assert!(!Path::new(outside).exists());
}

/// Both caches are empty.
fn cooled(up: &mut Up) {
    let files = up.place.behind(&["packaged/big".into()]);
    let cooled = up.place.cool().unwrap();
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
