//! `layermark report`: reports a stored run again, in any format.

use std::process::ExitCode;

use clap::Args;

use super::{complete, output, stored, target};
use crate::{common_args::OutArgs, failure::Failure};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run: its id or the beginning of it, `last`, `last~1`, `#12`, or a file x.lm
    #[arg(default_value = "last", add = complete::runs_and_files())]
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
    let mut store = stored::Opened::new(out.store.store.as_deref());
    let mut kept = store.find(run)?;
    for import in beside {
        let found = store.get()?.load_import(import)?;
        if kept.imports.iter().all(|known| known.id != found.id) {
            kept.imports.push(found);
        }
    }
    let mut report = stored::build(&kept.run, &kept.trials);
    kept.imports
        .iter()
        .for_each(|import| report.set_beside(import));
    output::deliver(&report, Some(&kept), &targets, out.stdout(), false)?;
    match output::all_failed(&report) {
        Some(failure) => {
            let again = format!("layermark run --replay {}", report.store.find(&report.run));
            Ok(failure
                .hint(format!("mend the cause, then measure again: {again}"))
                .print(false))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}
