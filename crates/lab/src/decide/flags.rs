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

/// What is known about a trial from outside the probe.
pub(crate) struct TrialContext<'a> {
    /// The point only reads, so device bytes can be compared with application bytes.
    pub reads: bool,
    pub facts: &'a Facts,
    /// Cached share of the layer's backing files.
    pub backing: Option<f64>,
    /// What dropping the caches achieved.
    pub cooled: &'a DroppedCaches,
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
    if let Some(warmth) = warmth {
        return by_faults(asked, context, warmth);
    }
    let from_device = device_share(context, trial);
    if asked == CacheState::Cold {
        let cold = |share: f64| share <= SLACK;
        let read = from_device.map(|share| share >= 1.0 - SLACK);
        // Compressed data is read as fewer bytes than the application gets.
        let read = read.filter(|all| *all || !context.facts.compressed());
        let looks = [trial.resident.map(cold), context.backing.map(cold), read];
        if looks.contains(&Some(false)) {
            return Some(CACHE);
        }
        // Names and attributes move no bytes and have no pages to check. A backing file that is not
        // cached proves nothing about the file in it.
        let moves = trial.bytes() > 0;
        let seen = moves && (trial.resident.is_some() || read.is_some());
        return (!seen && !context.cooled.complete).then_some(CACHE_UNPROVED);
    }
    // With O_DIRECT there is no warm cache to prove. Data from the page cache is not read from a
    // device, so bytes that crossed the device belong to other programs.
    let warm = trial.direct == Some(DirectIo::Honoured)
        || trial.resident.is_some_and(|share| share >= 1.0 - SLACK)
        || from_device.is_none_or(|share| share - by_others(trial) <= SLACK);
    (!warm).then_some(CACHE)
}

/// The start of a program is proved by the page faults and read blocks of its own processes. Data in memory
/// causes neither, so the lack of both proves nothing about the warmth of anything else.
fn by_faults(
    asked: CacheState,
    context: &TrialContext<'_>,
    warmth: Warmth,
) -> Option<&'static str> {
    match (asked, warmth) {
        (CacheState::Cold, Warmth::Warm) | (CacheState::Warm, Warmth::Cold) => Some(CACHE),
        (CacheState::Cold, Warmth::Uncertain) if !context.cooled.complete => Some(CACHE_UNPROVED),
        _ => None,
    }
}

/// Bytes that others are expected to have read meanwhile, by the control windows, over bytes read by the
/// application.
fn by_others(trial: &Trial) -> f64 {
    let read = trial.background.and_then(|b| {
        let a_ns = b.read? as f64 / b.ns.max(1) as f64;
        Some(a_ns * trial.elapsed_ns() as f64)
    });
    read.unwrap_or(0.0) / trial.bytes().max(1) as f64
}

/// Bytes read from devices over bytes read by the application. `None` when one of them is not
/// known.
fn device_share(context: &TrialContext<'_>, trial: &Trial) -> Option<f64> {
    let device = trial.device?;
    let known =
        context.reads && trial.bytes() > 0 && context.facts.devices.iter().any(|d| d.physical);
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
        assert!(
            flags(&cold, true, &Facts::default(), None, &trial(0, 0.0)).is_empty(),
            "no disk below"
        );
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

    #[test]
    fn a_launch_is_proved_by_its_own_faults() {
        let launched = |major_faults: u64| {
            let mut trial = Trial::default();
            trial.figures.set("major_faults", major_faults);
            trial.figures.set("input_blocks", 0_u64);
            trial
        };
        let launching = |cache| Meaning {
            target: Target::Program,
            cache,
            ..Meaning::default()
        };
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
