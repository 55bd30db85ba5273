//! Schemas, completions and manual pages, all generated.

use std::{path::Path, process::ExitCode};

use super::output;
use crate::{
    args::{self, SchemaOf},
    failure::Failure,
};

/// `layermark schema`
pub fn schema(what: SchemaOf) -> Result<ExitCode, Failure> {
    let schema = match what {
        SchemaOf::Plan => schemars::schema_for!(layermark_model::Plan).to_value(),
        SchemaOf::Report => layermark_report::schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(Failure::failed)?;
    output::print(&(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `layermark completions`
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "layermark", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// `layermark man`
pub fn man(dir: Option<&Path>) -> Result<ExitCode, Failure> {
    match dir {
        None => {
            let mut text = Vec::new();
            let page = clap_mangen::Man::new(args::command());
            page.render(&mut text).map_err(Failure::failed)?;
            output::print(&String::from_utf8_lossy(&text))?;
        }
        Some(dir) => clap_mangen::generate_to(args::command(), dir).map_err(|e| {
            Failure::failed(format!("{}: {e}", dir.display()))
                .hint(format!("mkdir -p {}", dir.display()))
        })?,
    }
    Ok(ExitCode::SUCCESS)
}
