//! What a series of launches shows.

use crate::{
    number::{self, thousands},
    statements::series::{CallKind, SeriesFinding, TracedCalls},
    types::{ChangePoint, FirstApart, LaunchLevel, LaunchSeries},
    words::{Names, Text, Words, text},
};

fn time(ms: f64) -> String {
    number::time(ms * 1e3)
}

impl Words for SeriesFinding<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::FirstApart(first, why) => {
                text!("run 1 ({}) is set apart: {why}", time(first.elapsed_ms))
            }
            Self::Step(change) => step(change),
            Self::Restarted { launches, of, ms } => {
                let often = if launches == of {
                    "each launch".into()
                } else {
                    format!("{launches} of {of} launches")
                };
                text!(
                    "the layer was set down and up again before {often}, in {}",
                    time(*ms)
                )
            }
            Self::WaitedForIo { ms, of_ms } => {
                text!("waited for I/O: {} of {}", time(*ms), time(*of_ms))
            }
            Self::Traced(calls, of_ms) => {
                let each = calls.iter().map(|calls| traced(calls, *of_ms));
                text!("when traced: {}", Text::joined(each, "; "))
            }
            Self::NotTraced(untraced) => {
                text!("no launch was traced: {}", untraced.words(names))
            }
        }
    }
}

/// What a series says, with its name.
pub fn series(of: &LaunchSeries) -> Text {
    let (layer, said) = (Text::code(&of.layer), of.says.join(". "));
    text!("{} in {layer}: {said}", of.label)
}

/// Runs of a level: `2-9`.
pub fn runs(of: &LaunchLevel) -> Text {
    text!("{}-{}", of.from, of.to)
}

/// When a launch began or ended, from milliseconds: `12.034 s`.
pub fn since_start(ms: f64) -> Text {
    text!("{:.3} s", ms / 1e3)
}

/// All launches of a series.
pub fn every_launch(of: &LaunchSeries) -> Text {
    text!("Every launch: {} in {}", of.label, of.layer)
}

/// What counted them; empty if nothing did.
pub fn counted_by(of: &LaunchSeries) -> Text {
    if of.counted_by.is_empty() {
        return Text::default();
    }
    text!("Counted by {}.", of.counted_by.join(", "))
}

/// All commands of a layer beside each other.
pub fn all_commands(layer: &str) -> Text {
    text!("All commands in {layer}")
}

impl Words for FirstApart {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Cold => "cold, by its page faults and reads from the disk".into(),
            Self::FarSlower => "far slower than those that follow".into(),
        }
    }
}

fn step(change: &ChangePoint) -> Text {
    let ends = change.interval.map(|[low, high]| {
        let [low, high] = [low, high].map(|ms| number::extra(ms * 1e3));
        text!(" (interval {low} to {high})")
    });
    text!(
        "a step after run {}, at {}: from {} to {}{}",
        change.at - 1,
        change.time,
        time(change.before.typical_ms),
        time(change.after.typical_ms),
        ends.unwrap_or_default()
    )
}

/// `1,204 failed lookups, 0.9 ms each: ...`.
fn traced(calls: &TracedCalls, of_ms: f64) -> Text {
    let what = match calls.kind {
        CallKind::FailedLookup => "failed lookups",
        CallKind::Lookup => "names found",
        CallKind::Read => "reads of files",
    };
    text!(
        "{} {what}, {} each: {} of {}",
        thousands(calls.calls as f64),
        time(calls.ms / calls.calls as f64),
        time(calls.ms),
        time(of_ms)
    )
}
