//! Figures of the workload `replay`.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen};

/// Group of the times of each kind of call, microseconds an execution.
pub const KIND: &str = "kind_us";
/// The kinds that cost most, in words.
pub const MOST: &str = "costliest";
/// Microseconds of the calls of an execution, over all tasks.
pub const IN_CALLS: &str = "in_calls_us";
/// Microseconds an execution that tasks waited for each other, over all tasks.
pub const WAITED: &str = "waited_us";
/// Microseconds of an execution on the clock without the time between calls.
pub const REPLAYED: &str = "io_us";
/// Share of the time on the clock that the program spends between its calls.
pub const THINK: &str = "think_share";
/// How many clones of an execution were copies, because the layer cannot share the data of files.
pub const COPIED: &str = "copied_clones";
/// Kinds with less than this share of the time of all calls have no column.
pub const LEAST_SHARE: f64 = 0.01;

/// What the table says of a recording.
pub struct About<'a> {
    /// The time between calls is added.
    pub with_think: bool,
    /// How far its rounds were apart, ns.
    pub think_spread_ns: u64,
    pub tasks: u64,
    pub left_out: &'a str,
}

/// The table of a recording's figures.
pub fn table(p: &About<'_>) -> FigureTable {
    let median = |name: &str, head: &str| {
        let source = FigureSource::Median(Amount::Value(name.into()));
        Figure::new(name, FigureUnit::Time, source).head(head)
    };
    let share = FigureSource::Median(Amount::Value(THINK.into()));
    let share = Figure::new(THINK, FigureUnit::WholePercent, share)
        .head("between calls, %")
        .optional();
    let copied = FigureSource::Median(Amount::Value(COPIED.into()));
    let copied = Figure::new(COPIED, FigureUnit::Whole, copied)
        .head("clones copied")
        .note(
            NoteWhen::Above(0),
            "{layer}: files cannot share their data there, so {copied_clones} clones (FICLONE) of each execution were copies, as cp --reflink=auto makes them. A program that insists on clones would fail.",
        )
        .optional();
    let mut about = String::from(
        "The recorded calls of a program. Each task is a thread. A call waits for earlier calls on the same names and open files. Every call moved as many bytes as it was recorded, or had the same error (only a missing attribute may be one that the file system does not have), and the names, kinds, sizes and links of the tree were the same afterwards. Kinds of calls with less than 1 % of the time have no column.",
    );
    if p.with_think {
        about += " The time between calls is that of the program on tmpfs without that of its replay there. It is assumed to be the same in every layer, and passes in a loop that computes, between the calls as far as the recording says where: an estimate of the program's own time.";
        if p.think_spread_ns > 0 {
            let spread = p.think_spread_ns as f64 / 1e6;
            about = format!(
                "{about} When it was measured, its rounds were up to {spread:.1} ms above and below; intervals of ratios are wider by that."
            );
        }
        if p.tasks > 1 {
            about += " There is more than one task: they compute at the same time, for as long as made a replay on tmpfs take the program's time there.";
        }
    }
    if !p.left_out.is_empty() {
        about = format!("{about} Not in the recording: {}.", p.left_out);
    }
    let each = Figure::new(KIND, FigureUnit::Time, FigureSource::Each(KIND.into()));
    FigureTable::new("Replay", &about).with([
        median(REPLAYED, "I/O"),
        share,
        Figure::new(MOST, FigureUnit::Text, FigureSource::Last(MOST.into())).head("costs most"),
        median(IN_CALLS, "in calls"),
        median(WAITED, "tasks wait"),
        copied,
        each,
    ])
}
