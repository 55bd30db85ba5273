//! Answers why a command is slow in layers, from the report of a run.

use layermark_model::Target;

use crate::{
    Report, plain,
    statements::why::{Answer, SlowCommand, WithoutCommand},
    types::{Why, WhyLayer},
    words::Words,
};

impl Why {
    /// The answer about the command of a run; `None` if the run has no command.
    pub fn of(report: &Report) -> Option<Self> {
        let names = report.names();
        let steps = || {
            let all = report.results.iter();
            all.filter(|r| r.meaning.target == Target::Step)
        };
        // With a cold cache alone, its cold time is what was asked about.
        let warm = steps().find(|r| !r.meaning.is_cold());
        let label = &warm.or_else(|| steps().next())?.label;
        let rows = || report.results.iter().filter(|r| r.label == *label);
        let native = rows().find(|r| r.layer == report.baseline());
        let mut commands: Vec<SlowCommand> = rows()
            .filter(|r| r.layer != report.baseline())
            .map(|row| SlowCommand::of(report, row))
            .collect();
        let time = |c: &SlowCommand| c.row.op_us.unwrap_or(f64::INFINITY);
        commands.sort_by(|a, b| time(b).total_cmp(&time(a)));
        let layers = commands.iter().map(|c| WhyLayer {
            layer: c.row.layer.clone(),
            us: c.row.op_us,
            verdict: c.row.leaning(),
            probably: c.is_probable(),
            loses: c.kept.loses().map(str::to_owned),
            calls: c.forecast.map(|f| f.calls.clone()).unwrap_or_default(),
            explained: c.forecast.map(crate::ForecastRow::is_explained),
            text: c.words(&names).into(),
            evidence: c.row.id.clone(),
        });
        let left_out = report.left_out.iter();
        let left_out = left_out.filter(|l| l.point.as_ref().is_none_or(|point| point == label));
        let left_out = left_out.map(|left| -> String { WithoutCommand(left).words(&names).into() });
        Some(plain::texts(Self {
            schema: Self::SCHEMA.into(),
            run: report.run.clone(),
            command: label.clone(),
            baseline: report.baseline().to_owned(),
            native_us: native.and_then(|row| row.op_us),
            layers: layers.collect(),
            answer: Answer::of(&commands, report.distrust())
                .words(&names)
                .into(),
            caveats: report.caveats.clone(),
            lacks: report
                .forecast
                .lacks
                .iter()
                .cloned()
                .chain(left_out)
                .collect(),
        }))
    }
}
