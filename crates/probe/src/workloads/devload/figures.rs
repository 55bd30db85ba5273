//! Figures of the workload `devload`, as SPEC's SDET reports them.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen, Quantity};

/// CPU time of layermark itself in the turn, nanoseconds.
pub const OWN: &str = "own_ns";
/// Time from the barrier to the end of each user's script, ns.
pub const SCRIPTS: &str = "script_ns";
/// XXH3-128 of each program that the jobs use: `programs.cc`.
pub const PROGRAMS: &str = "programs";

/// The table of figures.
pub fn table() -> FigureTable {
    let cpu = || vec![Amount::Cpu];
    let all = [cpu(), vec![Amount::Nanoseconds(OWN.into())]].concat();
    FigureTable::new(
        "Scripts an hour",
        "Users do the same jobs, each in a different order, as SPEC's SDET defines it. Scripts an hour = 3600 N / T, with T from the barrier to the last verified exit. CPU is of the users' commands.",
    )
    .curve_over(Quantity::Users)
    .with([
        Figure::new("users", FigureUnit::Whole, FigureSource::Axis(Quantity::Users)).head("users"),
        Figure::new("scripts_per_hour", FigureUnit::Number, FigureSource::RateInInterval)
            .head("scripts/h"),
        Figure::new("seconds", FigureUnit::Seconds, FigureSource::OperationTime).head("T"),
        Figure::per("cpu_s", FigureUnit::Seconds, cpu(), [Amount::Operations])
            .head("CPU a script"),
        Figure::new("ratio", FigureUnit::Number, FigureSource::Ratio).head("ratio"),
        Figure::new("peak", FigureUnit::Text, FigureSource::Peak).head("peak"),
        Figure::per("cpu_in_commands", FigureUnit::Share, cpu(), all).note(
            NoteWhen::Smallest,
            "At least {all} % of the CPU time is the users' commands', the rest layermark's own.",
        ),
        Figure::new(PROGRAMS, FigureUnit::Text, FigureSource::Programs),
    ])
}
