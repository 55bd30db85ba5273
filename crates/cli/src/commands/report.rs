//! `layermark report`: reports a stored run again, in any format.

use std::process::ExitCode;

use clap::Args;

use super::{complete, output, stored, target};
use crate::{common_args::OutArgs, failure::Failure};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run: its id or the beginning of it, `last`, `last~1`, or `#12`
    #[arg(default_value = "last", add = complete::runs())]
    run: String,
    /// Show an import next to it: its id, its first letters, or `last`; repeatable
    #[arg(long, value_name = "IMPORT", add = complete::imports())]
    beside: Vec<String>,
    #[command(flatten)]
    pub out: OutArgs,
}

/// Prints and writes the report of a run.
pub fn again(ReportArgs { run, beside, out }: &ReportArgs) -> Result<ExitCode, Failure> {
    let targets = target::targets(out)?;
    let mut store = stored::read_store(out.store.store.as_deref())?;
    let mut report = stored::report(&mut store, run)?;
    for import in beside {
        report.set_beside(&store.load_import(import)?);
    }
    output::deliver(&report, &targets, out.stdout(), false)?;
    match output::all_failed(&report) {
        Some(failure) => {
            let again = format!("layermark run --replay {}{}", report.run, report.store);
            Ok(failure
                .hint(format!("mend the cause, then measure again: {again}"))
                .print(false))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}
