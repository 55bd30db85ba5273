//! Evidence for a verdict on flushes.

use crate::{
    number::{self, list},
    statements::durability::{
        Agrees, Counted, Drops, FlushCount, FlushEvidence, Seen, Suspicion, Undecided,
    },
    types::{Durability, LateFlushes},
    words::{Names, Text, Words, text},
};

impl Words for FlushEvidence<'_> {
    fn words(&self, names: &Names) -> Text {
        let seen = self.seen.words(names);
        let Some((how, agrees)) = &self.configured else {
            return seen;
        };
        let how = how.words(names);
        match agrees {
            Agrees::Alone => text!("{how}, which passes no flush on; {seen}"),
            Agrees::Both => text!("{seen}; {how}"),
            Agrees::Not => text!(
                "{seen}, although {how}, which passes no flush on: counts and configuration disagree"
            ),
        }
    }
}

impl Words for Seen<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::InMemory => "the data lies in memory: there is no device to flush".into(),
            Self::NoDevice => "no physical device is known below this layer".into(),
            Self::WritesThrough => "the device says it writes through and needs no flush".into(),
            Self::CacheUnknown => "the device does not say whether its cache is volatile".into(),
            Self::NotCounted => "the device's flushes were not counted".into(),
            Self::FewSyncs(syncs, needed) => {
                let syncs = number::count(*syncs as usize, "sync");
                text!("{syncs} in all are too few to tell: {needed} are needed")
            }
            Self::Late(late) => told_late(late),
            Self::Counted(counted) => told(counted),
            Self::Silent(counted) => text!(
                "{}, on a device whose cache is volatile and that flushed nothing else meanwhile",
                told(counted)
            ),
            Self::Open(count, why) => open(*count, why),
            Self::BaselinePrograms(flushes) => {
                text!("{flushes} device flushes (the programs' own syncs are not counted)")
            }
            Self::LayerPrograms(here, there) => text!(
                "{here} device flushes, {} {there} in the same repeats (the programs' own syncs are not counted)",
                names.natively()
            ),
        }
    }
}

fn counts(count: FlushCount) -> Text {
    text!("{} device flushes for {} syncs", count.flushes, count.syncs)
}

/// `203 device flushes for 200 syncs`, and in how many trials if not in all.
fn told(counted: &Counted) -> Text {
    let mut all = counts(counted.count);
    if counted.others >= 0.5 {
        all = text!("{all}, about {:.0} of them not its own", counted.others);
    }
    if counted.trials < counted.of {
        all = text!(
            "{all}, in {} of {} measurements (others may have flushed in the rest)",
            counted.trials,
            counted.of
        );
    }
    all
}

/// The evidence that a layer answers before the device is flushed.
fn told_late(late: &LateFlushes) -> Text {
    let LateFlushes {
        turns,
        in_turns,
        later,
        within_ms,
        other_turns,
        after_others,
    } = late;
    text!(
        "in {turns} turns between pauses the device was flushed {in_turns} times, in the {within_ms} ms after each of them {later} times together, and {after_others} times after {other_turns} such turns of other layers"
    )
}

/// Why counting decided nothing.
fn open(count: FlushCount, why: &Undecided) -> Text {
    let counts = counts(count);
    let trials = |of: usize| number::count(of, "measurement");
    match why {
        Undecided::Unwatched => {
            text!("{counts}, and nobody looked what others flushed meanwhile")
        }
        Undecided::Others([noisy, all]) => text!(
            "{counts}, but other programs flushed the same device in {noisy} of {}: measure again when the disk is quiet",
            trials(*all)
        ),
        Undecided::LateOthers([noisy, all], layers) => {
            let late: Vec<Text> = layers.iter().map(|name| Text::code(name)).collect();
            text!(
                "{counts}, but the same device was also flushed by others in {noisy} of {}, and late, after its own turns, by {}: measure without it",
                trials(*all),
                list(&late)
            )
        }
        Undecided::TooFew(needed) => text!("{counts}: too few to tell, {needed} are needed"),
        Undecided::ForcedUnitAccess => {
            text!("{counts}, and the device does not count writes that go past its cache (FUA)")
        }
        Undecided::NorThoseOf(name) => {
            text!("{counts}, and the device does not count {name}'s either")
        }
        Undecided::NoReference => {
            text!("{counts}, and no other layer shows that the device counts flushes")
        }
        Undecided::FewSilent(name) => text!(
            "{counts}, in too few measurements in which the device was silent otherwise and counted {name}'s"
        ),
        Undecided::Some => text!("{counts}: only some were answered"),
    }
}

impl Words for Drops {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::DiskCache => "its disk has `cache=unsafe`".into(),
            Self::Mounted(place, option) => {
                text!("{} is mounted `{option}`", place.words(names))
            }
        }
    }
}

impl Words for Suspicion {
    fn words(&self, names: &Names) -> Text {
        let times = number::sig3(1.0 / self.ratio.estimate);
        text!("{times}x as fast as {}'s flush", names.baseline())
    }
}

impl Durability {
    /// The label in tables; empty if nothing is flushed.
    pub fn words(&self) -> String {
        match self.per_sync {
            Some(share) => format!("{} flushes a sync", number::hundredths(share)),
            None => self.verdict.words().into(),
        }
    }
}
