//! `layermark durability record`: writes records until the power is cut.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::Args;
use layermark_layers::{KeptDir, LayerError, in_words, janitor, mounts, sandbox, workdir};
use layermark_model::{format_size, parse_size, random, witness::Acknowledged};
use layermark_probe::witness::{self, Site, Witness, Writer};

use super::log::{Entry, Head, Sink};
use crate::{
    commands::{
        dir_journal,
        measure::exe,
        target::{Destination, FileOption},
    },
    failure::Failure,
    say::say,
};

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The directory to test
    pub dir: PathBuf,
    /// The log: a file on a disk of another machine, or one that keeps its power; `-` is standard output, for ssh
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// A way of writing; repeatable [default: all]
    #[arg(long = "writer", value_name = "WRITER", value_parser = writer_names())]
    pub writers: Vec<String>,
    /// Stop after this many records of each writer [default: until the power is cut, or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: Option<u64>,
    /// Bytes of a record: whole pages of 4K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub record: String,
    /// Accept a log that a power cut may take as well, and replace a log that exists
    #[arg(long)]
    pub force: bool,
}

/// Names of the writers, for help and completion.
fn writer_names() -> clap::builder::PossibleValuesParser {
    use clap::builder::PossibleValue;
    let value = |w: &&'static dyn witness::Writer| PossibleValue::new(w.id()).help(w.about());
    witness::ALL.iter().map(value).collect::<Vec<_>>().into()
}

/// Records after which a writer whose files grow stops. The others go on.
const MOST_GROWN: u64 = 20_000;
const LOG_ELSEWHERE: &str = "write the log where the power stays on: ssh ROOT@TESTED-HOST layermark durability record --to - DIR > witness.log";

/// Name of the directory of a run in the tested one.
pub fn name(run: u64) -> String {
    format!("layermark-witness-{run:016x}")
}

/// Does `work` with the directory of a run, which another user's directory may have in it.
pub fn in_dir<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // Held until the end: it removes the mount point of the directory when this process ends for any reason.
    let _janitor = janitor::spawn(&exe()?, dir_journal::open())
        .map_err(|e| Failure::failed(format!("the watcher that cleans up: {e}")))?;
    sandbox::enter()?;
    work()
}

/// The error for a tested directory, or that of a run in it.
pub fn unusable(e: LayerError, hint: &str) -> Failure {
    let is_bad = matches!(e, LayerError::BadDir { .. });
    let failure = Failure::from(e);
    if is_bad { failure.hint(hint) } else { failure }
}

pub fn until_the_power_is_cut(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let dir = workdir::real_path(&args.dir).map_err(|e| {
        Failure::usage(format!("{}: {e}", args.dir.display())).hint("name the directory to test")
    })?;
    let record = record_size(&args.record)?;
    if args.to.as_os_str() != "-" && !args.force {
        apart(&dir, &args.to)?;
    }
    let sink = open(args)?;
    in_dir(|| write(args, &dir, record, sink))
}

fn write(
    args: &RecordArgs,
    dir: &Path,
    record: usize,
    mut sink: Sink,
) -> Result<ExitCode, Failure> {
    let run = random();
    let home = KeptDir::make(dir, &name(run))
        .map_err(|e| unusable(e, "name a directory that you may write to"))?;
    let mut writing = prepare(args, home.path(), run, record)?;
    let names = writing.iter().map(|(w, _)| w.id().to_owned()).collect();
    // The file at the other end of standard output has a name that only its reader knows.
    let shown = match args.to.to_string_lossy() {
        to if to == "-" => "LOG".into(),
        to => to,
    };
    let full = |e: io::Error, records: u64| {
        Failure::failed(format!(
            "the log {shown}: {e}; {records} acknowledged records are in it and can be checked"
        ))
        .hint("make room for the log, or put it elsewhere with --to")
    };
    sink.add(&Head::new(
        run,
        record as u64,
        names,
        dir,
        home.other_owner(),
    ))
    .map_err(|e| full(e, 0))?;
    say(format!(
        "writing records in {}; cut the power when you like, then: layermark durability check --from {shown} {}",
        home.named().display(),
        args.dir.display()
    ));
    let (begun, mut records) = (Instant::now(), 0);
    for round in 1.. {
        let mut any = false;
        for (writer, witness) in &mut writing {
            let grows = writer.slots().is_none();
            if args.records.is_some_and(|n| round > n) || grows && round > MOST_GROWN {
                continue;
            }
            any = true;
            let stamp = witness.write().map_err(|e| {
                Failure::failed(format!(
                    "{}; it is not tried again: a second fsync may return 0 although the data is lost",
                    in_words(&e.message)
                ))
                .hint(format!(
                    "look for the {records} acknowledged records: layermark durability check --from {shown} {}",
                    args.dir.display()
                ))
            })?;
            let ack = Acknowledged {
                sequence: stamp.sequence,
                block: stamp.block,
                generation: stamp.generation,
                ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
            };
            let writer = writer.id().to_owned();
            sink.add(&Entry { writer, ack })
                .map_err(|e| full(e, records))?;
            records += 1;
        }
        if !any {
            break;
        }
    }
    say(format!("{records} records were acknowledged"));
    Ok(ExitCode::SUCCESS)
}

fn record_size(text: &str) -> Result<usize, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("`--record` = {text}: {why}"))
            .hint("layermark durability record --record 4K --to FILE DIR")
    };
    let size = parse_size(text).map_err(|e| wrong(e.to_string()))?;
    let fits = usize::try_from(size).ok().filter(|n| witness::takes(*n));
    fits.ok_or_else(|| {
        wrong(format!(
            "{} is not a whole number of pages of 4K, up to 1M",
            format_size(size)
        ))
    })
}

/// Refuses a log that the same power cut may take.
fn apart(dir: &Path, log: &Path) -> Result<(), Failure> {
    let parent = match log.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let below = |path: &Path| {
        mounts::facts_of(path)
            .map_err(|e| Failure::usage(format!("{}: {e}", path.display())).hint(LOG_ELSEWHERE))
    };
    let (tested, kept) = (below(dir)?, below(parent)?);
    let refused = |why: &str| {
        Err(Failure::usage(format!("the log {} {why}", log.display()))
            .hint(format!("{LOG_ELSEWHERE}; to record all the same: --force")))
    };
    if kept.in_memory() {
        return refused("is in memory, which a power cut empties");
    }
    let disks = |facts: &layermark_model::Facts| -> BTreeSet<String> {
        let devices = facts.devices.iter().filter(|d| d.physical);
        devices.map(|d| d.number.clone()).collect()
    };
    let same_mount = tested
        .mounts
        .first()
        .is_some_and(|m| kept.mounts.first() == Some(m));
    if same_mount || !disks(&tested).is_disjoint(&disks(&kept)) {
        return refused(&format!(
            "is on the disk that is tested, of {}",
            dir.display()
        ));
    }
    Ok(())
}

fn open(args: &RecordArgs) -> Result<Sink, Failure> {
    const LOG: FileOption = FileOption {
        name: "--to",
        elsewhere: LOG_ELSEWHERE,
    };
    let path = &args.to;
    if path.as_os_str() == "-" {
        return Ok(Sink::Stdout);
    }
    let made = Destination::find(&LOG, path, args.force)?.open(args.force);
    let synced = made.and_then(|file| {
        file.sync_all()
            .map_err(|e| io::Error::new(e.kind(), format!("it cannot be synced: {e}")))?;
        Ok(Sink::File(file))
    });
    synced
        .map_err(|e| Failure::usage(format!("the log {}: {e}", path.display())).hint(LOG_ELSEWHERE))
}

/// A writer and its files.
type Prepared = (&'static dyn Writer, Witness);

/// Makes the files of the writers. One that does not work here is left out, unless it was named.
fn prepare(
    args: &RecordArgs,
    home: &Path,
    run: u64,
    record: usize,
) -> Result<Vec<Prepared>, Failure> {
    let named = |w: &&&'static dyn Writer| {
        args.writers.is_empty() || args.writers.iter().any(|n| n == w.id())
    };
    let mut prepared = Vec::new();
    let mut first = None;
    for writer in witness::ALL.iter().filter(named) {
        let site = Site {
            dir: home.join(writer.id()),
            run,
            record,
        };
        match Witness::prepare(*writer, site) {
            Ok(witness) => {
                if let Some(refused) = witness.refused() {
                    say(format!("note: `{}`: {refused}", writer.id()));
                }
                prepared.push((*writer, witness));
            }
            Err(e) => {
                say(format!(
                    "note: `{}` is left out: {}",
                    writer.id(),
                    in_words(&e.message)
                ));
                first.get_or_insert(e);
            }
        }
    }
    match first {
        Some(e) if prepared.is_empty() || !args.writers.is_empty() => {
            let hint = e.hint.unwrap_or_else(|| {
                "see which writers there are: layermark durability record --help".into()
            });
            Err(Failure::failed(in_words(&e.message)).hint(hint))
        }
        _ => Ok(prepared),
    }
}
