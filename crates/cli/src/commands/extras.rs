//! Schemas, completions and manual pages: all made from what is already written down elsewhere.

use std::{io, path::Path, process::ExitCode};

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
    println!(
        "{}",
        serde_json::to_string_pretty(&schema).map_err(Failure::failed)?
    );
    Ok(ExitCode::SUCCESS)
}

/// `layermark completions`
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    clap_complete::generate(shell, &mut args::command(), "layermark", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// `layermark man`
pub fn man(dir: Option<&Path>) -> Result<ExitCode, Failure> {
    match dir {
        None => clap_mangen::Man::new(args::command())
            .render(&mut io::stdout())
            .map_err(Failure::failed)?,
        Some(dir) => clap_mangen::generate_to(args::command(), dir).map_err(|e| {
            Failure::failed(format!("{}: {e}", dir.display()))
                .hint(format!("mkdir -p {}", dir.display()))
        })?,
    }
    Ok(ExitCode::SUCCESS)
}
