//! The report as JSON, in the published schema.

use super::{Exporter, Files};
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

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        serde_json::to_writer_pretty(&mut *out, report)?;
        writeln!(out)?;
        Ok(())
    }
}
