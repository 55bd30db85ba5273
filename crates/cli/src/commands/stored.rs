//! Opens the store, and reads runs from it.

use std::{env, io, path::Path, time::Duration};

use layermark_model::{Run, StoreOption, TrialRecord, parse_duration};
use layermark_probe::workloads;
use layermark_report::Report;
use layermark_store::{Archive, Store, StoreError, is_archive};

use crate::{
    failure::{Code, Failure},
    say::say,
};

/// Environment variable: how long a run waits for a store on a server that is gone.
const PATIENCE: &str = "LAYERMARK_STORE_PATIENCE";

/// Opens the store in `--store`, or the user's default one.
pub fn open_store(path: Option<&Path>) -> Result<Store, Failure> {
    let patience = patience()?;
    let mut store = match path {
        Some(path) => {
            has_directory(path)?;
            Store::open(path)?
        }
        None => Store::open_default()?,
    };
    if let Some(patience) = patience {
        store.set_patience(patience);
    }
    if store.narrowed() {
        let path = store.path().display();
        say(format!(
            "note: other users could open the store {path}: it is yours alone now (mode 0600)"
        ));
    }
    Ok(store)
}

/// The time in [`PATIENCE`].
fn patience() -> Result<Option<Duration>, Failure> {
    let Some(text) = env::var_os(PATIENCE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let text = text.to_string_lossy();
    let patience = parse_duration(&text).map_err(|e| {
        let hint = format!("a time such as {PATIENCE}=10m; without it, a minute");
        Failure::usage(format!("{PATIENCE}={text}: {e}")).hint(hint)
    });
    patience.map(Some)
}

/// Refuses a file in a directory that is not there: a word that was typed wrong would make one. The
/// address of a server is none.
fn has_directory(path: &Path) -> Result<(), Failure> {
    let missing = |dir: &&Path| {
        let found = dir.metadata();
        found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    };
    let text = path.to_string_lossy();
    if text.contains("://") {
        return Ok(());
    }
    let path = text.strip_prefix("sqlite:").map_or(path, Path::new);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.filter(missing).map_or(Ok(()), |dir| {
        let (path, dir) = (path.display(), dir.display());
        let text = format!("--store {path}: there is no directory {dir}");
        Err(Failure::usage(text).hint(format!("make it: mkdir -p {dir}")))
    })
}

/// Opens the store to read it; writes nothing.
pub fn read_store(path: Option<&Path>) -> Result<Store, Failure> {
    Ok(match path {
        Some(path) => Store::open_read(path)?,
        None => Store::open_read(layermark_store::default_path()?)?,
    })
}

/// Loads a stored run with its trials. Its points have the meaning that this version gives them if an
/// earlier one stored none.
pub fn load(store: &mut Store, id: &str) -> Result<(Run, Vec<TrialRecord>), Failure> {
    let (mut run, trials) = store.load(id)?;
    workloads::complete(&mut run.points);
    Ok((run, trials))
}

/// A stored run with its trials, as a file of its own has it.
pub fn kept(store: &mut Store, id: &str) -> Result<Archive, Failure> {
    let (run, trials) = load(store, id)?;
    Ok(Archive {
        run,
        trials,
        imports: Vec::new(),
    })
}

/// A run that somebody has sent, in a file of its own. The hints in it are of that machine, and somebody else's words.
pub fn sent(path: &Path) -> Result<Archive, Failure> {
    let mut kept = Archive::open(path).map_err(|e| Failure::usage(&e).hint(e.hint()))?;
    kept.run.sent = true;
    for layer in &mut kept.run.layers {
        layer.hint = None;
    }
    workloads::complete(&mut kept.run.points);
    Ok(kept)
}

/// Stores a run that was sent.
pub fn keep(store: &mut Store, kept: Archive) -> Result<Archive, Failure> {
    let run = &kept.run.id;
    if store.load(run).is_ok_and(|(found, _)| found.id == *run) {
        let text = format!("run {run} is in the store already");
        let hint = format!("layermark report {run}{}", store.option());
        return Err(Failure::usage(text).hint(hint));
    }
    store.add(&kept)?;
    let option = store.option();
    let run = Run {
        store: option,
        ..kept.run
    };
    Ok(Archive { run, ..kept })
}

/// The store that runs are looked for in, opened to be read when the first is.
pub struct Opened<'a> {
    at: Option<&'a Path>,
    store: Option<Store>,
}

impl<'a> Opened<'a> {
    /// The store in `--store`, or the user's default one.
    pub fn new(at: Option<&'a Path>) -> Self {
        Self { at, store: None }
    }

    pub fn get(&mut self) -> Result<&mut Store, Failure> {
        match &mut self.store {
            Some(open) => Ok(open),
            none => Ok(none.insert(read_store(self.at)?)),
        }
    }

    /// A run by its name in the store, or the one in the file x.lm of this name.
    pub fn find(&mut self, name: &str) -> Result<Archive, Failure> {
        let path = Path::new(name);
        if is_archive(path) {
            return sent(path);
        }
        kept(self.get()?, name)
    }

    /// How commands name it; the default one if none was opened.
    pub fn option(&self) -> StoreOption {
        self.store.as_ref().map(Store::option).unwrap_or_default()
    }
}

/// How hosts are started, where a run of others could say it: a launcher is a command.
pub const OWN_HOSTS: &str = "--launcher LAUNCHER --hosts HOSTS";

/// The command that goes on with a run. `theirs`: others could have written it, so its launcher is not repeated.
pub fn go_on(run: &Run, theirs: bool) -> String {
    let (id, store) = (&run.id, &run.store);
    let Some(fleet) = run.fleet.as_deref() else {
        return format!("layermark run --resume {id}{store}");
    };
    let flags = if theirs || run.sent {
        OWN_HOSTS.to_owned()
    } else {
        fleet.launcher_flags(|word| shell_words::quote(word).into_owned())
    };
    format!("layermark fleet run --resume {id} {flags}{store}")
}

/// The report of a stored run.
pub fn report(store: &mut Store, run: &str) -> Result<Report, Failure> {
    let (run, trials) = load(store, run)?;
    Ok(build(&run, &trials))
}

/// The report of a run, with what each layer is.
pub fn build(run: &Run, trials: &[TrialRecord]) -> Report {
    let mut report = Report::build(run, trials);
    for (layer, of) in report.layers.iter_mut().zip(&run.layers) {
        if let Some(about) = layermark_layers::about(&of.spec) {
            (layer.about, layer.brief) = (about.to_string(), about.brief.to_owned());
        }
    }
    report
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = if error.is_usage() {
            Code::Usage
        } else {
            Code::Failed
        };
        Self {
            message: error.to_string(),
            param: None,
            hint: Some(
                error
                    .hint()
                    .unwrap_or_else(|| "keep runs elsewhere: --store FILE".into()),
            ),
            code,
        }
    }
}
