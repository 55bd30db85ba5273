//! Figures of the workload `steps`.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen};

/// Whether processes had to be ended that the step had left running.
pub const LEFT: &str = "left_running";

/// Group of the figures that the step has printed itself.
pub const PRINTED: &str = "printed";

/// The table of figures of a step that does `count` of something.
pub fn table(count: u64, unit: &str) -> FigureTable {
    let of =
        |amount: Amount, name: &str, unit| Figure::per(name, unit, [amount], [Amount::Operations]);
    let each = |what: &str| match count {
        1 => what.to_owned(),
        _ => format!("{what} a {unit}"),
    };
    // A command flushes or does not: the fraction of a flush is another program's.
    let flushes = match count {
        1 => FigureUnit::Whole,
        _ => FigureUnit::Number,
    };
    let rate = Figure::new(
        "rate_per_s",
        FigureUnit::Number,
        FigureSource::RateInInterval,
    )
    .head(&format!("{unit}/s"));
    let figures = [
        of(Amount::Cpu, "cpu_s", FigureUnit::Seconds).head(&each("CPU")),
        of(Amount::DeviceFlushes, "device_flushes", flushes)
            .head(&each("flushes"))
            .optional(),
        of(
            Amount::DeviceWritten,
            "device_written_bytes",
            FigureUnit::Kib,
        )
        .head(&each("written"))
        .optional(),
        Figure::new(
            PRINTED,
            FigureUnit::Number,
            FigureSource::Each(PRINTED.into()),
        ),
        Figure::sum(LEFT).note(
            NoteWhen::Above(0),
            "{layer}: processes that the step had left running were ended.",
        ),
    ];
    let elapsed =
        Figure::new("elapsed_us", FigureUnit::Time, FigureSource::OperationTime).head("elapsed");
    // One execution is shown by its time, many commits by their rate.
    let time = if count > 1 { rate } else { elapsed };
    FigureTable::new(
        "Steps",
        "Commands of daily work. The clock runs from just before the process is created until it has ended. Exit code, lines and trees were as expected in every execution that has a time. Flushes and bytes written are those of the devices below while the clock ran.",
    )
    .with([time].into_iter().chain(figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_execution_has_its_elapsed_time_and_many_commits_have_a_rate() {
        let first = |count| table(count, "commit").figures.remove(0);
        let (one, many) = (first(1), first(100));
        assert_eq!(
            (&*one.head, one.source),
            ("elapsed", FigureSource::OperationTime)
        );
        assert_eq!(
            (&*many.head, many.source),
            ("commit/s", FigureSource::RateInInterval)
        );
    }

    /// "0.0294 flushes" of a step were another program's.
    #[test]
    fn one_execution_has_whole_flushes_and_many_commits_have_a_mean() {
        let unit = |count, unit| {
            let table = table(count, unit);
            let mut figures = table.figures.iter();
            let own = figures.find(|f| f.name == "device_flushes");
            own.map(|f| f.unit)
        };
        assert_eq!(unit(1, ""), Some(FigureUnit::Whole));
        assert_eq!(unit(200, "commit"), Some(FigureUnit::Number));
    }
}
