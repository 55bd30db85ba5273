//! What differs between two runs.

use layermark_model::{RunStatus, StoreOption};

use crate::{
    number::{self, list},
    statements::{
        alike::{AlikeCheck, CaveatOf, Checked, Difference, Holes, NotCompared, NotInBoth, OneRun},
        caveats::BusyMachine,
    },
    words::{Names, Text, Words, machine, text},
};

/// Longer lists are only counted.
const LISTED: usize = 4;

fn which(run: OneRun) -> &'static str {
    match run {
        OneRun::Old => "old",
        OneRun::New => "new",
    }
}

fn the(run: OneRun) -> Text {
    text!("the {} run", which(run))
}

/// Of runs whose layers were set up only once.
pub fn set_up_once(runs: &Text) -> Text {
    text!(
        "layers were set up once in {runs}: what differs between set-ups is not in the intervals; \
         --sessions 3 tells it"
    )
}

/// Of a run that is not trustworthy, with its id.
pub fn not_trustworthy(run: &Text, id: &str, store: &StoreOption) -> Text {
    text!(
        "{run} is not trustworthy: layermark report {}",
        store.find(id)
    )
}

/// Of a run that is not complete, with its status.
pub fn not_complete(run: &Text, status: RunStatus) -> Text {
    text!("{run} is not complete ({})", machine::status(status))
}

/// Of a run that other programs ran beside.
pub fn was_busy(run: &Text, busy: &BusyMachine) -> Text {
    text!(
        "{run} had other programs beside it, which {}",
        busy.disturbed()
    )
}

fn named(names: &[&str]) -> Text {
    let mut all: Vec<Text> = names.iter().take(LISTED).map(|n| text!("`{n}`")).collect();
    if names.len() > LISTED {
        all.push(text!("{} more", names.len() - LISTED));
    }
    list(&all).into()
}

impl Words for Difference<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Values(fact, values) => {
                let [then, now] = values.map(machine::value);
                text!("{}{then} then, {now} now", machine::before(*fact))
            }
            Self::Layers(run, names) => only("layer", *run, names),
            Self::Points(run, names) => only("operation", *run, names),
            Self::Baselines([then, now]) => text!(
                "baseline `{then}` then, `{now}` now, so times are compared, not ratios to it"
            ),
            Self::OtherWork(labels, keys) => {
                let other = keys.iter();
                let other = other.map(|(key, [then, now])| text!("{key} {then} then, {now} now"));
                let other: Vec<Text> = other.collect();
                let why = match other.as_slice() {
                    [] => "another workload".into(),
                    other => list(other),
                };
                text!("of one name and other work: {} ({why})", named(labels))
            }
            Self::OtherMeasure(labels, run) => text!(
                "not the same measure: {} (the time between calls was added to the sum in {}, and passes between them in the other)",
                named(labels),
                the(*run)
            ),
            Self::Holes(both) => Text::joined(both.iter().map(|h| h.words(names)), "; "),
            Self::SetUpOnce(runs) => {
                let runs: Vec<Text> = runs.iter().map(|run| the(*run)).collect();
                set_up_once(&list(&runs).into())
            }
            Self::Untrusted(run, id, store) => not_trustworthy(&the(*run), id, store),
            Self::Unfinished(run, status) => not_complete(&the(*run), *status),
            Self::Busy(run, busy) => was_busy(&the(*run), busy),
        }
    }
}

impl Checked<'_> {
    /// The id of the check, and its name for people.
    pub fn title(&self) -> (&'static str, &'static str) {
        match self.check {
            AlikeCheck::Machine => ("machine", "Same machine"),
            AlikeCheck::Kernel => ("kernel", "Same kernel"),
            AlikeCheck::System => ("system", "Same system"),
            AlikeCheck::Version => ("version", "Same layermark"),
            AlikeCheck::Work => ("work", "Same work"),
            AlikeCheck::SetUps => ("set-ups", "Set up more than once"),
            AlikeCheck::Runs => ("runs", "Runs to be trusted"),
        }
    }
}

impl Words for Checked<'_> {
    fn words(&self, names: &Names) -> Text {
        if self.is_alike() {
            return "yes".into();
        }
        Text::joined(self.differences.iter().map(|d| d.words(names)), "; ")
    }
}

fn only(what: &str, run: OneRun, names: &[&str]) -> Text {
    let many = if names.len() > 1 { "s" } else { "" };
    text!(
        "{what}{many} only in the {} run: {}",
        which(run),
        named(names)
    )
}

impl Words for NotInBoth {
    fn words(&self, _: &Names) -> Text {
        text!("only in the {} run", which(self.0))
    }
}

impl Words for NotCompared<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Untrusted(run, why) => text!("in the {} run, {why}", which(*run)),
            Self::Alone => {
                "there is no baseline at this operation in both runs, so a change of the machine is in it"
                    .into()
            }
            Self::FlushLost => {
                "the flush reached the device in the old run, and is skipped in the new".into()
            }
            Self::FlushWon => {
                "the flush was skipped in the old run, and reaches the device in the new".into()
            }
            Self::OtherTimes => {
                "beside other programs, one run is without what threads of the kernel waited for a CPU, and the other is not"
                    .into()
            }
        }
    }
}

impl Words for CaveatOf<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("Of the {} run: {}", which(self.0), self.1)
    }
}

impl Words for Holes<'_> {
    fn words(&self, _: &Names) -> Text {
        text!(
            "{} only in the {} run, first `{}` in `{}`",
            number::count(self.results, "result"),
            which(self.run),
            self.point,
            self.layer
        )
    }
}
