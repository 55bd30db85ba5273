//! Arguments of `layermark replay` beyond the flags of its parameters: the recording.

use clap::{Arg, ArgMatches, Command};
use layermark_model::Settings;

use crate::failure::Failure;

/// Adds the argument for the recording.
pub fn augment(command: Command) -> Command {
    command
        .mut_arg("layers", |arg| {
            arg.help(
                "A layer to compare with the baseline; repeatable [default: the baseline alone]",
            )
        })
        .mut_arg("recording", |arg| arg.hide(true))
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .help("The recording, as `layermark record` has written it")
                .help_heading("Workload"),
        )
}

/// Sets the recording.
pub fn settings(matches: &ArgMatches, settings: &mut Settings) -> Result<(), Failure> {
    let file = matches.get_one::<String>("file");
    match file.or_else(|| matches.get_one("recording")) {
        Some(file) => {
            settings
                .params
                .insert("recording".into(), file.as_str().into());
            Ok(())
        }
        None => Err(Failure::usage("replay: no recording")
            .hint("layermark record -o app.lmrec -- PROGRAM, then: layermark replay app.lmrec")),
    }
}
