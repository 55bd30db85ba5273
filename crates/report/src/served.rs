//! Where data read came from: device bytes against application bytes, else residency.

use layermark_model::{Facts, Point, Trial};
use layermark_stats::median;

use crate::{
    facts,
    points::{self, Kind},
    types::ServedBy,
};

/// Device bytes for each application byte from which the device served.
const DEVICE_FROM: f64 = 0.95;
/// ... and up to which memory did.
const MEMORY_TO: f64 = 0.05;

/// Device bytes for each application byte in the point's own direction, over all trials.
pub fn device_share(point: &Point, trials: &[&Trial]) -> Option<f64> {
    let reads = match points::kind(point) {
        Kind::Reading => true,
        Kind::Writing | Kind::Flushing => false,
        Kind::Changing | Kind::Names => return None,
    };
    let bytes: u64 = trials.iter().map(|t| t.bytes()).sum();
    let mut moved = 0;
    for trial in trials {
        let device = trial.device?;
        moved += if reads { device.read } else { device.written };
    }
    (bytes > 0).then(|| moved as f64 / bytes as f64)
}

/// Median share of the file in the page cache before the clock started.
pub fn resident(trials: &[&Trial]) -> Option<f64> {
    let shares: Vec<f64> = trials.iter().filter_map(|t| t.resident).collect();
    median(&shares)
}

/// The label of a read result; `None` where nothing is read.
pub fn label(
    point: &Point,
    facts: &Facts,
    share: Option<f64>,
    resident: Option<f64>,
) -> Option<ServedBy> {
    if points::kind(point) != Kind::Reading {
        return None;
    }
    if facts.in_memory() {
        return Some(ServedBy::HostMemory);
    }
    let remote = facts::physical(facts).is_empty();
    Some(match (share, resident) {
        (Some(share), _) if share >= DEVICE_FROM => ServedBy::Device,
        // A compressed image reads less than it gives; a cold start with the device at work is not memory.
        (Some(share), resident)
            if share <= MEMORY_TO && !(remote && resident.is_none_or(|r| r < DEVICE_FROM)) =>
        {
            ServedBy::HostMemory
        }
        (Some(_), _) if !remote => ServedBy::Mixed,
        (_, Some(resident)) if resident >= DEVICE_FROM => ServedBy::HostMemory,
        _ => ServedBy::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Device, DeviceBytes, Mount, Pass};
    use serde_json::json;

    fn read_point() -> Point {
        Point::new("file", "x".into(), &json!({"op": "read"})).unwrap()
    }

    fn on_disk() -> Facts {
        Facts {
            mounts: vec![Mount {
                fs: "ext4".into(),
                ..Mount::default()
            }],
            devices: vec![Device {
                name: "vda".into(),
                physical: true,
                ..Device::default()
            }],
            ..Facts::default()
        }
    }

    fn trial(bytes: u64, device: Option<u64>) -> Trial {
        let pass = Pass {
            elapsed_ns: 1,
            ops: 1,
            bytes,
        };
        let device = device.map(|read| DeviceBytes {
            read,
            ..DeviceBytes::default()
        });
        Trial {
            passes: vec![pass],
            device,
            ..Trial::default()
        }
    }

    #[test]
    fn labels_follow_the_device_bytes() {
        for (read, expected) in [
            (100, ServedBy::Device),
            (0, ServedBy::HostMemory),
            (50, ServedBy::Mixed),
        ] {
            let trial = trial(100, Some(read));
            let share = device_share(&read_point(), &[&trial]);
            assert_eq!(
                label(&read_point(), &on_disk(), share, None),
                Some(expected)
            );
        }
    }

    #[test]
    fn residency_decides_where_no_device_counts() {
        assert_eq!(device_share(&read_point(), &[&trial(100, None)]), None);
        let at = |resident| label(&read_point(), &on_disk(), None, resident);
        assert_eq!(at(Some(1.0)), Some(ServedBy::HostMemory));
        assert_eq!(at(Some(0.0)), Some(ServedBy::Unknown));
        assert_eq!(at(None), Some(ServedBy::Unknown));
        assert_eq!(
            label(&read_point(), &Facts::default(), Some(0.0), None),
            Some(ServedBy::Unknown)
        );
    }

    #[test]
    fn memory_is_memory_and_a_write_has_no_label() {
        let tmpfs = Facts {
            mounts: vec![Mount {
                fs: "tmpfs".into(),
                ..Mount::default()
            }],
            ..Facts::default()
        };
        assert_eq!(
            label(&read_point(), &tmpfs, None, None),
            Some(ServedBy::HostMemory)
        );
        let write = Point::new("file", "x".into(), &json!({"op": "write"})).unwrap();
        assert_eq!(label(&write, &on_disk(), Some(1.0), None), None);
    }
}
