//! Layers inside a guest: this host cannot look into their directory, so the probe does.

use layermark_layers::{Base, Layer, LayerError, Spec};
use layermark_probe::resident;

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
    println!("facts: {}", serde_json::to_string(&facts).unwrap());
    let guest = facts.guest.clone().unwrap();
    let asked = |name: &str, default: &str| {
        spec.options
            .get(name)
            .map_or(default, String::as_str)
            .to_owned()
    };
    assert_eq!(facts.mounts[0].fs, asked("fs", "ext4"));
    assert_eq!(facts.notes["disk"], asked("disk", "virtio-blk"));
    assert!(facts.notes["disk_cache"].starts_with(&asked("cache", "writeback")));
    assert_eq!(
        guest.clock,
        if guest.emulated_cpu {
            "tsc"
        } else {
            &guest.clock
        }
    );
    assert_eq!(guest.emulated_cpu, guest.accelerator == "tcg");
    let device = &guest.devices[0];
    let through = matches!(asked("cache", "").as_str(), "writethrough" | "directsync");
    let cache = if through {
        "write through"
    } else {
        "write back"
    };
    assert_eq!(
        device.write_cache, cache,
        "the guest sees another cache mode"
    );
    trial(&mut up);
    up.place.refresh().unwrap();
    trial(&mut up);
    cooled(&mut up);
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

/// Packaged files can be read, and twice: a probe may be started again.
fn trial(up: &mut Up) {
    inside::trial(up);
}

/// Both caches are empty.
fn cooled(up: &mut Up) {
    let cooled = up.place.cool().unwrap();
    println!("{cooled:?}");
    let has = |what: &str| cooled.how.iter().any(|h| h == what);
    assert!(has("guest: drop_caches") && has("syncfs"), "{cooled:?}");
    let image = &up.place.facts().unwrap().backing[0];
    let left = resident::share(image).unwrap();
    assert!(left < 0.01, "{left} of the image is in this host's cache");
}

/// What goes wrong is told with the guest's last words.
pub fn fails(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let before = State::of(&base.dir);
    // A binary that ends at once: the kernel panics, and QEMU ends.
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
