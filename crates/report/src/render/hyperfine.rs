//! The JSON of `hyperfine --export-json`, for programs that read it.

use serde_json::{Map, Value, json};

use super::{Exporter, Files};
use crate::{
    Report,
    tables::benchmarks::{Benchmark, benchmarks},
};

/// See the module.
pub struct Hyperfine;

impl Exporter for Hyperfine {
    fn id(&self) -> &'static str {
        "hyperfine"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["hyperfine.json"]
    }

    fn lacks(&self, report: &Report) -> Option<&'static str> {
        benchmarks(report).is_empty().then_some("launches")
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        let results: Vec<Value> = benchmarks(report).iter().map(result).collect();
        serde_json::to_writer_pretty(
            &mut *out,
            &json!({ "generated_by": report.generated_by, "results": results }),
        )?;
        out.write_all(b"\n")?;
        Ok(())
    }
}

fn result(of: &Benchmark) -> Value {
    let mut all = json!({
        "command": of.command,
        "mean": of.mean,
        "stddev": of.stddev,
        "median": of.median,
        "user": of.user,
        "system": of.system,
        "min": of.range[0],
        "max": of.range[1],
        "times": of.times,
        "exit_codes": of.exit_codes,
        "memory_usage_byte": of.peak_bytes,
    });
    if !of.parameters.is_empty() {
        let values = of.parameters.iter();
        let values = values.map(|(name, value)| ((*name).to_owned(), (*value).into()));
        all["parameters"] = Value::Object(values.collect::<Map<String, Value>>());
    }
    all
}
