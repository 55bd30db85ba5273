//! Bencher Metric Format (`bencher run --adapter json`): measures of a benchmark, with their
//! intervals.

use serde_json::{Map, Value, json};

use super::{Exporter, Files};
use crate::{Report, tables::points::Points};

/// See the module.
pub struct Bencher;

impl Exporter for Bencher {
    fn id(&self) -> &'static str {
        "bencher"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["bmf.json"]
    }

    fn lacks(&self, report: &Report) -> Option<&'static str> {
        Points::of(report).next().is_none().then_some("results")
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let all: Map<String, Value> = Points::of(report)
            .map(|point| {
                // Bencher's own measure is in nanoseconds.
                let mut measures = json!({ "latency": metric(point.op_us * 1e3, point.interval.map(|i| i.map(|us| us * 1e3))) });
                if let Some(ratio) = point.ratio {
                    measures["ratio"] = metric(ratio.estimate, ratio.interval);
                }
                (point.name(), measures)
            })
            .collect();
        let out = out.open("")?;
        serde_json::to_writer_pretty(&mut *out, &all)?;
        out.write_all(b"\n")?;
        Ok(())
    }
}

fn metric(value: f64, interval: Option<[f64; 2]>) -> Value {
    match interval {
        Some([low, high]) => json!({ "value": value, "lower_value": low, "upper_value": high }),
        None => json!({ "value": value }),
    }
}
