//! Flags of a trial: what is wrong with it, in words that the report knows.

use layermark_model::{
    CacheState, DirectIo, DroppedCaches, Facts, ForeignWrites, Meaning, Target, Trial, Warmth,
    flags::{CACHE, CACHE_UNPROVED, DIRECT_IGNORED, MAJOR_FAULTS, VERIFY, WRITE_BACK},
};

/// From this share on, cached pages or bytes from a device show that the cache was not in the
/// requested state.
pub(crate) const SLACK: f64 = 0.05;

/// The trimmed mean leaves out a fifth of the turns at either end. What happens in more of them
/// affects it.
const TRIMMED: f64 = 0.2;

/// Bytes of a device that a name in memory may cost at most: a twentieth of ext4's smallest inode. Other programs
/// read as well.
const NAME: f64 = SLACK * 256.0;

/// Bytes of a device that others may read in any trial: a block of a file system.
const STRAY: f64 = 4096.0;

/// Bytes of a page, the least that a major fault fetches.
const PAGE: f64 = 4096.0;
/// Bytes of an input block (getrusage(2)).
const BLOCK: f64 = 512.0;

/// What is known about a trial from outside the probe.
pub(crate) struct TrialContext<'a> {
    /// The point only reads, so device bytes can be compared with application bytes.
    pub reads: bool,
    pub facts: &'a Facts,
    /// Cached share of the layer's backing files.
    pub backing: Option<f64>,
    /// What dropping the caches achieved.
    pub cooled: &'a DroppedCaches,
    /// A program in user space or another machine answers for the layer. What it has in memory, this kernel's
    /// caches do not show.
    pub served: bool,
}

impl TrialContext<'_> {
    /// Whether the data lies on a device whose reads are counted.
    fn counts_reads(&self, trial: &Trial) -> bool {
        trial.device.is_some() && self.has_device()
    }

    fn has_device(&self) -> bool {
        self.facts.devices.iter().any(|d| d.physical)
    }

    /// Whether every cache between the program and the device is a kernel's, which can be emptied and looked into.
    fn has_only_kernels(&self) -> bool {
        self.has_device() && !self.served
    }
}

/// All flags of a trial.
pub(crate) fn of(meaning: &Meaning, context: &TrialContext<'_>, trial: &Trial) -> Vec<String> {
    let mut flags: Vec<String> = cache(meaning, context, trial)
        .map(str::to_owned)
        .into_iter()
        .collect();
    if trial.direct == Some(DirectIo::Ignored) {
        flags.push(DIRECT_IGNORED.to_owned());
    }
    if trial.verified.is_some_and(|v| v.bad > 0) {
        flags.push(VERIFY.to_owned());
    }
    let in_memory = read_from_memory(meaning, context, trial) || meaning.target == Target::Script;
    if in_memory && trial.faults.is_some_and(|f| f.major > 0) {
        flags.push(MAJOR_FAULTS.to_owned());
    }
    let turns = trial.turns.len().max(1) as f64;
    let foreign = |f: ForeignWrites| f.turns as f64 > TRIMMED * turns;
    if trial.foreign_writes.is_some_and(foreign) {
        flags.push(WRITE_BACK.to_owned());
    }
    flags
}

/// Whether the point reads data from memory and never has to wait for it.
fn read_from_memory(meaning: &Meaning, context: &TrialContext<'_>, trial: &Trial) -> bool {
    let cached = !meaning.is_cold() && trial.direct.is_none();
    context.reads && cached && !meaning.runs_programs()
}

fn cache(meaning: &Meaning, context: &TrialContext<'_>, trial: &Trial) -> Option<&'static str> {
    let asked = meaning.cache?;
    let warmth = trial.warmth().filter(|_| meaning.proves_cache_by_faults());
    match (asked, warmth) {
        (_, Some(warmth)) => by_faults(asked, context, trial, warmth),
        (CacheState::Cold, None) => not_cold(context, trial),
        (CacheState::Warm, None) => not_warm(context, trial),
    }
}

fn not_cold(context: &TrialContext<'_>, trial: &Trial) -> Option<&'static str> {
    let cold = |share: f64| share <= SLACK;
    let share = device_share(context, trial);
    let all = |share: f64| share >= 1.0 - SLACK;
    // Compressed data is read as fewer bytes than the application gets.
    let too_few = share.is_some_and(|share| !all(share)) && !context.facts.compressed();
    // What others read proves nothing.
    let read_all = share.is_some_and(|share| all(share - by_others(trial)));
    let looks = [trial.resident.map(cold), context.backing.map(cold)];
    if too_few || looks.contains(&Some(false)) {
        return Some(CACHE);
    }
    // Names and attributes move no bytes and have no pages to check. A backing file that is not
    // cached proves nothing about the file in it.
    let seen = trial.bytes() > 0 && trial.resident.is_some();
    let emptied = context.has_only_kernels() && (seen || context.cooled.complete);
    (!read_all && !emptied).then_some(CACHE_UNPROVED)
}

fn not_warm(context: &TrialContext<'_>, trial: &Trial) -> Option<&'static str> {
    // With O_DIRECT there is no warm cache to prove.
    let direct = trial.direct == Some(DirectIo::Honoured);
    // What the page cache has is not read from a device, so bytes that crossed the device belong to
    // other programs.
    if direct || trial.resident.is_some_and(|share| share >= 1.0 - SLACK) {
        return None;
    }
    if let Some(share) = device_share(context, trial) {
        return (share - by_others(trial) > SLACK).then_some(CACHE);
    }
    // Of names only this is known: what is in memory is not read from a device.
    let read = trial.device.map(|device| device.read as f64);
    let read = read.filter(|_| trial.bytes() == 0 && context.counts_reads(trial));
    // Names that are not in memory cost a block of their directory and one of their inodes at least, so a single
    // block is not theirs.
    let few = (NAME * trial.ops() as f64).max(STRAY);
    let from_memory = |bytes: f64| bytes - read_by_others(trial) <= few;
    (!read.is_some_and(from_memory)).then_some(CACHE_UNPROVED)
}

/// The start of a program is proved by the page faults and read blocks of its own processes. Data in memory
/// causes neither, so the lack of both proves nothing about the warmth of anything else. They are this kernel's:
/// where a program or a machine answers them, what they fetched must have crossed a device.
fn by_faults(
    asked: CacheState,
    context: &TrialContext<'_>,
    trial: &Trial,
    warmth: Warmth,
) -> Option<&'static str> {
    match (asked, warmth) {
        (CacheState::Cold, Warmth::Warm) | (CacheState::Warm, Warmth::Cold) => Some(CACHE),
        (CacheState::Cold, Warmth::Uncertain) if !context.cooled.complete => Some(CACHE_UNPROVED),
        (CacheState::Cold, _) if !context.has_only_kernels() => {
            let fetched = fetched_by_faults(trial).max(1.0);
            let read = trial.device.filter(|_| context.counts_reads(trial));
            match read.map(|device| device.read as f64) {
                Some(all) if all <= SLACK * fetched => Some(CACHE),
                // What others read is estimated. That may take a proof away, and refutes nothing.
                Some(all) if all - read_by_others(trial) >= (1.0 - SLACK) * fetched => None,
                _ => Some(CACHE_UNPROVED),
            }
        }
        _ => None,
    }
}

/// Fewest bytes that the major faults and input blocks of a program's processes have fetched.
fn fetched_by_faults(trial: &Trial) -> f64 {
    let count = |name| trial.figures.number(name).unwrap_or(0.0);
    (count("major_faults") * PAGE).max(count("input_blocks") * BLOCK)
}

/// Bytes that others are expected to have read meanwhile, by the control windows.
fn read_by_others(trial: &Trial) -> f64 {
    let read = trial.background.and_then(|b| {
        let a_ns = b.read? as f64 / b.ns.max(1) as f64;
        Some(a_ns * trial.elapsed_ns() as f64)
    });
    read.unwrap_or(0.0)
}

/// The same over bytes read by the application.
fn by_others(trial: &Trial) -> f64 {
    read_by_others(trial) / trial.bytes().max(1) as f64
}

/// Bytes read from devices over bytes read by the application. `None` when one of them is not
/// known.
fn device_share(context: &TrialContext<'_>, trial: &Trial) -> Option<f64> {
    let device = trial.device?;
    let known = context.reads && trial.bytes() > 0 && context.counts_reads(trial);
    known.then(|| device.read as f64 / trial.bytes() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use CacheState::{Cold, Warm};
    use layermark_model::{Device, DeviceBytes, Faults, Pass, Turn, Verified};

    /// A point that asks for a state of the caches.
    fn asking(cache: CacheState) -> Meaning {
        Meaning {
            cache: Some(cache),
            ..Meaning::default()
        }
    }

    fn disk() -> Facts {
        Facts {
            devices: vec![Device {
                physical: true,
                ..Device::default()
            }],
            ..Facts::default()
        }
    }

    fn trial(read: u64, resident: f64) -> Trial {
        Trial {
            passes: vec![Pass {
                elapsed_ns: 1,
                ops: 1,
                bytes: 1000,
                ..Pass::default()
            }],
            device: Some(DeviceBytes {
                read,
                ..DeviceBytes::default()
            }),
            resident: Some(resident),
            ..Trial::default()
        }
    }

    /// Flags where no cache could be emptied as a whole.
    fn flags(
        meaning: &Meaning,
        reads: bool,
        facts: &Facts,
        backing: Option<f64>,
        trial: &Trial,
    ) -> Vec<String> {
        let context = TrialContext {
            reads,
            facts,
            backing,
            cooled: &DroppedCaches::default(),
            served: false,
        };
        of(meaning, &context, trial)
    }

    /// The same in a layer that a program serves, all kernel caches of which were emptied.
    fn served(meaning: &Meaning, facts: &Facts, trial: &Trial) -> Vec<String> {
        let context = TrialContext {
            reads: true,
            facts,
            backing: None,
            cooled: &DroppedCaches {
                complete: true,
                ..DroppedCaches::default()
            },
            served: true,
        };
        of(meaning, &context, trial)
    }

    #[test]
    fn cold_must_be_proved_by_pages_backing_and_device() {
        let cold = asking(Cold);
        let flagged = |t: &Trial, backing| !flags(&cold, true, &disk(), backing, t).is_empty();
        assert!(!flagged(&trial(1000, 0.0), None));
        assert!(
            !flagged(&trial(2000, 0.05), Some(0.05)),
            "read-ahead is no sin"
        );
        assert!(flagged(&trial(1000, 0.2), None));
        assert!(flagged(&trial(1000, 0.0), Some(0.2)));
        assert!(flagged(&trial(900, 0.0), None));
        let nowhere = flags(&cold, true, &Facts::default(), None, &trial(0, 0.0));
        assert_eq!(nowhere, [CACHE_UNPROVED], "no disk below");
        assert!(
            flags(&cold, false, &disk(), None, &trial(0, 0.0)).is_empty(),
            "a write"
        );
    }

    #[test]
    fn a_compressed_layer_reads_less_than_it_gives() {
        let mut facts = disk();
        facts.notes.insert("compression".into(), "lz4".into());
        let flagged =
            |t: &Trial, backing| !flags(&asking(Cold), true, &facts, backing, t).is_empty();
        assert!(!flagged(&trial(400, 0.0), Some(0.0)));
        assert!(
            flagged(&trial(400, 0.0), Some(0.5)),
            "the image was in memory"
        );
    }

    #[test]
    fn cold_without_evidence_is_not_proved() {
        let (meaning, facts) = (asking(Cold), disk());
        let with = |complete, trial: &Trial| {
            let cooled = DroppedCaches {
                complete,
                ..DroppedCaches::default()
            };
            let context = TrialContext {
                reads: true,
                facts: &facts,
                backing: Some(0.0),
                cooled: &cooled,
                served: false,
            };
            of(&meaning, &context, trial)
        };
        let blind = Trial {
            device: None,
            resident: None,
            ..trial(0, 0.0)
        };
        assert_eq!(with(false, &blind), [CACHE_UNPROVED]);
        assert!(with(true, &blind).is_empty());
        let by_device = Trial {
            resident: None,
            ..trial(1000, 0.0)
        };
        assert!(with(false, &by_device).is_empty());
        // Opening and stat: pages that are not cached prove nothing about names.
        let mut names = trial(0, 0.0);
        names.passes[0].bytes = 0;
        assert_eq!(with(false, &names), [CACHE_UNPROVED]);
        assert!(with(true, &names).is_empty());
    }

    /// A server with a memory of its own: nothing in this kernel's cache, and nothing read from a device.
    /// "Cold was cold" was said of it.
    #[test]
    fn what_a_server_has_in_memory_is_not_proved_by_this_kernels_cache() {
        let (cold, warm) = (asking(Cold), asking(Warm));
        let unknown = Facts::default();
        for device in [None, Some(DeviceBytes::default())] {
            let trial = Trial {
                device,
                ..trial(0, 0.0)
            };
            assert_eq!(served(&cold, &unknown, &trial), [CACHE_UNPROVED]);
            // One that reads with O_DIRECT each time looks the same.
            assert_eq!(served(&warm, &unknown, &trial), [CACHE_UNPROVED]);
        }
        assert!(served(&warm, &unknown, &trial(0, 1.0)).is_empty(), "here");
        // Its device is known.
        for (read, of_cold, of_warm) in [(1000, None, Some(CACHE)), (0, Some(CACHE), None)] {
            let trial = trial(read, 0.0);
            let found = |asked| served(asked, &disk(), &trial).pop();
            assert_eq!(found(&cold).as_deref(), of_cold, "{read}");
            assert_eq!(found(&warm).as_deref(), of_warm, "{read}");
        }
    }

    /// Others read 2.3 times as much as the application meanwhile, and the server nothing.
    #[test]
    fn what_others_read_proves_no_cold_server() {
        let beside = |in_windows| {
            let mut beside = trial(2300, 0.0);
            beside.passes[0].elapsed_ns = 1000;
            beside.background = Some(layermark_model::DeviceBackground {
                read: Some(in_windows),
                ns: 100,
                ..layermark_model::DeviceBackground::default()
            });
            served(&asking(Cold), &disk(), &beside)
        };
        assert!(beside(0).is_empty() && beside(134).is_empty());
        assert_eq!(beside(137), [CACHE_UNPROVED]);
        assert_eq!(beside(230), [CACHE_UNPROVED]);
    }

    #[test]
    fn names_from_a_server_are_proved_by_nothing_and_warm_ones_by_a_silent_device() {
        let names = |read, ops| {
            let mut trial = trial(read, 0.0);
            (trial.passes[0].bytes, trial.passes[0].ops) = (0, ops);
            trial
        };
        let (cold, warm) = (asking(Cold), asking(Warm));
        assert_eq!(served(&cold, &disk(), &names(4096, 10)), [CACHE_UNPROVED]);
        assert!(served(&warm, &disk(), &names(0, 10)).is_empty());
        // One block is a stray one: a cold directory and its inodes are two.
        assert!(served(&warm, &disk(), &names(4096, 10)).is_empty());
        assert_eq!(served(&warm, &disk(), &names(8192, 10)), [CACHE_UNPROVED]);
        assert!(served(&warm, &disk(), &names(8192, 1000)).is_empty());
        let unknown = Facts::default();
        assert_eq!(served(&warm, &unknown, &names(0, 10)), [CACHE_UNPROVED]);
    }

    fn launched(major_faults: u64) -> Trial {
        let mut trial = Trial::default();
        trial.figures.set("major_faults", major_faults);
        trial.figures.set("input_blocks", 0_u64);
        trial
    }

    fn launching(cache: Option<CacheState>) -> Meaning {
        Meaning {
            target: Target::Program,
            cache,
            ..Meaning::default()
        }
    }

    #[test]
    fn faults_that_a_server_answers_must_have_crossed_a_device() {
        let reading = |read| Trial {
            device: Some(DeviceBytes {
                read,
                ..DeviceBytes::default()
            }),
            ..launched(10)
        };
        let of = |facts: &Facts, trial: &Trial| served(&launching(Some(Cold)), facts, trial);
        assert!(of(&disk(), &reading(40_960)).is_empty());
        assert_eq!(of(&disk(), &reading(0)), [CACHE]);
        assert_eq!(of(&disk(), &reading(20_000)), [CACHE_UNPROVED]);
        assert_eq!(of(&Facts::default(), &reading(40_960)), [CACHE_UNPROVED]);
        // Others are expected to have read as much meanwhile. "Refuted", though the device had read all of it.
        let beside = |read| {
            let mut beside = reading(read);
            beside.passes.push(Pass {
                elapsed_ns: 1000,
                ..Pass::default()
            });
            beside.background = Some(layermark_model::DeviceBackground {
                read: Some(4096),
                ns: 100,
                ..layermark_model::DeviceBackground::default()
            });
            of(&disk(), &beside)
        };
        assert_eq!(beside(40_960), [CACHE_UNPROVED]);
        assert!(beside(81_920).is_empty());
        assert_eq!(beside(2000), [CACHE]);
    }

    #[test]
    fn a_launch_is_proved_by_its_own_faults() {
        let of = |cache, faults| {
            flags(
                &launching(Some(cache)),
                true,
                &disk(),
                None,
                &launched(faults),
            )
        };
        assert!(of(Cold, 90).is_empty() && of(Warm, 0).is_empty());
        let as_is = flags(&launching(None), true, &disk(), None, &launched(5));
        assert!(as_is.is_empty());
        assert_eq!(
            (of(Cold, 0), of(Warm, 90)),
            (vec![CACHE.into()], vec![CACHE.into()])
        );
        assert_eq!(of(Cold, 1), [CACHE_UNPROVED]);
    }

    #[test]
    fn what_asks_for_no_cache_has_none_to_prove() {
        let making = Meaning::default();
        assert!(flags(&making, false, &disk(), None, &Trial::default()).is_empty());
    }

    #[test]
    fn warm_must_not_come_from_a_device() {
        let warm = asking(Warm);
        assert!(flags(&warm, true, &disk(), Some(1.0), &trial(50, 0.5)).is_empty());
        assert_eq!(flags(&warm, true, &disk(), None, &trial(51, 0.5)), [CACHE]);
        assert!(
            flags(&warm, true, &disk(), None, &trial(51, 1.0)).is_empty(),
            "somebody else's bytes"
        );
        assert!(flags(&Meaning::default(), true, &disk(), None, &trial(51, 0.5)).is_empty());
        let direct = Trial {
            direct: Some(DirectIo::Honoured),
            ..trial(1000, 0.0)
        };
        assert!(flags(&warm, true, &disk(), None, &direct).is_empty());
    }

    #[test]
    fn a_cached_read_waits_for_no_page() {
        let with = |major| Trial {
            faults: Some(Faults { minor: 9, major }),
            ..trial(1000, 1.0)
        };
        let found = |cache, reads, t: &Trial| flags(&asking(cache), reads, &disk(), Some(0.0), t);
        assert_eq!(found(Warm, true, &with(1)), [MAJOR_FAULTS]);
        assert!(found(Warm, true, &with(0)).is_empty());
        assert!(found(Warm, false, &with(1)).is_empty(), "a write");
        let scripts = Meaning {
            target: Target::Script,
            ..Meaning::default()
        };
        let found_in_scripts = flags(&scripts, false, &disk(), None, &with(1));
        assert_eq!(found_in_scripts, [MAJOR_FAULTS]);
        let mut cold = with(1);
        cold.resident = Some(0.0);
        assert!(found(Cold, true, &cold).is_empty());
        let past_it = Trial {
            direct: Some(DirectIo::Honoured),
            ..with(1)
        };
        assert!(found(Warm, true, &past_it).is_empty());
    }

    #[test]
    fn write_back_of_others_counts_where_the_trimmed_mean_has_it() {
        let in_turns = |foreign, all| Trial {
            turns: vec![Turn::default(); all],
            foreign_writes: Some(layermark_model::ForeignWrites {
                turns: foreign,
                bytes: 1 << 20,
            }),
            ..trial(0, 1.0)
        };
        let found = |t: &Trial| flags(&asking(Warm), true, &disk(), None, t);
        assert_eq!(found(&in_turns(2, 8)), [WRITE_BACK]);
        assert!(found(&in_turns(2, 10)).is_empty());
        assert_eq!(found(&in_turns(1, 0)), [WRITE_BACK], "one stretch");
    }

    #[test]
    fn says_what_became_of_o_direct_and_of_the_data() {
        let with = |direct, bad| Trial {
            direct: Some(direct),
            verified: Some(Verified { records: 9, bad }),
            ..Trial::default()
        };
        let found = |t: &Trial| flags(&Meaning::default(), true, &disk(), None, t);
        assert_eq!(found(&with(DirectIo::Ignored, 1)), [DIRECT_IGNORED, VERIFY]);
        assert!(found(&with(DirectIo::Honoured, 0)).is_empty());
    }
}
