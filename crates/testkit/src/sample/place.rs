//! The environment of the invented run: its layers with their facts, and the machine.

use std::path::PathBuf;

use layermark_model::{
    BELOW_OVERLAY, Device, Facts, LayerRun, LayerStatus, Machine, Mount, SelfTest, Spec,
};

use super::shapes::Shape;

pub fn layer(shape: &Shape) -> LayerRun {
    let failed = shape.fails;
    LayerRun {
        spec: shape
            .name
            .parse()
            .unwrap_or_else(|_| Spec::bare(shape.name)),
        name: shape.name.into(),
        status: if failed {
            LayerStatus::Failed
        } else {
            LayerStatus::Ready
        },
        reason: failed.then(|| "mkfs.erofs is not installed".into()),
        hint: failed.then(|| "apt-get install erofs-utils".into()),
        enough_s: None,
        facts: if failed {
            Facts::default()
        } else {
            facts(shape)
        },
        setup_s: 0.012,
        self_test: SelfTest {
            clock_ns: 21.0,
            loop_ns: 34.0,
            null_ns: 36.0,
            ..SelfTest::default()
        },
        read_only: false,
        skips: std::collections::BTreeMap::new(),
        control: false,
    }
}

fn facts(shape: &Shape) -> Facts {
    let mount = |at: &str, fs: &str, source: &str, options: &str| Mount {
        at: PathBuf::from(at),
        fs: fs.into(),
        source: source.into(),
        options: options.into(),
    };
    let disk = Device {
        name: "vda".into(),
        number: "254:0".into(),
        write_cache: "write back".into(),
        fua: false,
        rotational: false,
        physical: true,
        own: false,
    };
    let mut facts = Facts {
        mounts: vec![mount(
            "/srv/scratch/layer",
            shape.fs,
            shape.name,
            if shape.honest {
                "rw,relatime"
            } else {
                "rw,relatime,volatile"
            },
        )],
        devices: if shape.memory { Vec::new() } else { vec![disk] },
        ..Facts::default()
    };
    if shape.fs != "ext4" && !shape.memory {
        facts
            .mounts
            .push(mount("/", "ext4", "/dev/vda", "rw,relatime"));
    }
    if shape.copy_up_us > 0.0 {
        let (name, place) = BELOW_OVERLAY;
        facts.notes.insert(name.into(), place.into());
    }
    facts.versions.insert("linux".into(), "6.18.0".into());
    facts
}

pub fn machine() -> Machine {
    Machine {
        kernel: "6.18.0".into(),
        os: "Debian GNU/Linux 12".into(),
        cpu: "a made-up CPU".into(),
        cpus: 2,
        memory: 24 << 30,
        clocksource: "tsc".into(),
        hypervisor: true,
        privilege: "root".into(),
        base: "ext4 on vda".into(),
        label: None,
    }
}
