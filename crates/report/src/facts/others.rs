//! What other programs did at the devices: from the control windows, and from devices of a layer's own.

use layermark_model::{
    Amount, DeviceBackground, DeviceBytes, Direction, Meaning, Mount, Quantity, Target, Trial, Unit,
};

use crate::types::{DurabilityVerdict, FewerBytes, ResultRow, ServedBy, WrittenBytes};

/// Up to this share of what a device counted, others are silent.
pub const SILENT: f64 = 0.1;

/// What a device counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceCounter {
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Flushes.
    Flushes,
}

impl DeviceCounter {
    /// The counter behind an amount of a figure.
    pub fn behind(amount: &Amount) -> Option<Self> {
        match amount {
            Amount::DeviceFlushes => Some(Self::Flushes),
            Amount::DeviceWritten => Some(Self::Written),
            _ => None,
        }
    }

    fn of(self, device: DeviceBytes) -> u64 {
        match self {
            Self::Read => device.read,
            Self::Written => device.written,
            Self::Flushes => device.flushes,
        }
    }

    fn in_windows(self, background: DeviceBackground) -> Option<u64> {
        match self {
            Self::Read => background.read,
            Self::Written => background.written,
            Self::Flushes => Some(background.flushes),
        }
    }
}

/// Share of what the devices counted in these trials that others are expected to have caused (0..=1), all
/// trials together: a window is short. `None` without windows, as in older runs.
pub fn share(trials: &[&Trial], counter: DeviceCounter) -> Option<f64> {
    let (mut of_all, mut ns, mut seen, mut window_ns) = (0, 0, 0, 0);
    for trial in trials {
        let background = trial.background?;
        seen += counter.in_windows(background)?;
        window_ns += background.ns;
        of_all += counter.of(trial.device?);
        ns += trial.elapsed_ns();
    }
    match (seen, window_ns) {
        (_, 0) => None,
        (0, _) => Some(0.0),
        _ => Some((seen as f64 / window_ns as f64 * ns as f64 / of_all.max(1) as f64).min(1.0)),
    }
}

/// The trials' counts, if they are the layer's: of its own devices, or of devices at which the windows show
/// no others.
pub fn own_counts(trials: &[&Trial], counter: DeviceCounter) -> Option<Vec<u64>> {
    let own = trials.iter().map(|t| Some(counter.of(t.own_device?)));
    let shared = || trials.iter().map(|t| Some(counter.of(t.device?)));
    own.collect::<Option<_>>().or_else(|| {
        let silent = share(trials, counter).is_some_and(|others| others <= SILENT);
        silent.then(|| shared().collect())?
    })
}

/// The same, and all counts of older runs, in which nobody looked what others did.
pub fn counts(trials: &[&Trial], counter: DeviceCounter) -> Option<Vec<u64>> {
    let shared = || trials.iter().map(|t| Some(counter.of(t.device?)));
    let unknown = share(trials, counter).is_none();
    own_counts(trials, counter).or_else(|| unknown.then(|| shared().collect())?)
}

/// Bytes that the devices wrote for each byte of the application, if they are the layer's and the point waits
/// for them: an unflushed write does not.
pub fn written(meaning: &Meaning, trials: &[&Trial]) -> Option<WrittenBytes> {
    let writes = meaning.target == Target::Data && meaning.direction == Direction::Writes;
    if !writes || !meaning.flushes && !meaning.is_direct() {
        return None;
    }
    let counts = own_counts(trials, DeviceCounter::Written)?.into_iter();
    let with_bytes = counts.zip(trials).filter(|(_, t)| t.bytes() > 0);
    let shares = with_bytes.map(|(written, t)| written as f64 / t.bytes() as f64);
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_by(f64::total_cmp);
    let (quarter, last) = (shares.len() / 4, shares.len().checked_sub(1)?);
    Some(WrittenBytes {
        typical: shares[last / 2],
        quartiles: [shares[quarter], shares[last - quarter]],
    })
}

/// Up to this share of the application's bytes at the device, the result depends on the data.
const FEW: f64 = 0.5;

/// Whether far fewer bytes crossed the device than the application moved although the operations waited
/// for them, or the mount compresses and nobody counted. Without a flush, what
/// was written may still be in a page cache: with `O_DIRECT` in that of a server or a host.
pub fn fewer(
    row: &ResultRow,
    facts: &layermark_model::Facts,
    trials: &[&Trial],
) -> Option<FewerBytes> {
    let meaning = &row.meaning;
    let application: u64 = trials.iter().map(|t| t.bytes()).sum();
    let flushed = row.durability.verdict == DurabilityVerdict::Honoured;
    let counts = match (meaning.target, meaning.direction) {
        _ if application == 0 => return None,
        (Target::Data, Direction::Writes) if flushed && !written_again(meaning, trials) => {
            own_counts(trials, DeviceCounter::Written)
        }
        // Nothing of it was cached, and all came from the device.
        (Target::Data, Direction::Reads) if row.served_by == Some(ServedBy::Device) => {
            trials.iter().map(|t| Some(t.device?.read)).collect()
        }
        _ => return None,
    };
    let device = counts.map(|counts| counts.iter().sum::<u64>());
    let mounted = facts.mounts.iter().find_map(Mount::compression);
    let mounted = mounted.map(|(_, option)| option.to_owned());
    let few = |device: u64| (device as f64) < FEW * application as f64;
    let told = device.map_or(mounted.is_some(), few);
    told.then_some(FewerBytes {
        device,
        application,
        mounted,
    })
}

/// Whether an application writes more than its flushes cover: bytes that it wrote again before a flush reach
/// the device once.
fn written_again(meaning: &Meaning, trials: &[&Trial]) -> bool {
    let covered = match meaning.operation.as_str() {
        // The first record of the file, over and over.
        "record-rewrite" => Quantity::RequestSize,
        _ => Quantity::DataSize,
    };
    let covered = meaning
        .value(covered)
        .filter(|_| meaning.unit == Unit::Byte);
    let more = |covered: u64| {
        let mut trials = trials.iter();
        trials.any(|t| t.bytes() > t.syncs.saturating_mul(covered))
    };
    covered.is_some_and(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Facts, Pass};

    use crate::{statements::remarks, words::said};

    /// 10 ms on the clock and 1 ms of windows.
    fn trial(written: u64, in_windows: u64) -> Trial {
        Trial {
            passes: vec![Pass {
                elapsed_ns: 10_000_000,
                ops: 1,
                bytes: 1000,
                ..Pass::default()
            }],
            device: Some(DeviceBytes {
                written,
                ..DeviceBytes::default()
            }),
            background: Some(DeviceBackground {
                written: Some(in_windows),
                ns: 1_000_000,
                ..DeviceBackground::default()
            }),
            ..Trial::default()
        }
    }

    fn counted(trials: &[Trial]) -> (Option<Vec<u64>>, Option<Vec<u64>>) {
        let trials: Vec<&Trial> = trials.iter().collect();
        let counter = DeviceCounter::Written;
        (own_counts(&trials, counter), counts(&trials, counter))
    }

    #[test]
    fn a_count_is_the_layers_where_the_windows_of_all_trials_are_silent() {
        let both = Some(vec![2000, 2000]);
        // 38 bytes in 2 ms of windows: 380 of the 4000 in 20 ms are of others.
        let all = counted(&[trial(2000, 38), trial(2000, 0)]);
        assert_eq!(all, (both.clone(), both.clone()), "less than a tenth");
        let all = counted(&[trial(2000, 42), trial(2000, 0)]);
        assert_eq!(all, (None, None), "more than a tenth");
        assert_eq!(counted(&[trial(0, 1)]), (None, None), "only of others");
        let mut older = trial(2000, 0);
        older.background.as_mut().unwrap().written = None;
        assert_eq!(counted(&[older.clone(), older]), (None, both));
    }

    #[test]
    fn what_others_write_does_not_reach_a_device_of_the_layers_own() {
        let mut busy = trial(90_000, 9000);
        busy.own_device = Some(DeviceBytes {
            written: 6000,
            ..DeviceBytes::default()
        });
        assert_eq!(counted(&[busy]).0, Some(vec![6000]));
    }

    #[test]
    fn only_what_an_operation_waits_for_counts() {
        let flushed = Meaning {
            direction: Direction::Writes,
            flushes: true,
            ..Meaning::default()
        };
        let all: Vec<Trial> = [3000, 2000, 2000, 50_000, 1000].map(|w| trial(w, 0)).into();
        let all: Vec<&Trial> = all.iter().collect();
        let found = written(&flushed, &all).unwrap();
        assert_eq!((found.typical, found.quartiles), (2.0, [2.0, 3.0]));
        let unflushed = Meaning {
            flushes: false,
            ..flushed.clone()
        };
        assert_eq!(written(&unflushed, &all), None);
        let direct = Meaning {
            direct: Some(true),
            ..unflushed
        };
        assert!(written(&direct, &all).is_some());
        assert_eq!(written(&flushed, &[]), None);
    }

    #[test]
    fn a_layer_that_stores_less_than_it_is_given_measures_the_data() {
        let mut row = ResultRow {
            meaning: Meaning {
                direction: Direction::Writes,
                flushes: true,
                ..Meaning::default()
            },
            ..ResultRow::default()
        };
        row.durability.verdict = DurabilityVerdict::Honoured;
        let facts = |options: &str| Facts {
            mounts: vec![Mount {
                options: options.into(),
                ..Mount::default()
            }],
            ..Facts::default()
        };
        let plain = facts("rw,noatime");
        let mut words = |facts: &Facts, trial: &Trial| {
            row.fewer_bytes = fewer(&row, facts, &[trial]);
            remarks::fewer_bytes(&row).map(|r| said(&r))
        };
        let zeros = trial(34, 0);
        let told = words(&plain, &zeros).unwrap();
        assert_eq!(
            told,
            "0.034 of 1.0 kB reached the device: this measures the data"
        );
        assert_eq!(words(&plain, &trial(900, 0)), None);
        let option = facts("rw,compress=zstd:3");
        assert_eq!(words(&option, &trial(1000, 0)), None, "random data");
        let told = words(&option, &zeros).unwrap();
        assert!(
            told.contains("device, its mount has `compress=zstd:3`: this"),
            "{told}"
        );
        // Others use the device.
        let busy = trial(1000, 900);
        assert_eq!(
            words(&option, &busy).unwrap(),
            "its mount has `compress=zstd:3`: this may depend on the data"
        );
        assert_eq!(fewer(&row, &plain, &[&busy]), None);
        // What a layer with a lost flush has not written says nothing about the data.
        row.durability.verdict = DurabilityVerdict::Absorbed;
        assert_eq!(fewer(&row, &plain, &[&zeros]), None);
        // Nor what needs no flush: with O_DIRECT it may be in the page cache of a server or of a host.
        row.durability.verdict = DurabilityVerdict::NotAsked;
        row.meaning.flushes = false;
        assert_eq!(fewer(&row, &option, &[&zeros]), None, "buffered");
        row.meaning.direct = Some(true);
        assert_eq!(fewer(&row, &option, &[&zeros]), None, "direct");
        row.meaning.direction = Direction::Reads;
        row.served_by = Some(ServedBy::Device);
        let mut read = trial(0, 0);
        read.passes[0].bytes = 67_000_000;
        read.device = Some(DeviceBytes {
            read: 2_340_000,
            ..DeviceBytes::default()
        });
        row.fewer_bytes = fewer(&row, &plain, &[&read]);
        let told = said(&remarks::fewer_bytes(&row).unwrap());
        assert_eq!(
            told,
            "2.3 of 67 MB came from the device: this measures the data"
        );
        row.served_by = Some(ServedBy::Mixed);
        assert_eq!(fewer(&row, &plain, &[&read]), None, "some was cached");
    }

    #[test]
    fn what_is_written_again_before_a_flush_reaches_the_device_once() {
        let told = |operation: &str, syncs: u64, size: u64| {
            let meaning = Meaning {
                operation: operation.into(),
                direction: Direction::Writes,
                unit: Unit::Byte,
                flushes: true,
                ..Meaning::default()
            };
            let meaning = meaning.axis(Quantity::RequestSize, "record", 100);
            let mut row = ResultRow {
                meaning: meaning.axis(Quantity::DataSize, "file_size", size),
                ..ResultRow::default()
            };
            row.durability.verdict = DurabilityVerdict::Honoured;
            let mut trial = trial(100, 0);
            trial.syncs = syncs;
            fewer(&row, &Facts::default(), &[&trial]).is_some()
        };
        // Ten records of 100 bytes.
        assert!(told("rewrite", 1, 1000));
        assert!(!told("rewrite", 1, 500), "the file twice for one flush");
        assert!(told("rewrite", 2, 500));
        assert!(!told("record-rewrite", 1, 1000), "one record for one flush");
        assert!(told("record-rewrite", 10, 1000), "each is flushed");
    }
}
