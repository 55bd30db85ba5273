//! One line for each result, every number in its own column: for a spreadsheet or a data frame.

use super::{Exporter, Files};
use crate::{Estimate, Report, ResultRow};

/// See the module.
pub struct Csv;

impl Exporter for Csv {
    fn id(&self) -> &'static str {
        "csv"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
        let control = report.control.iter().flat_map(|c| &c.results);
        for row in report.results.iter().chain(control) {
            writer.write_record(COLUMNS.iter().map(|(_, cell)| cell(report, row)))?;
        }
        writer.flush()?;
        Ok(())
    }
}

type Cell = fn(&Report, &ResultRow) -> String;

/// Columns and what stands in them. New ones go to the end.
const COLUMNS: &[(&str, Cell)] = &[
    ("run", |p, _| p.run.clone()),
    ("id", |_, r| r.id.clone()),
    ("workload", |_, r| r.workload.clone()),
    ("point", |_, r| safe(&r.label)),
    ("params", |_, r| {
        serde_json::to_string(&r.point).unwrap_or_default()
    }),
    ("layer", |_, r| safe(&r.layer)),
    ("verdict", |_, r| r.verdict.word().into()),
    ("ratio", |_, r| estimate(r.ratio)),
    ("ratio_low", |_, r| bound(r.ratio, 0)),
    ("ratio_high", |_, r| bound(r.ratio, 1)),
    ("extra_us", |_, r| estimate(r.extra_us)),
    ("extra_us_low", |_, r| bound(r.extra_us, 0)),
    ("extra_us_high", |_, r| bound(r.extra_us, 1)),
    ("metric", |_, r| r.metric.clone()),
    ("unit", |_, r| r.unit.clone()),
    ("value", |_, r| number(r.value)),
    ("value_low", |_, r| number(r.interval.map(|i| i[0]))),
    ("value_high", |_, r| number(r.interval.map(|i| i[1]))),
    ("op_us", |_, r| number(r.op_us)),
    ("trials", |_, r| r.trials.to_string()),
    ("failed_trials", |_, r| r.failed_trials.to_string()),
    ("blocks", |_, r| r.blocks.to_string()),
    ("effective_n", |_, r| number(r.effective_n)),
    ("p", |_, r| number(r.p)),
    ("p_adjusted", |_, r| number(r.p_adjusted)),
    ("more_blocks", |_, r| {
        r.more_blocks.map(|n| n.to_string()).unwrap_or_default()
    }),
    ("outliers", |_, r| r.outliers.to_string()),
    ("steady", |_, r| {
        r.steady.map(|s| s.to_string()).unwrap_or_default()
    }),
    ("operations", |_, r| {
        r.latency_us
            .map(|l| l.operations.to_string())
            .unwrap_or_default()
    }),
    ("latency_min_us", |_, r| number(r.latency_us.map(|l| l.min))),
    ("latency_mean_us", |_, r| {
        number(r.latency_us.map(|l| l.mean))
    }),
    ("latency_p50_us", |_, r| number(r.latency_us.map(|l| l.p50))),
    ("latency_p99_us", |_, r| {
        number(r.latency_us.and_then(|l| l.p99))
    }),
    ("latency_p999_us", |_, r| {
        number(r.latency_us.and_then(|l| l.p999))
    }),
    ("latency_max_us", |_, r| number(r.latency_us.map(|l| l.max))),
    ("cpu_s_per_gib_probe", |_, r| {
        number(r.cpu_s_per_gib.map(|c| c.probe))
    }),
    ("cpu_s_per_gib_upkeep", |_, r| {
        number(r.cpu_s_per_gib.map(|c| c.upkeep))
    }),
    ("cpu_us_per_op_probe", |_, r| {
        number(r.cpu_us_per_op.map(|c| c.probe))
    }),
    ("cpu_us_per_op_upkeep", |_, r| {
        number(r.cpu_us_per_op.map(|c| c.upkeep))
    }),
    ("served_by", |_, r| {
        r.served_by.map(|s| s.word().into()).unwrap_or_default()
    }),
    ("device_share", |_, r| number(r.device_share)),
    ("durability", |_, r| r.durability.verdict.word().into()),
    ("durability_level", |_, r| {
        r.durability.level.clone().unwrap_or_default()
    }),
    ("flushes", |_, r| {
        r.durability
            .flushes
            .map(|n| n.to_string())
            .unwrap_or_default()
    }),
    ("syncs", |_, r| r.durability.syncs.to_string()),
    ("debt_bytes", |_, r| {
        number(r.write_back_debt.and_then(|d| d.bytes))
    }),
    ("debt_seconds", |_, r| {
        number(r.write_back_debt.map(|d| d.seconds))
    }),
    ("flags", |_, r| safe(&r.flags.join("; "))),
    ("untrusted", |_, r| {
        safe(r.untrusted.as_deref().unwrap_or_default())
    }),
    ("reasons", |_, r| safe(&r.reasons.join("; "))),
    ("error", |_, r| safe(r.error.as_deref().unwrap_or_default())),
    ("seqs", |_, r| {
        r.seqs
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }),
    ("resident", |_, r| number(r.resident)),
    ("backing_resident", |_, r| number(r.backing_resident)),
    ("served_because", |_, r| {
        safe(r.served_because.as_deref().unwrap_or_default())
    }),
];

pub(super) fn number(value: Option<f64>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

pub(super) fn estimate(e: Option<Estimate>) -> String {
    number(e.map(|e| e.estimate))
}

pub(super) fn bound(e: Option<Estimate>, end: usize) -> String {
    number(e.and_then(|e| e.interval).map(|i| i[end]))
}

/// Text that a spreadsheet takes for text: a leading sign would make it a formula.
pub(super) fn safe(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn text_is_never_a_formula() {
        assert_eq!(safe("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(safe("overlay:upper"), "overlay:upper");
    }
}
