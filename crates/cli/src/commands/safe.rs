//! `layermark safe`: whether a directory of the user can be relied on.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum, ValueHint};
use layermark_model::{Plan, Settings, Spec};
use layermark_report::{Report, SafeTopic, SafeVerdict, Safety, render};
use serde_json::{Map, Value, json};

use super::{
    measure::{Order, Special, go_on},
    output,
    run::{of_work, request},
    stdout,
};
use crate::{
    common_args::{CommonArgs, JsonArg, StoreArg, silence},
    failure::{Code, Failure},
};

#[derive(Debug, Args)]
pub struct SafeArgs {
    /// The directory; a new one below it is worked in, and removed at the end
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Another path of it for the second side, such as a second mount of the same share, or its directory on the server
    /// [default: a second process in DIR]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    other: Option<PathBuf>,
    /// A directory on the disk that has the data, for a file system that does not say; nothing is written there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    below: Option<PathBuf>,
    /// What is asked; repeatable [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    only: Vec<Topic>,
    /// Give up if the directory does not answer for this long
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = silence)]
    silence: Duration,
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    pub json: JsonArg,
}

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Topic {
    /// Whether flock, fcntl and OFD locks exclude
    Locks,
    /// Whether two processes see what the other one writes into a shared mapping
    Mappings,
    /// Whether fsync reaches the device
    Fsync,
    /// Whether names are there after a power cut
    Names,
    /// Whether the other side sees changes
    Coherence,
}

impl From<Topic> for SafeTopic {
    fn from(topic: Topic) -> Self {
        match topic {
            Topic::Locks => Self::Locks,
            Topic::Mappings => Self::Mappings,
            Topic::Fsync => Self::Fsync,
            Topic::Names => Self::Names,
            Topic::Coherence => Self::Coherence,
        }
    }
}

/// How often everything is done.
const BLOCKS: u32 = 3;
/// How long the second side looks for a change.
const WAIT: &str = "2s";
/// The changes of coherence.
const CHANGES: &str = "create,list,append,overwrite,rename,remove";

/// Measures, then prints a line for each question.
pub fn directory(args: &SafeArgs) -> Result<ExitCode, Failure> {
    let spec = layer(args)?;
    let named = args.other.as_ref().map_or("", |_| " --other OTHER");
    let named = format!("layermark safe DIR{named}");
    // This command has no flag for its directory.
    let special = Special {
        instead: &[
            ("-l dir:DIR", &named),
            ("--dir DIR", &named),
            (" with --dir", ""),
        ],
        ..Special::default()
    };
    layermark_layers::check(&spec).map_err(|e| special.failure(e))?;
    let topics = match args.only.as_slice() {
        [] => Topic::value_variants(),
        only => only,
    };
    let topics: Vec<SafeTopic> = topics.iter().copied().map(Into::into).collect();
    // What layermark itself needs is there as well, so that no other run of this user is in its way.
    let mut common = CommonArgs::usual(&args.dir)?;
    common.allow_tmpfs = true;
    common.silence = args.silence;
    common.out.json.json = args.json.json;
    common.out.store.store.clone_from(&args.store.store);
    let plan = Plan {
        layers: vec![spec.clone()],
        baseline: Some(spec),
        about: "Whether a directory can be relied on.".into(),
        blocks: Some(BLOCKS),
        sessions: Some(1),
        control: false,
        ..of_work("safe", work(&topics))
    };
    let order = Order::New(Box::new(request(plan, &common)?));
    let show = |report: &Report| show(report, &topics, args.json.json);
    let special = Special {
        show: Some(&show),
        ..special
    };
    go_on(order, &common, None, &special)
}

/// The directory as a layer with two sides.
fn layer(args: &SafeArgs) -> Result<Spec, Failure> {
    let dir = absolute(&args.dir)?;
    let other = args.other.as_deref().map_or(Ok(dir.clone()), absolute)?;
    let mut spec = Spec {
        variant: Some(dir),
        ..Spec::bare("dir")
    };
    spec.options.insert("other".into(), other);
    if let Some(below) = &args.below {
        spec.options.insert("below".into(), absolute(below)?);
    }
    if spec.to_string().parse().as_ref() != Ok(&spec) {
        let text = format!(
            "safe: {}: a layer cannot have a path with a comma in it",
            args.dir.display()
        );
        // A symbolic link is followed to the name with the comma.
        let dir = shell_words::quote(&args.dir.to_string_lossy()).into_owned();
        return Err(Failure::usage(text).hint(format!(
            "mount it at a path without one: sudo mount --bind {dir} /mnt; layermark safe /mnt"
        )));
    }
    Ok(spec)
}

fn absolute(dir: &Path) -> Result<String, Failure> {
    let cannot = |why: String| Failure::usage(format!("safe: {}: {why}", dir.display()));
    let real = layermark_layers::workdir::real_path(dir).map_err(|e| {
        cannot(match e.kind() {
            std::io::ErrorKind::NotFound => "it does not exist".into(),
            _ => e.to_string(),
        })
        .hint("name a directory: layermark safe .")
    })?;
    let text = real.to_str().map(str::to_owned);
    text.ok_or_else(|| cannot("its name is not UTF-8".into()))
}

/// What is measured.
fn work(topics: &[SafeTopic]) -> Vec<Settings> {
    let mut work = Vec::new();
    if topics.contains(&SafeTopic::Locks) {
        work.push(settings(
            "lock",
            &json!({"op": "flock,fcntl,ofd", "threads": "2"}),
        ));
    }
    if topics.contains(&SafeTopic::Mappings) {
        let of = json!({"op": "mapped", "wait": WAIT});
        work.push(settings("coherence", &of));
    }
    if topics.contains(&SafeTopic::Coherence) {
        let of = json!({"op": CHANGES, "wait": WAIT});
        work.push(settings("coherence", &of));
    }
    // Also shows that files can be written at all.
    let of = json!({"op": "append", "record": "4K", "sync": "each"});
    work.push(settings("file", &of));
    work
}

/// Work with these parameters.
pub fn settings(workload: &str, params: &Value) -> Settings {
    let params = params.as_object().cloned().unwrap_or_else(Map::new);
    Settings {
        workload: workload.into(),
        label: None,
        params,
    }
}

/// Prints the answers. The exit code of a run that is trusted is that of the worst one.
fn show(report: &Report, topics: &[SafeTopic], json: bool) -> Result<Option<ExitCode>, Failure> {
    let safety = Safety::of(report, topics);
    if json {
        let text = serde_json::to_string_pretty(&safety).map_err(Failure::failed)?;
        stdout::print(&(text + "\n"))?;
    } else {
        let mut text = Vec::new();
        let style = output::style(render::Unit::Ratio);
        render::print_safety(&safety, style, &mut text).map_err(Failure::failed)?;
        stdout::write(&text)?;
    }
    Ok(Some(match safety.worst() {
        SafeVerdict::Yes => ExitCode::SUCCESS,
        SafeVerdict::No => Code::Failed.into(),
        SafeVerdict::NotProved => Code::Untrusted.into(),
    }))
}
