//! What the tables of several formats share.

use layermark_model::flags;

use crate::{
    DurabilityVerdict, Report, ResultRow, Verdict, durability::SUSPECTED, kinds, number, served,
};

/// `1.02 [0.99-1.05]`; what is missing is said instead of an interval.
pub fn ratio(row: &ResultRow) -> String {
    match row.ratio {
        Some(e) => e.interval.map_or_else(
            || format!("{} [no interval]", number::ratio(e.estimate)),
            |i| format!("{} [{}]", number::ratio(e.estimate), number::ratio_span(i)),
        ),
        None => String::new(),
    }
}

/// `+12.0 us`: the absolute difference beside the ratio.
pub fn extra(row: &ResultRow) -> String {
    row.extra_us
        .map(|e| number::extra(e.estimate))
        .unwrap_or_default()
}

/// Time an operation.
pub fn op_time(row: &ResultRow) -> String {
    row.op_us.map(number::time).unwrap_or_default()
}

/// Where a read was served from, or what became of a flush.
pub fn label(row: &ResultRow) -> String {
    let flush = match row.durability.verdict {
        DurabilityVerdict::NotAsked => None,
        v => Some(format!("flush {}", v.word())),
    };
    let served = row.served_by.map(|s| s.word().to_owned());
    served
        .into_iter()
        .chain(flush)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The layer's name, marked where instructions were emulated: its figures are no other machine's.
pub fn layer(row: &ResultRow) -> String {
    if row.flags.iter().any(|f| f == flags::EMULATED_CPU) {
        format!("{} ({})", row.layer, flags::EMULATED_CPU)
    } else {
        row.layer.clone()
    }
}

/// What has to stand beside verdict words. A reason is told once for each layer, where it first
/// explains something.
#[derive(Default)]
pub struct Notes<'a> {
    brief: bool,
    told: Vec<(&'a str, &'a str)>,
}

impl<'a> Notes<'a> {
    /// Without what would settle an undecided result: the words below the table say it.
    pub fn brief() -> Self {
        Self {
            brief: true,
            told: Vec::new(),
        }
    }

    /// The next row's note; may be empty.
    pub fn of(&mut self, row: &'a ResultRow) -> String {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(row.untrusted.clone());
        if row.trials == 0 {
            notes.push(row.error.clone().unwrap_or_else(|| "no number".into()));
        } else if row.verdict == Verdict::Undecided && !self.brief {
            notes.push(crate::undecided::note(row));
        }
        if let Some(reason) = row.reasons.first() {
            let said = (row.layer.as_str(), crate::reasons::stem(reason));
            if !self.told.contains(&said) {
                self.told.push(said);
                notes.push(reason.clone());
            }
        }
        notes.extend(served::surprise(row));
        notes.extend(kinds::words(row));
        let told = row.reasons.iter().any(|r| r.starts_with(SUSPECTED));
        let proved = row.durability.verdict == DurabilityVerdict::Absorbed;
        let suspicion = row.durability.suspicion.as_ref();
        let suspicion = suspicion.filter(|_| !told && !proved);
        notes.extend(suspicion.map(|s| format!("{SUSPECTED}: {s}")));
        notes.extend(row.threads.as_ref().map(crate::threads::words));
        notes.retain(|n| !n.is_empty());
        notes.join("; ")
    }
}

/// The results of each point, in the plan's order.
pub fn groups(report: &Report) -> Vec<(&str, Vec<&ResultRow>)> {
    report
        .points()
        .into_iter()
        .map(|label| {
            (
                label,
                report.results.iter().filter(|r| r.label == label).collect(),
            )
        })
        .collect()
}

/// What a point does, from its parameters.
pub fn describe(row: &ResultRow) -> String {
    let point = layermark_model::Point {
        workload: row.workload.clone(),
        label: row.label.clone(),
        params: row.point.clone(),
    };
    crate::points::describe(&point)
}

/// One line about the run.
pub fn about(report: &Report) -> String {
    let measured = report
        .layers
        .iter()
        .filter(|l| !l.control && !l.baseline && l.status == layermark_model::LayerStatus::Ready)
        .count();
    format!(
        "run {} of plan {} ({}), {}, {}, seed {}",
        report.run,
        report.label,
        status(report),
        number::count(measured, "layer"),
        number::count(report.trials.len(), "trial"),
        report.seed
    )
}

/// How the run stands, in words.
pub fn status(report: &Report) -> &'static str {
    use layermark_model::RunStatus::{Done, Failed, Interrupted, Running, Stopped};
    match report.status {
        Running => "going on",
        Done => "done",
        Stopped => "stopped by the user",
        Failed => "ended by an error",
        Interrupted => "interrupted: its process is gone",
    }
}
