//! Differences between a result and that of another program.

use layermark_model::{CacheState, format_size};

use crate::{
    number,
    statements::external::{Condition, ImportDifference, Imported},
    types::{ExternalResults, ImportSide},
    words::{Names, Text, Words, text},
};

/// How many points are named that have no counterpart.
const SHOWN: usize = 6;

/// Of an import without a counterpart in the run.
pub const NONE_MATCHES: &str =
    "None of them is of an operation of this run, so there is nothing to compare";
/// Of two imports without a common point.
pub const NONE_IN_COMMON: &str = "They have no operation in common, so there is nothing to compare";
/// What the ratio of two imports is.
pub const NEWER_OVER_OLDER: &str = "Ratio: time an operation, newer over older; above 1, the newer one took longer. The two took no turns, and may be of different machines, so this is no verdict.";

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

const NOT_TOLD: &str = "not told";

impl Words for Condition<'_> {
    fn words(&self, _: &Names) -> Text {
        let differs = |what: &str, ours: &str, theirs: Option<&str>| {
            text!("{what}: ours {ours}, theirs {}", theirs.unwrap_or(NOT_TOLD))
        };
        match self {
            Self::Cache(state, served) => {
                let state = state.map_or("", CacheState::word);
                let ours = format!("{state} ({})", served.word());
                differs("cache", ours.trim_start(), None)
            }
            Self::Direct(ours, theirs) => differs("O_DIRECT", switch(*ours), theirs.map(switch)),
            Self::Flush(ours, theirs) => differs("flush", ours, *theirs),
            Self::Engine(ours, theirs) => differs("engine", ours, *theirs),
            Self::OneOf(jobs) => {
                text!("rate: not compared, theirs is one of {jobs} jobs at once")
            }
            Self::FileSize => text!("file size: theirs {NOT_TOLD}"),
        }
    }
}

impl Words for Imported<'_> {
    fn words(&self, _: &Names) -> Text {
        let Self(point) = self;
        let op = point.op.as_deref().filter(|op| *op != point.name);
        let sizes = [(point.record, "records"), (point.file_size, "file")];
        let sizes = sizes.map(|(size, what)| size.map(|n| text!("{} {what}", format_size(n))));
        let numbers = [
            (point.queue_depth, "queue depth"),
            (point.threads, "threads"),
        ];
        let numbers = numbers.map(|(n, what)| n.filter(|n| *n > 1).map(|n| text!("{what} {n}")));
        let parts = [Some(Text::from(point.name.as_str())), op.map(Text::from)];
        let parts = parts.into_iter().chain(sizes).chain(numbers);
        Text::joined(parts.flatten(), ", ")
    }
}

impl Words for ImportDifference<'_> {
    fn words(&self, _: &Names) -> Text {
        let said = |value: Option<&'_ str>| value.unwrap_or(NOT_TOLD).to_owned();
        text!(
            "{}: older {}, newer {}",
            self.what,
            said(self.old),
            said(self.new)
        )
    }
}

fn when(measured: Option<&str>) -> &str {
    measured.unwrap_or("at a time that its file does not tell")
}

/// What the ratio to an import is, and what nobody knows of it.
pub fn ours_over_theirs(of: &ExternalResults) -> Text {
    text!(
        "Ratio: time an operation, ours over theirs; above 1, ours took longer. Theirs was measured by {} ({}), read from {}. It took no turns with ours, and may have run on another machine, disk and directory; the state of its cache was not proved. So this is no verdict.",
        of.tool,
        when(of.measured.as_deref()),
        of.file
    )
}

/// The heading of results beside those of a program.
pub fn beside(tool: &str) -> Text {
    text!("Beside {tool}")
}

/// The title of their table.
pub fn ours_and(tool: &str) -> Text {
    text!("Ours and {tool}")
}

/// The heading of two imports.
pub fn both(older: &str, newer: &str) -> Text {
    text!("{older} and {newer}")
}

/// One text, and sentences that have no full stop.
pub fn sentences(first: Text, more: &[Text]) -> Text {
    let more = more.iter().map(|text| text!("{text}."));
    Text::joined(std::iter::once(first).chain(more), " ")
}

/// `Older: fio 3.33 (2026-11-02), read from old.json`.
pub fn read_from(which: &str, side: &ImportSide) -> Text {
    let when = when(side.measured.as_deref());
    text!("{which}: {} ({when}), read from {}", side.tool, side.file)
}

/// A remark of the import itself, of which one if there are two.
pub fn imported(which: Option<&str>, note: &str) -> Text {
    match which {
        Some(which) => text!("Import ({which}): {note}"),
        None => text!("Import: {note}"),
    }
}

/// Points without a counterpart, of many only the first.
pub fn without(what: &str, points: &[String]) -> Option<Text> {
    let first = points[..points.len().min(SHOWN)].join("; ");
    let more = if points.len() > SHOWN { "; ..." } else { "" };
    let count = number::count(points.len(), "operation");
    (!points.is_empty()).then(|| text!("{what}: {count} ({first}{more})"))
}
