//! The report as JSON, by the published schema.

use std::io::Write;

use super::Exporter;
use crate::Report;

/// See the module.
pub struct Json;

impl Exporter for Json {
    fn id(&self) -> &'static str {
        "json"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["json"]
    }

    fn write(&self, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *out, report)?;
        writeln!(out)?;
        Ok(())
    }
}
