//! `OpenMetrics` text 1.0, which Prometheus reads, and a node exporter from its textfile directory
//! (`.prom`).

use std::fmt::Write as _;

use super::{Exporter, Files};
use crate::{
    Report,
    tables::points::{Point, Points},
};

/// See the module.
pub struct OpenMetrics;

/// A gauge of every point: its name, its unit, what it is, and its value.
type Gauge = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Point) -> Option<f64>,
);

const GAUGES: &[Gauge] = &[
    (
        "layermark_operation_seconds",
        "seconds",
        "Time of one operation as seen by one thread.",
        |p| Some(p.op_us / 1e6),
    ),
    (
        "layermark_operation_low_seconds",
        "seconds",
        "Lower end of the 95 % interval of the time of one operation.",
        |p| Some(p.interval?[0] / 1e6),
    ),
    (
        "layermark_operation_high_seconds",
        "seconds",
        "Upper end of the 95 % interval of the time of one operation.",
        |p| Some(p.interval?[1] / 1e6),
    ),
    (
        "layermark_ratio",
        "",
        "Time of one operation over the baseline's.",
        |p| Some(p.ratio?.estimate),
    ),
    (
        "layermark_ratio_low",
        "",
        "Lower end of the 95 % interval of the ratio.",
        |p| Some(p.ratio?.interval?[0]),
    ),
    (
        "layermark_ratio_high",
        "",
        "Upper end of the 95 % interval of the ratio.",
        |p| Some(p.ratio?.interval?[1]),
    ),
];

impl Exporter for OpenMetrics {
    fn id(&self) -> &'static str {
        "openmetrics"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["prom", "openmetrics.txt"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut text = String::new();
        // A type `info` is not known to a node exporter.
        head(
            &mut text,
            "layermark_run",
            "gauge",
            "",
            "1, with the run that was measured.",
        );
        let run = [
            ("run", report.run.as_str()),
            ("plan", &report.label),
            ("started", &report.started),
        ];
        let _ = writeln!(text, "layermark_run{} 1", labels(&run));
        head(
            &mut text,
            "layermark_run_trusted",
            "gauge",
            "",
            "Whether no check found the numbers wrong.",
        );
        let trusted = u8::from(report.trustworthy());
        let _ = writeln!(text, "layermark_run_trusted {trusted}");
        for (name, unit, help, value) in GAUGES {
            let samples: Vec<(Point, f64)> = Points::of(report)
                .filter_map(|point| value(&point).map(|v| (point, v)))
                .collect();
            if samples.is_empty() {
                continue;
            }
            head(&mut text, name, "gauge", unit, help);
            for (point, value) in samples {
                let of = labels(&[
                    ("workload", point.workload),
                    ("point", point.label),
                    ("layer", point.layer),
                ]);
                let _ = writeln!(text, "{name}{of} {value}");
            }
        }
        text.push_str("# EOF\n");
        out.open("")?.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The lines about a metric, in the order of the standard. Writing to a string does not fail.
fn head(text: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {help}");
}

fn labels(all: &[(&str, &str)]) -> String {
    let escaped = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        text.replace('\n', "\\n")
    };
    let each: Vec<String> = all
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", each.join(","))
}
