//! Whether flushes reached the device: configuration, plausibility, flush accounting.

use layermark_model::{Facts, Trial};

use crate::{
    analysis::facts,
    number,
    types::{Durability, DurabilityVerdict, Estimate},
};

/// Flushes counted below this share of the calls are background noise, not an answer.
const ABSORBED_BELOW: f64 = 0.05;
/// Flushes counted from this share of the calls on answer them; the rest is journal commits shared.
const HONOURED_FROM: f64 = 0.9;
/// Fewer syncs than this, over all blocks together, tell nothing.
const FEWEST_SYNCS: u64 = 8;
/// From this many on a share of them decides. With fewer, a stray flush or a shared journal commit
/// would, so all of them have to say the same and nobody else may have flushed meanwhile.
const MANY_SYNCS: u64 = 20;
/// A flush in less than this part of native's time is suspicious.
const SUSPICIOUS_RATIO: f64 = 0.5;

/// Flushing calls of a point in one layer, and what the devices counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Flushes {
    /// Calls.
    pub syncs: u64,
    /// Counted by the devices; absent when a trial has no device counters.
    pub counted: Option<u64>,
    /// Flushes that the devices would have counted in the same time with nobody at work.
    pub background: f64,
}

impl Flushes {
    /// Counted by the devices and not to be expected anyway.
    fn own(&self) -> Option<f64> {
        Some((self.counted? as f64 - self.background).max(0.0))
    }
}

/// Adds the trials of a point up.
pub fn flushes<'a>(trials: impl Iterator<Item = &'a Trial>) -> Flushes {
    let mut sum = Flushes {
        syncs: 0,
        counted: Some(0),
        background: 0.0,
    };
    let mut any = false;
    for trial in trials {
        any = true;
        sum.syncs += trial.syncs;
        sum.background += trial.idle_flushes.unwrap_or(0.0) * trial.elapsed_ns() as f64 / 1e9;
        sum.counted = sum.counted.zip(trial.device).map(|(n, d)| n + d.flushes);
    }
    if any { sum } else { Flushes::default() }
}

/// What a layer is judged with.
pub struct Case<'a> {
    /// The point flushes inside the clock.
    pub flushes: bool,
    /// The layer's facts.
    pub facts: &'a Facts,
    /// What the layer did.
    pub here: Flushes,
    /// What native did at the same point; the layer's own when it is native.
    pub native: Flushes,
    /// Time an operation against native, when known.
    pub ratio: Option<&'a Estimate>,
}

/// The verdict on a point in a layer.
pub fn judge(case: &Case) -> Durability {
    let answer = |verdict, level: Option<&str>, because: Option<String>| Durability {
        verdict,
        level: level.map(Into::into),
        flushes: case.here.counted,
        syncs: case.here.syncs,
        because,
        suspicion: None,
    };
    if !case.flushes || case.here.syncs == 0 {
        return answer(DurabilityVerdict::NotAsked, None, None);
    }
    let (verdict, level, because) = account(case);
    let mut durability = answer(verdict, Some(level), Some(because));
    if verdict != DurabilityVerdict::Honoured {
        durability.suspicion = suspicion(case);
    }
    durability
}

fn account(case: &Case) -> (DurabilityVerdict, &'static str, String) {
    use DurabilityVerdict::{Absorbed, CannotTell, Honoured};
    let unsure = |level, text: &str| (CannotTell, level, text.to_owned());
    if case.facts.in_memory() {
        return unsure("L0", "the data lies in memory: there is no device to flush");
    }
    if facts::physical(case.facts).is_empty() {
        return unsure("L0", "no physical device is known below this layer");
    }
    if !facts::volatile_cache(case.facts) {
        let text = if facts::cache_known(case.facts) {
            "the device says it writes through and needs no flush"
        } else {
            "the device does not say whether its cache is volatile"
        };
        return unsure("L2", text);
    }
    let (Some(counted), Some(own)) = (case.here.counted, case.here.own()) else {
        return unsure("L1", "the device's flushes were not counted");
    };
    if case.here.syncs < FEWEST_SYNCS {
        let syncs = number::count(case.here.syncs as usize, "sync");
        let text = format!("{syncs} in all are too few to tell: {FEWEST_SYNCS} are needed");
        return unsure("L2", &text);
    }
    // Whether the device counts at all; what others flush may be among it.
    let calibrated = case.native.syncs > 0
        && case
            .native
            .counted
            .is_some_and(|n| n as f64 >= HONOURED_FROM * case.native.syncs as f64);
    let mut text = format!("{counted} device flushes for {} syncs", case.here.syncs);
    if case.here.background >= 0.5 {
        let others = case.here.background;
        text = format!("{text}, about {others:.0} of them not its own");
    }
    let share = own / case.here.syncs as f64;
    let few = case.here.syncs < MANY_SYNCS;
    if few && (case.here.background >= 0.5 || (counted > 0 && share < 1.0)) {
        return unsure(
            "L2",
            &format!("{text}: too few to tell, {MANY_SYNCS} are needed"),
        );
    }
    if share >= HONOURED_FROM {
        (Honoured, "L2", text)
    } else if !calibrated {
        (
            CannotTell,
            "L2",
            format!("{text}, and the device does not count native's either"),
        )
    } else if share <= ABSORBED_BELOW {
        (
            Absorbed,
            "L2",
            format!("{text}, on a device whose cache is volatile"),
        )
    } else {
        (CannotTell, "L2", format!("{text}: only some were answered"))
    }
}

/// L1: faster than the flush below it can be.
fn suspicion(case: &Case) -> Option<String> {
    let ratio = case.ratio?;
    let bound = ratio.interval.map_or(ratio.estimate, |[_, high]| high);
    (bound < SUSPICIOUS_RATIO).then(|| {
        format!(
            "{}x as fast as native's flush",
            crate::number::sig3(1.0 / ratio.estimate)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Device, Mount};

    fn facts_on(fs: &str, write_cache: &str) -> Facts {
        let device = Device {
            name: "vda".into(),
            write_cache: write_cache.into(),
            physical: true,
            ..Device::default()
        };
        Facts {
            mounts: vec![Mount {
                fs: fs.into(),
                ..Mount::default()
            }],
            devices: vec![device],
            ..Facts::default()
        }
    }

    fn verdict(facts: &Facts, here: Option<u64>, native: Option<u64>, ratio: f64) -> Durability {
        let ratio = Estimate {
            estimate: ratio,
            interval: Some([ratio * 0.9, ratio * 1.1]),
        };
        let count = |counted| Flushes {
            syncs: 200,
            counted,
            background: 0.0,
        };
        judge(&Case {
            flushes: true,
            facts,
            here: count(here),
            native: count(native),
            ratio: Some(&ratio),
        })
    }

    #[test]
    fn tells_an_honest_layer_from_a_liar() {
        let disk = facts_on("overlay", "write back");
        assert_eq!(
            verdict(&disk, Some(203), Some(201), 1.0).verdict,
            DurabilityVerdict::Honoured
        );
        let liar = verdict(&disk, Some(0), Some(201), 0.03);
        assert_eq!(
            (liar.verdict, liar.level.as_deref()),
            (DurabilityVerdict::Absorbed, Some("L2"))
        );
        assert_eq!(
            liar.suspicion.as_deref(),
            Some("33.3x as fast as native's flush")
        );
        assert_eq!(
            verdict(&disk, Some(100), Some(201), 1.0).verdict,
            DurabilityVerdict::CannotTell
        );
    }

    #[test]
    fn convicts_nobody_without_proof() {
        let cases = [
            (facts_on("tmpfs", ""), Some(0), Some(201), "L0"),
            (Facts::default(), Some(0), Some(201), "L0"),
            (facts_on("ext4", "write through"), Some(0), Some(0), "L2"),
            (facts_on("ext4", "write back"), None, Some(201), "L1"),
            (facts_on("ext4", "write back"), Some(0), Some(0), "L2"),
            (facts_on("ext4", "write back"), Some(0), None, "L2"),
        ];
        for (facts, here, native, level) in cases {
            let d = verdict(&facts, here, native, 0.1);
            assert_eq!(
                (d.verdict, d.level.as_deref()),
                (DurabilityVerdict::CannotTell, Some(level)),
                "{facts:?}"
            );
            assert!(d.suspicion.is_some());
        }
    }

    fn with(here: Flushes) -> Durability {
        judge(&Case {
            flushes: true,
            facts: &facts_on("overlay", "write back"),
            here,
            native: Flushes {
                syncs: 200,
                counted: Some(230),
                background: 30.0,
            },
            ratio: None,
        })
    }

    #[test]
    fn what_the_device_flushes_anyway_answers_no_sync() {
        let busy = |counted| Flushes {
            syncs: 200,
            counted: Some(counted),
            background: 30.0,
        };
        let liar = with(busy(32));
        assert_eq!(liar.verdict, DurabilityVerdict::Absorbed);
        assert_eq!(
            liar.because.as_deref(),
            Some(
                "32 device flushes for 200 syncs, about 30 of them not its own, on a device whose cache is volatile"
            )
        );
        assert_eq!(with(busy(231)).verdict, DurabilityVerdict::Honoured);
        assert_eq!(with(busy(190)).verdict, DurabilityVerdict::CannotTell);
        let trial = Trial {
            syncs: 5,
            device: Some(layermark_model::DeviceBytes {
                flushes: 7,
                ..Default::default()
            }),
            passes: vec![layermark_model::Pass {
                elapsed_ns: 500_000_000,
                ..Default::default()
            }],
            idle_flushes: Some(4.0),
            ..Trial::default()
        };
        let expected = Flushes {
            syncs: 10,
            counted: Some(14),
            background: 4.0,
        };
        assert_eq!(flushes([&trial, &trial].into_iter()), expected);
    }

    /// Twelve blocks with one sync each: `volatile` once was "cannot tell" with 0 flushes of 12.
    #[test]
    fn a_sync_a_block_is_enough_when_all_blocks_say_the_same() {
        let few = |syncs, counted, background| {
            with(Flushes {
                syncs,
                counted: Some(counted),
                background,
            })
            .verdict
        };
        assert_eq!(few(12, 0, 0.0), DurabilityVerdict::Absorbed);
        assert_eq!(few(12, 12, 0.0), DurabilityVerdict::Honoured);
        assert_eq!(few(12, 30, 0.1), DurabilityVerdict::Honoured);
        for (syncs, counted, background) in [
            (12, 1, 0.0),
            (12, 11, 0.0),
            (12, 12, 2.0),
            (12, 0, 2.0),
            (7, 0, 0.0),
        ] {
            assert_eq!(
                few(syncs, counted, background),
                DurabilityVerdict::CannotTell
            );
        }
        assert_eq!(few(20, 1, 0.5), DurabilityVerdict::Absorbed);
    }

    #[test]
    fn a_point_without_flush_was_not_asked() {
        let facts = facts_on("ext4", "write back");
        let none = Flushes::default();
        let d = judge(&Case {
            flushes: false,
            facts: &facts,
            here: none,
            native: none,
            ratio: None,
        });
        assert_eq!((d.verdict, d.level), (DurabilityVerdict::NotAsked, None));
    }
}
