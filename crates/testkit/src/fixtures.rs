//! Runs that were measured once and are kept in `fixtures/`, so that a test which needs a stored run has to measure
//! nothing. `scripts/fixtures.sh` has the command of each and makes it again.
//!
//! A fixture is text: a line for the command, the run, each of its layers, points and trials, as the store writes them.

use std::{io, path::Path};

use layermark_model::{Import, Run, TrialRecord};
use layermark_store::{Archive, Store, StoreError};
use serde::{Deserialize, Serialize};

/// A run that is kept.
#[derive(Debug, Clone, Copy)]
pub struct Fixture {
    /// Name of its file, without the ending.
    pub name: &'static str,
    text: &'static str,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct First {
    /// The command that measured it.
    command: String,
}

/// What a fixture holds.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The command that measured it.
    pub command: String,
    /// The run, with its layers and points.
    pub run: Run,
    /// Its trials in order.
    pub trials: Vec<TrialRecord>,
    /// Results of other programs, stored in the same store.
    pub imports: Vec<Import>,
}

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        /// All of them, in the order of their names. A test fails if a file is not listed.
        pub const ALL: &[Fixture] = &[
            $(Fixture {
                name: $name,
                text: include_str!(concat!("../fixtures/", $name, ".jsonl")),
            }),*
        ];
    };
}

fixtures![
    "beside",
    "buffer-size",
    "busy",
    "charted",
    "coherence",
    "compare-new",
    "compare-old",
    "daily",
    "db",
    "devload",
    "durability",
    "failed-layers",
    "failed-trials",
    "file",
    "fileio-appvirt",
    "flush-cost",
    "ftp",
    "fuse-fast17",
    "gate-broken",
    "gate-held",
    "http",
    "iops",
    "iozone-vm",
    "killed",
    "launch-share",
    "launch",
    "lock",
    "meta",
    "net",
    "nothing-measured",
    "overlay-copy-up",
    "own-program",
    "quiet",
    "scripted-later",
    "scripted",
    "sequences",
    "steps",
    "stopped",
    "sweep",
    "virtual-io-stack",
];

/// The fixture of this name.
///
/// # Panics
/// If there is none.
#[track_caller]
pub fn fixture(name: &str) -> Fixture {
    let found = ALL.iter().find(|f| f.name == name);
    *found.unwrap_or_else(|| panic!("no fixture is named {name}"))
}

impl Fixture {
    /// Reads it.
    ///
    /// # Panics
    /// If this version cannot read what an earlier one wrote: then users' stores cannot be read either.
    pub fn read(&self) -> Kept {
        let (first, rest) = self.text.split_once('\n').unwrap_or((self.text, ""));
        let first: First = serde_json::from_str(first)
            .unwrap_or_else(|e| panic!("{}.jsonl, line 1: {e}", self.name));
        let archive = Archive::read(&mut rest.as_bytes());
        let archive = archive.unwrap_or_else(|e| panic!("{}.jsonl, {e}", self.name));
        Kept {
            command: first.command,
            run: archive.run,
            trials: archive.trials,
            imports: archive.imports,
        }
    }
}

impl Kept {
    /// Writes it as a fixture.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let first = First {
            command: self.command.clone(),
        };
        serde_json::to_writer(&mut *out, &first)?;
        out.write_all(b"\n")?;
        self.archive().write(out)
    }

    /// The run as a file of its own has it.
    pub fn archive(&self) -> Archive {
        Archive {
            run: self.run.clone(),
            trials: self.trials.clone(),
            imports: self.imports.clone(),
        }
    }

    /// Puts it into a store, as the lab does.
    ///
    /// # Errors
    /// If the store cannot be written, or has the run already.
    pub fn store(&self, store: &mut Store) -> Result<(), StoreError> {
        store.add(&self.archive())
    }
}

/// Makes a store at this path that has these runs.
///
/// # Panics
/// If it cannot be made.
pub fn store(path: &Path, names: &[&str]) {
    store_runs(path, names.iter().map(|name| fixture(name).read()));
}

/// Makes a store at this path that has these runs, which a test may have changed.
///
/// # Panics
/// If it cannot be made.
pub fn store_runs(path: &Path, runs: impl IntoIterator<Item = Kept>) {
    let mut store = Store::open(path).unwrap_or_else(|e| panic!("{e}"));
    for kept in runs {
        kept.store(&mut store)
            .unwrap_or_else(|e| panic!("{}: {e}", kept.run.id));
    }
}

/// Trials of the newest run in a store; 0 if there is none. Cheap enough to be asked again and again while a run works.
pub fn trials_stored(path: &Path) -> u64 {
    let newest = Store::open_read(path).and_then(|mut store| store.list(1));
    newest.map_or(0, |runs| runs.first().map_or(0, |run| run.trials))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_file_is_listed_and_says_its_command() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let files = std::fs::read_dir(dir).unwrap().flatten();
        let files: BTreeMap<_, _> = files
            .map(|f| {
                (
                    f.file_name().into_string().unwrap(),
                    f.metadata().unwrap().len(),
                )
            })
            .collect();
        let listed: Vec<_> = ALL.iter().map(|f| format!("{}.jsonl", f.name)).collect();
        assert_eq!(files.keys().cloned().collect::<Vec<_>>(), listed);
        let bytes: u64 = files.values().sum();
        assert!(bytes < 5_000_000, "{bytes} bytes: {files:#?}");
        for fixture in ALL {
            let kept = fixture.read();
            assert!(kept.command.contains("layermark "), "{}", fixture.name);
        }
    }

    /// What this version reads and writes is what the file has.
    #[test]
    fn nothing_is_lost_on_the_way_through_a_store() {
        let dir = tempfile::tempdir().unwrap();
        for fixture in ALL {
            let kept = fixture.read();
            let mut store = Store::open(dir.path().join(fixture.name)).unwrap();
            kept.store(&mut store).unwrap();
            let (run, trials) = store.load(&kept.run.id).unwrap();
            let again = Kept {
                run,
                trials,
                ..kept
            };
            let mut text = Vec::new();
            again.write(&mut text).unwrap();
            assert_eq!(
                String::from_utf8(text).unwrap(),
                fixture.text,
                "{}",
                fixture.name
            );
        }
    }
}
