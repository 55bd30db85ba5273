//! The JSON of github-action-benchmark's tool `customSmallerIsBetter`: a list of values.

use serde_json::{Value, json};

use super::{Exporter, Files};
use crate::{Report, tables::points::Points};

/// See the module.
pub struct GithubBenchmark;

impl Exporter for GithubBenchmark {
    fn id(&self) -> &'static str {
        "github_benchmark"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["github-benchmark.json"]
    }

    fn lacks(&self, report: &Report) -> Option<&'static str> {
        Points::of(report).next().is_none().then_some("results")
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let all: Vec<Value> = Points::of(report)
            .map(|point| {
                let mut entry = json!({
                    "name": point.name(),
                    "unit": "us/op",
                    "value": point.op_us,
                    "extra": format!("run {}\n{}", report.run, point.words()),
                });
                if let Some([low, high]) = point.interval {
                    // The action shows it behind the value.
                    entry["range"] = json!(format!("{low:.4} to {high:.4}"));
                }
                entry
            })
            .collect();
        let out = out.open("")?;
        serde_json::to_writer_pretty(&mut *out, &all)?;
        out.write_all(b"\n")?;
        Ok(())
    }
}
