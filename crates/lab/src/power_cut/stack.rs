//! What stands between an application and the disk, and the flushes that each part counted.

use layermark_model::{Device, Facts, Mount, witness::Storey};
use layermark_probe::counters::Devices;

/// Mount options that leave flushes out.
const NO_FLUSH: [&str; 4] = ["volatile", "fsync=volatile", "nobarrier", "barrier=0"];

/// A layer's mounts and devices, and what the devices had counted before.
pub(super) struct Stack {
    facts: Facts,
    before: Vec<Option<u64>>,
}

impl Stack {
    /// Reads the counters.
    pub(super) fn of(facts: Facts) -> Self {
        let before = facts.devices.iter().map(flushes).collect();
        Self { facts, before }
    }

    /// From the layer down, each with the flushes since [`Stack::of`]. Only devices of this host count
    /// them.
    pub(super) fn storeys(&self) -> Vec<Storey> {
        let guest = self.facts.guest.as_ref();
        let guest: &[Device] = guest.map_or(&[], |guest| &guest.devices);
        let own: Vec<(&Device, Storey)> = self
            .facts
            .devices
            .iter()
            .zip(&self.before)
            .map(|(device, before)| (device, counted(device, *before)))
            .collect();
        let mut storeys = Vec::new();
        for mount in &self.facts.mounts {
            storeys.push(of_mount(mount));
            if let Some(device) = guest.iter().find(|d| is_on(mount, d)) {
                storeys.push(Storey {
                    name: format!("{} of the guest", device.name),
                    cache: device.write_cache.clone(),
                    flushes: None,
                });
            } else {
                let below = own.iter().filter(|(device, _)| is_on(mount, device));
                storeys.extend(below.map(|(_, storey)| storey.clone()));
            }
        }
        // Devices below another device.
        for (_, storey) in own {
            if !storeys.contains(&storey) {
                storeys.push(storey);
            }
        }
        storeys
    }
}

/// The storeys from the acknowledged records to the disk for power cuts.
pub(super) fn whole(between: &[Storey], records: u64, flushes: u64) -> Vec<Storey> {
    let end = |name: &str, cache: &str, flushes| Storey {
        name: name.into(),
        cache: cache.into(),
        flushes: Some(flushes),
    };
    let mut all = vec![end("records acknowledged", "", records)];
    all.extend_from_slice(between);
    all.push(end("the disk that is cut", "write back", flushes));
    all
}

fn counted(device: &Device, before: Option<u64>) -> Storey {
    let since = flushes(device).zip(before);
    Storey {
        name: device.name.clone(),
        cache: device.write_cache.clone(),
        flushes: since.map(|(after, before)| after.saturating_sub(before)),
    }
}

fn of_mount(mount: &Mount) -> Storey {
    let off = mount.options.split(',').filter(|o| NO_FLUSH.contains(o));
    Storey {
        name: match mount.source.strip_prefix("/dev/") {
            Some(device) => format!("{} on {device}", mount.fs),
            None => mount.fs.clone(),
        },
        cache: off.collect::<Vec<_>>().join(", "),
        flushes: None,
    }
}

fn is_on(mount: &Mount, device: &Device) -> bool {
    mount.source.strip_prefix("/dev/") == Some(device.name.as_str())
}

/// Flushes that a device has completed.
fn flushes(device: &Device) -> Option<u64> {
    let number = std::slice::from_ref(&device.number);
    Devices::open(number).sum().map(|counters| counters.flushes)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn mount(fs: &str, source: &str, options: &str) -> Mount {
        Mount {
            at: PathBuf::from("/x"),
            fs: fs.into(),
            source: source.into(),
            options: options.into(),
        }
    }

    fn device(name: &str) -> Device {
        Device {
            name: name.into(),
            write_cache: "write back".into(),
            ..Device::default()
        }
    }

    #[test]
    fn each_device_follows_the_file_system_on_it_and_what_is_not_counted_is_unknown() {
        let facts = Facts {
            mounts: vec![
                mount("overlay", "overlay", "rw,upperdir=/u,fsync=volatile"),
                mount("ext4", "/dev/loop1", "rw"),
                mount("ext4", "/dev/dm-0", "rw,nobarrier"),
            ],
            devices: ["loop1", "dm-0", "vda"].map(device).to_vec(),
            ..Facts::default()
        };
        let storeys = whole(&Stack::of(facts).storeys(), 500, 0);
        let all: Vec<_> = storeys
            .iter()
            .map(|s| (&*s.name, &*s.cache, s.flushes))
            .collect();
        assert_eq!(
            all,
            [
                ("records acknowledged", "", Some(500)),
                ("overlay", "fsync=volatile", None),
                ("ext4 on loop1", "", None),
                ("loop1", "write back", None),
                ("ext4 on dm-0", "nobarrier", None),
                ("dm-0", "write back", None),
                ("vda", "write back", None),
                ("the disk that is cut", "write back", Some(0)),
            ]
        );
    }
}
