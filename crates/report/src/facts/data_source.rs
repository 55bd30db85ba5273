//! Where read data came from: device bytes against application bytes, and cached shares.

use layermark_model::{Direction, Facts, Meaning, Target, Trial, TrialRecord, flags};
use layermark_stats::median;

use crate::{
    facts::{
        others::{self, DeviceCounter},
        storage,
    },
    statements::served::ServedBecause,
    types::{ServedBy, Unproved},
};

/// From this many device bytes per application byte on, the device served; from this cached share
/// on, memory did.
const MOST: f64 = 0.95;
/// Up to this many device bytes per application byte, the device did not serve.
const LITTLE: f64 = 0.05;

/// What the trials of a point in a layer show about caches and devices.
pub struct ReadSigns<'a> {
    facts: &'a Facts,
    /// Device bytes per application byte in the point's own direction, over all trials.
    pub device: Option<f64>,
    /// Share of these device bytes that others are expected to have moved.
    pub others: Option<f64>,
    /// Median share of the file in the page cache before the clock started.
    pub resident: Option<f64>,
    /// Median share of the backing files in this host's page cache.
    pub behind: Option<f64>,
    /// Bytes read from the guest's own disk per byte that the application read, over all trials.
    pub guest: Option<f64>,
}

impl<'a> ReadSigns<'a> {
    pub fn of(meaning: &Meaning, facts: &'a Facts, records: &[&TrialRecord]) -> Self {
        // What the device read beside other programs may be theirs.
        let quiet = |r: &&TrialRecord| !r.flags.iter().any(|f| f == flags::CONTAMINATED);
        let all = || records.iter().copied();
        let mut trials: Vec<&Trial> = all()
            .filter(quiet)
            .filter_map(|r| r.trial.as_ref())
            .collect();
        if trials.is_empty() {
            trials = all().filter_map(|r| r.trial.as_ref()).collect();
        }
        let middle = |share: &dyn Fn(&TrialRecord) -> Option<f64>| {
            median(&records.iter().filter_map(|r| share(r)).collect::<Vec<_>>())
        };
        Self {
            facts,
            device: device_share(meaning, &trials),
            others: counter(meaning).and_then(|counter| others::share(&trials, counter)),
            resident: middle(&|r| r.trial.as_ref()?.resident),
            behind: middle(&|r| r.backing_resident),
            guest: guest_share(&trials),
        }
    }

    /// The label of a read result; `None` where nothing is read.
    pub fn label(&self, meaning: &Meaning) -> Option<ServedBy> {
        if !meaning.only_reads() {
            return None;
        }
        if self.facts.in_memory() {
            return Some(ServedBy::HostMemory);
        }
        if self.facts.guest.is_some() {
            return Some(self.in_guest());
        }
        // Double caching: the file's own pages may be gone while those of its image are cached.
        let cached = [self.resident, self.behind];
        let in_memory = cached.iter().any(|share| share.is_some_and(|s| s >= MOST));
        let counted = !storage::physical(self.facts).is_empty();
        Some(match self.device {
            Some(share) if share >= MOST => ServedBy::Device,
            // Data in memory is not read from a device: bytes that crossed the device belong to
            // others.
            _ if in_memory => ServedBy::HostMemory,
            Some(share) if counted && share <= LITTLE => ServedBy::HostMemory,
            Some(_) if counted && self.compressed_and_cold() => ServedBy::Device,
            Some(_) if counted => ServedBy::Mixed,
            _ => ServedBy::Unknown,
        })
    }

    /// The source with two caches above one device. Data that did not leave the guest came from its
    /// memory. Data that left it without coming from the device came from this host's memory.
    fn in_guest(&self) -> ServedBy {
        let inside = self.guest.map(|s| s <= LITTLE);
        let inside = inside.or_else(|| self.resident.map(|r| r >= MOST));
        let left = self.guest.is_none_or(|s| s >= MOST);
        match (self.device, inside) {
            (Some(share), _) if share >= MOST => ServedBy::Device,
            (_, Some(true)) => ServedBy::GuestMemory,
            (Some(share), Some(false)) if share <= LITTLE && left => ServedBy::HostMemory,
            (Some(_), Some(false)) => ServedBy::Mixed,
            _ => ServedBy::Unknown,
        }
    }

    /// Compressed data needs fewer device bytes than it yields, so the decision rests on nothing
    /// having been cached.
    fn compressed_and_cold(&self) -> bool {
        let cold = |share: Option<f64>| share.is_some_and(|s| s <= LITTLE);
        self.facts.compressed() && cold(self.resident) && cold(self.behind)
    }

    /// The evidence for the label.
    pub fn evidence(&self) -> ServedBecause {
        if self.facts.in_memory() {
            return ServedBecause::FilesInMemory;
        }
        ServedBecause::Counted {
            device: self.device,
            guest: self.guest,
            resident: self.resident,
            behind: self.behind,
            in_image: !self.facts.backing.is_empty(),
        }
    }
}

/// Why a layer's trials do not prove that its caches were cold, or warm.
pub fn why_unproved(facts: &Facts, is_cold: bool, privileged: bool) -> Unproved {
    if storage::physical(facts).is_empty() {
        Unproved::NothingCounts
    } else if !is_cold {
        Unproved::Others
    } else if storage::is_served(facts) {
        Unproved::Served
    } else if privileged {
        Unproved::NamesStayed
    } else {
        Unproved::WithoutRoot
    }
}

fn guest_share(trials: &[&Trial]) -> Option<f64> {
    let bytes: u64 = trials.iter().map(|t| t.bytes()).sum();
    let mut read = 0;
    for trial in trials {
        read += trial.guest_device?.read;
    }
    (bytes > 0).then(|| read as f64 / bytes as f64)
}

/// The counter of the point's own direction.
fn counter(meaning: &Meaning) -> Option<DeviceCounter> {
    match (meaning.target, meaning.direction) {
        (Target::Data, Direction::Reads) => Some(DeviceCounter::Read),
        (Target::Data, Direction::Writes) => Some(DeviceCounter::Written),
        // For a mix, the bytes are not counted by direction.
        _ => None,
    }
}

/// Device bytes per application byte in the point's own direction, over all trials. What others read does
/// not make a file less cached, so reads have all bytes; writes have those that are the layer's.
fn device_share(meaning: &Meaning, trials: &[&Trial]) -> Option<f64> {
    let counter = counter(meaning)?;
    let bytes: u64 = trials.iter().map(|t| t.bytes()).sum();
    let moved = if counter == DeviceCounter::Read {
        let read = trials.iter().map(|t| Some(t.device?.read));
        read.sum::<Option<u64>>()?
    } else {
        others::counts(trials, counter)?.into_iter().sum()
    };
    (bytes > 0).then(|| moved as f64 / bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::said;
    use layermark_model::{Device, DeviceBytes, Mount, Pass};

    fn going(direction: Direction) -> Meaning {
        Meaning {
            direction,
            ..Meaning::default()
        }
    }

    fn reading() -> Meaning {
        going(Direction::Reads)
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

    fn seen(facts: &Facts, device: Option<f64>, cached: [Option<f64>; 2]) -> ReadSigns<'_> {
        ReadSigns {
            facts,
            device,
            others: None,
            resident: cached[0],
            behind: cached[1],
            guest: None,
        }
    }

    fn label(facts: &Facts, device: Option<f64>, cached: [Option<f64>; 2]) -> ServedBy {
        seen(facts, device, cached).label(&reading()).unwrap()
    }

    /// A trial of 100 bytes, of which a device read so many.
    fn record(read: u64, flags: &[&str]) -> TrialRecord {
        TrialRecord {
            trial: Some(Trial {
                passes: vec![Pass {
                    elapsed_ns: 1,
                    ops: 1,
                    bytes: 100,
                    ..Pass::default()
                }],
                device: Some(DeviceBytes {
                    read,
                    ..DeviceBytes::default()
                }),
                ..Trial::default()
            }),
            flags: flags.iter().map(|f| (*f).to_owned()).collect(),
            ..TrialRecord::default()
        }
    }

    #[test]
    fn why_nothing_is_proved_depends_on_what_was_asked() {
        let (known, unknown) = (on_disk(), Facts::default());
        let nothing = Unproved::NothingCounts;
        for is_cold in [true, false] {
            assert_eq!(why_unproved(&unknown, is_cold, true), nothing);
        }
        let names = Unproved::NamesStayed;
        assert_eq!(why_unproved(&known, true, true), names);
        let others = Unproved::Others;
        for privileged in [true, false] {
            assert_eq!(why_unproved(&known, false, privileged), others);
        }
    }

    fn label_of(records: &[&TrialRecord]) -> Option<ServedBy> {
        ReadSigns::of(&reading(), &on_disk(), records).label(&reading())
    }

    #[test]
    fn labels_follow_the_device_bytes() {
        for (read, expected) in [
            (100, ServedBy::Device),
            (0, ServedBy::HostMemory),
            (50, ServedBy::Mixed),
        ] {
            assert_eq!(label_of(&[&record(read, &[])]), Some(expected));
        }
    }

    /// Beside two disturbed trials eight read nothing from a device: "about 78 % came from memory".
    #[test]
    fn what_the_device_read_beside_other_programs_is_not_the_layers() {
        let (quiet, busy) = (record(0, &[]), record(80, &[flags::CONTAMINATED]));
        assert_eq!(label_of(&[&quiet, &busy]), Some(ServedBy::HostMemory));
        assert_eq!(
            label_of(&[&busy, &busy]),
            Some(ServedBy::Mixed),
            "all there is"
        );
    }

    /// The bytes that a mix wrote were once divided by all of its bytes, including those it read.
    #[test]
    fn bytes_of_both_directions_are_set_against_no_device_bytes() {
        let record = TrialRecord {
            trial: Some(Trial {
                passes: vec![Pass {
                    elapsed_ns: 1,
                    ops: 1,
                    bytes: 100,
                    ..Pass::default()
                }],
                device: Some(DeviceBytes {
                    read: 30,
                    written: 50,
                    ..DeviceBytes::default()
                }),
                ..Trial::default()
            }),
            ..TrialRecord::default()
        };
        let facts = on_disk();
        let share = |direction| ReadSigns::of(&going(direction), &facts, &[&record]).device;
        assert_eq!(share(Direction::Both), None);
        assert_eq!(share(Direction::Reads), Some(0.3));
        assert_eq!(share(Direction::Writes), Some(0.5));
    }

    #[test]
    fn residency_decides_where_no_device_counts() {
        let at = |resident, behind| label(&on_disk(), None, [resident, behind]);
        assert_eq!(at(Some(1.0), None), ServedBy::HostMemory);
        assert_eq!(at(Some(0.0), None), ServedBy::Unknown);
        assert_eq!(at(None, None), ServedBy::Unknown);
        assert_eq!(
            at(Some(0.0), Some(0.98)),
            ServedBy::HostMemory,
            "twice cached"
        );
        let nowhere = Facts::default();
        assert_eq!(label(&nowhere, Some(0.0), [None; 2]), ServedBy::Unknown);
    }

    #[test]
    fn a_compressed_image_that_was_cold_came_from_the_device() {
        let mut facts = on_disk();
        let cold = [Some(0.0), Some(0.0)];
        assert_eq!(label(&facts, Some(0.4), cold), ServedBy::Mixed);
        facts.notes.insert("compression".into(), "lz4".into());
        assert_eq!(label(&facts, Some(0.4), cold), ServedBy::Device);
        let half = [Some(0.0), Some(0.5)];
        assert_eq!(label(&facts, Some(0.4), half), ServedBy::Mixed);
    }

    #[test]
    fn the_words_say_what_the_label_rests_on() {
        let mut facts = on_disk();
        facts.backing.push("/x/image".into());
        let seen = seen(&facts, Some(0.000_04), [Some(0.03), Some(0.98)]);
        assert_eq!(
            said(&seen.evidence()),
            "device bytes / bytes read 0; file 3 % cached before the clock; its place in the image 98 % in host memory"
        );
    }

    #[test]
    fn of_a_guest_it_is_said_whose_memory_it_was() {
        let facts = Facts {
            guest: Some(layermark_model::GuestFacts::default()),
            ..on_disk()
        };
        for (device, guest, resident, expected) in [
            (Some(1.0), Some(1.0), Some(0.0), ServedBy::Device),
            (Some(0.0), Some(1.0), Some(0.0), ServedBy::HostMemory),
            (Some(0.0), Some(0.0), Some(1.0), ServedBy::GuestMemory),
            (Some(0.0), Some(0.5), Some(0.5), ServedBy::Mixed),
            (Some(0.4), Some(1.0), Some(0.0), ServedBy::Mixed),
            (Some(0.0), None, Some(1.0), ServedBy::GuestMemory),
            (Some(0.0), None, Some(0.0), ServedBy::HostMemory),
            (None, None, None, ServedBy::Unknown),
        ] {
            let seen = ReadSigns {
                guest,
                ..seen(&facts, device, [resident, None])
            };
            assert_eq!(
                seen.label(&reading()),
                Some(expected),
                "{device:?} {guest:?}"
            );
        }
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
        assert_eq!(label(&tmpfs, None, [None; 2]), ServedBy::HostMemory);
        let write = going(Direction::Writes);
        assert_eq!(seen(&on_disk(), Some(1.0), [None; 2]).label(&write), None);
    }
}
