//! Arguments of `layermark replay` beyond the flags of its parameters: the recording, and the program's own tree.

use clap::{Arg, ArgMatches, Command, ValueHint};
use layermark_model::Settings;
use layermark_probe::{
    Workload,
    workloads::{replay, steps},
};

use crate::failure::Failure;

/// Adds the arguments for the recording and the program.
pub fn augment(command: Command) -> Command {
    let own = |arg: Arg| arg.help_heading("Workload");
    command
        .mut_arg("layers", |arg| {
            arg.help(
                "A layer to compare with the baseline; repeatable [default: the baseline alone]",
            )
        })
        .mut_arg("recording", |arg| arg.hide(true))
        .mut_arg("check", |arg| {
            arg.value_name("COMMAND").help(
                "Run this command as well, in turn with the replay and in the same layers, and compare the estimate with its time; the recording is of the same command",
            )
        })
        .arg(own(Arg::new("file").value_name("FILE").help("The recording, as `layermark record` has written it")))
        .arg(own(
            Arg::new("tree")
                .long("tree")
                .value_name("DIR")
                .value_hint(ValueHint::DirPath)
                .requires("check")
                .help("With --check: the tree that the command works in, as it was before the recording [default: the current directory]"),
        ))
        .arg(own(
            Arg::new("expect")
                .long("expect")
                .value_name("CODE")
                .value_parser(clap::value_parser!(u8))
                .requires("check")
                .help("With --check: the command's exit code [default: 0]"),
        ))
        .arg(own(
            Arg::new("timeout")
                .long("timeout")
                .value_name("TIME")
                .requires("check")
                .help("With --check: a command that has not ended after this time has failed [default: 60s]"),
        ))
}

/// Sets the recording. Returns the step of the program that it is compared with.
pub fn settings(
    matches: &ArgMatches,
    settings: &mut Settings,
) -> Result<Option<Settings>, Failure> {
    let file = matches.get_one::<String>("file");
    let Some(file) = file.or_else(|| matches.get_one("recording")) else {
        return Err(Failure::usage("replay: no recording")
            .hint("layermark record -o app.lmrec -- PROGRAM, then: layermark replay app.lmrec"));
    };
    settings
        .params
        .insert("recording".into(), file.as_str().into());
    let Some(check) = matches.get_one::<String>("check") else {
        return Ok(None);
    };
    let known = replay::about(file.as_ref());
    let about = known.map_err(|e| {
        let hint = e.hint.clone();
        let failure = Failure::usage(format!("replay: {e}"));
        failure.hint(hint.unwrap_or_else(|| "layermark record -o app.lmrec -- PROGRAM".into()))
    })?;
    if !about.with_think {
        return Err(Failure::usage(format!(
            "replay: `--check` = {check}: the recording has no estimate, since the time between its calls is not known"
        ))
        .hint("record the program again, and see what `record` says of the time between calls: layermark record -- PROGRAM"));
    }
    let estimate = "application";
    let time = settings.params.insert("time".into(), estimate.into());
    if let Some(time) = time.filter(|time| time != estimate) {
        return Err(Failure::usage(format!(
            "replay: `--time` = {}: `--check` compares the estimate of the application alone",
            time.as_str().unwrap_or_default()
        ))
        .hint("leave out --time, or --check"));
    }
    let tree = matches
        .get_one::<String>("tree")
        .map_or(".", String::as_str);
    // As the replay: a tree is made again only if it was changed.
    let copy = if about.changes { "each" } else { "once" };
    let params = [("run", check.as_str()), ("tree", tree), ("copy", copy)];
    let params = params.map(|(key, value)| (key.to_owned(), value.into()));
    let mut params: serde_json::Map<_, _> = params.into_iter().collect();
    if let Some(timeout) = matches.get_one::<String>("timeout") {
        params.insert("timeout".into(), timeout.as_str().into());
    }
    if let Some(code) = matches.get_one::<u8>("expect") {
        let expected = format!("exit={code}");
        params.insert("expect".into(), vec![expected].into());
    }
    Ok(Some(Settings {
        workload: <dyn Workload>::id(&steps::WORKLOAD).into(),
        label: None,
        params,
    }))
}
