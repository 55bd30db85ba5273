//! Figures of the workload `coherence`.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen};
use serde::Serialize;

/// The changes of a trial. The fields have the names of the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Changes that were seen.
    pub seen: u64,
    /// Changes that were not seen in time.
    pub absent: u64,
    /// Longest time until one was seen, ns. Absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
    /// A question to the other side and its answer, ns.
    pub round_trip_ns: u64,
    /// How long the other side looks, in words.
    pub wait: String,
}

/// Figures of locks. The report has a table of its own for them, with a verdict.
pub fn of_locks() -> FigureTable {
    let about =
        "A lock is taken on one side, and the other side tries to take it until it is refused.";
    FigureTable::new("Locks of two clients", about).with([
        Figure::sum("seen"),
        Figure::sum("absent"),
        Figure::new(
            "longest_us",
            FigureUnit::Time,
            FigureSource::Most(Amount::Nanoseconds("longest_ns".into())),
        ),
    ])
}

/// Figures of changes.
pub fn table() -> FigureTable {
    let time = |name: &str, source| Figure::new(name, FigureUnit::Time, source);
    let of = |name: &str| Amount::Nanoseconds(name.into());
    let about = "How long a change takes until the other side sees it, from when it is made and its file is closed. The other side has looked before the change, so it may have cached the old state, and looks again and again until it sees the new one. The way of the message that tells it, half of the time there and back, is subtracted. What is left is told to a millisecond: shorter times count as one.";
    FigureTable::new("When the other side sees a change", about)
        .answer()
        .with([
            Figure::sum("seen").head("seen"),
            Figure::last("wait", FigureUnit::Text),
            Figure::sum("absent").head("not seen").note(
                NoteWhen::Above(0),
                "{layer}: {absent} changes were not seen within {wait}; {seen} were.",
            ),
            time("median_us", FigureSource::MedianLatency).head("median"),
            time("longest_us", FigureSource::Most(of("longest_ns"))).head("longest"),
            time("message_us", FigureSource::Median(of("round_trip_ns")))
                .head("a message there and back"),
        ])
}
