//! `layermark report`: reports a stored run again, in any format.

use std::process::ExitCode;

use super::{output, target};
use crate::{args::OutArgs, failure::Failure};

/// Prints and writes the report of a run.
pub fn again(run: &str, beside: &[String], out: &OutArgs) -> Result<ExitCode, Failure> {
    let targets = target::targets(out)?;
    let mut store = output::read_store(out.store.store.as_deref())?;
    let mut report = output::report(&mut store, run)?;
    for import in beside {
        report.set_beside(&store.load_import(import)?);
    }
    output::deliver(&report, &targets, out.stdout(), false)?;
    match output::all_failed(&report) {
        Some(failure) => {
            let again = format!("layermark run --replay {}", report.run);
            Ok(failure
                .hint(format!("mend the cause, then measure again: {again}"))
                .print(false))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}
