//! Containers that layermark starts. The probe's agent is the container's only process, and its standard input
//! and output are those of the runtime.
//!
//! The runtime runs in a mount and a PID namespace of its own, which end with it: it sees the layer's directory
//! at [`SEEN_AT`], an empty `/run` and its own view of the control groups. So no process or mount of it
//! outlives the layer. A runc that is killed leaves an empty control group, which the next one removes.

use std::{
    ffi::{CString, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use layermark_model::{Missing, Spec, random_name};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Storage, Undo,
    child::{self, Change, SEEN_AT},
    entered::{self, Own, Start, Way},
    host::HostPlace,
    needs,
    options::{bad, on, value},
    sandbox,
};

mod bubblewrap;
mod docker;
mod nspawn;
mod oci;
mod podman;

/// A container.
pub(crate) struct Container;

const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "variant",
        values: &["podman", "docker", "crun", "runc", "nspawn", "bubblewrap"],
        default: "podman",
        help: "the runtime that starts the container, in which layermark is the only program",
    },
    LayerOption {
        name: "at",
        values: &["root", "volume", "named", "tmpfs"],
        default: "root",
        help: "where the work is done. root: the container's own writable layer (podman and docker: an \
               overlay; others: a directory); volume: a bind mount of a directory below --dir; named: a volume of \
               podman's or docker's; tmpfs",
    },
    LayerOption {
        name: "rm",
        values: &["on", "off"],
        default: "off",
        help: "start it with --rm (podman and docker)",
    },
];

/// The binary and the directories in a container.
const BINARY: &str = "/layermark";
const OWN_DIR: &str = "/work";
const MOUNTED_DIR: &str = "/data";
/// Directories of the root; nspawn takes a root without `usr` for empty.
const ROOT_DIRS: [&str; 9] = [
    "work", "data", "tmp", "proc", "dev", "sys", "usr", "etc", "run",
];

/// A program that starts containers.
struct Runtime {
    /// Name of the program, and of its Debian package.
    program: (&'static str, &'static str),
    about: &'static str,
    /// `None`: a daemon runs it.
    command: Option<Starting>,
}

/// Prepares a container; returns the command that runs it.
type Starting = fn(&Bundle) -> Result<Vec<OsString>, LayerError>;

fn runtime(spec: &Spec) -> &'static Runtime {
    match value(spec, OPTIONS, "variant") {
        "docker" => &docker::DOCKER,
        "crun" => &oci::CRUN,
        "runc" => &oci::RUNC,
        "nspawn" => &nspawn::NSPAWN,
        "bubblewrap" => &bubblewrap::BUBBLEWRAP,
        _ => &podman::PODMAN,
    }
}

/// Where a container does its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Root,
    Volume,
    Named,
    Tmpfs,
}

fn at(spec: &Spec) -> At {
    match value(spec, OPTIONS, "at") {
        "volume" => At::Volume,
        "named" => At::Named,
        "tmpfs" => At::Tmpfs,
        _ => At::Root,
    }
}

/// What a container is started from.
struct Bundle<'a> {
    layer: &'a str,
    /// The layer's directory as layermark sees it; [`SEEN_AT`] for the runtime.
    dir: &'a Path,
    view: &'a [Change],
    at: At,
    rm: bool,
    /// The agent's command line in the container.
    agent: [&'a str; 3],
}

impl Bundle<'_> {
    /// Runs a command of the runtime to its end.
    fn run(&self, words: &[OsString]) -> Result<String, LayerError> {
        let command = entered::own_command(words, self.view);
        child::run(self.layer, &mut command.map_err(|e| self.io("run", e))?)
    }

    fn io(&self, what: &str, e: io::Error) -> LayerError {
        LayerError::io(self.layer, what, self.dir)(e)
    }
}

/// Words of a command line.
fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Runs what follows in a PID namespace. If layermark is killed, the kernel kills all processes in it.
fn contained<const N: usize>(more: [&str; N]) -> Vec<OsString> {
    let unshare = words(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    [unshare, words(more)].concat()
}

impl Layer for Container {
    fn id(&self) -> &'static str {
        "container"
    }

    fn group(&self, _: &str) -> Group {
        Group::Containers
    }

    fn about(&self, variant: &str) -> &'static str {
        match variant {
            "" => "a container: its own files, a volume or a tmpfs",
            name => {
                let variant = Some(name.to_owned());
                runtime(&Spec {
                    variant,
                    ..Spec::bare("container")
                })
                .about
            }
        }
    }

    fn options(&self) -> &'static [LayerOption] {
        OPTIONS
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &[]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        if ["podman", "docker"].contains(&runtime(spec).program.0) {
            return Ok(());
        }
        for (option, its) in [("at", "named"), ("rm", "on")] {
            if value(spec, OPTIONS, option) == its {
                let must = "is an option of podman and docker: -l container:podman".to_owned();
                return Err(bad(spec, option, its, must));
            }
        }
        Ok(())
    }

    fn storage(&self, spec: &Spec) -> Storage {
        match at(spec) {
            At::Tmpfs => Storage::Memory,
            At::Root | At::Named if runtime(spec).command.is_none() => Storage::Elsewhere,
            _ => Storage::Base,
        }
    }

    fn linked(&self, spec: &Spec, _: Option<&str>) -> Result<Spec, LayerError> {
        Err(entered::no_network(&spec.to_string()))
    }

    fn uncut(&self, spec: &Spec) -> Option<&'static str> {
        if at(spec) == At::Tmpfs {
            return Some("its files are in memory: a power cut leaves none of them");
        }
        let daemon = runtime(spec).command.is_none();
        daemon.then_some("its files belong to a daemon of yours")
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let runtime = runtime(spec);
        let (program, package) = runtime.program;
        if runtime.command.is_none() {
            let needed = [sandbox::not_root(), needs::static_binary()];
            return needed
                .into_iter()
                .flatten()
                .chain(docker::missing())
                .collect();
        }
        // podman starts its containers with crun.
        let crun = (program == "podman").then(|| needs::program("crun", "crun"));
        sandbox::not_root()
            .into_iter()
            .chain(needs::program(program, package))
            .chain(crun.flatten())
            .chain(needs::static_binary())
            .collect()
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let layer = spec.to_string();
        let (runtime, at) = (runtime(spec), at(spec));
        let Some(command) = runtime.command else {
            return docker::open(base, spec, undo);
        };
        if base.survived() {
            let dir = files_of(&base.dir, runtime, at).map_err(LayerError::io(
                &layer,
                "find the container's files in",
                &base.dir,
            ))?;
            return Ok(Box::new(HostPlace::new(base, spec, dir)));
        }
        base.emptied(undo);
        let view = prepare(base).map_err(LayerError::io(&layer, "prepare", &base.dir))?;
        let token = random_name("");
        let bundle = Bundle {
            layer: &layer,
            dir: &base.dir,
            view: &view,
            at,
            rm: on(spec, OPTIONS, "rm"),
            agent: [BINARY, "place", &token],
        };
        let (program, package) = runtime.program;
        let version = child::run(
            &layer,
            needs::tool(&layer, program, package)?.arg("--version"),
        )?;
        let mut notes = vec![("runtime".into(), program.to_owned())];
        if program == "podman" {
            notes.push(("storage_driver".into(), podman::DRIVER.into()));
        }
        let way = Way {
            command: command(&bundle)?,
            by_hand: Vec::new(),
            start: Start::Own(Own {
                token: token.clone(),
                view: Some(view.clone()),
            }),
            drop_caches: Vec::new(),
            dir: match at {
                At::Root => OWN_DIR.into(),
                _ => MOUNTED_DIR.into(),
            },
            notes,
            versions: vec![(program.into(), version)],
        };
        Ok(Box::new(entered::open(base, spec, way)?))
    }
}

/// The probe's directory of a container that a power cut ended, as this host sees it: in the writable layer of
/// its root, or in its volume. A new container would not have these files.
fn files_of(dir: &Path, runtime: &Runtime, at: At) -> io::Result<PathBuf> {
    let parents = match (at, runtime.program.0) {
        // The image's layer has the directory too, and it is empty there.
        (At::Root, "podman") => {
            let layers = below(&dir.join("store/overlay"))?.into_iter();
            layers.map(|layer| layer.join("diff/work")).collect()
        }
        (At::Root, _) => vec![dir.join("root/work")],
        (At::Named, _) => vec![dir.join("store/volumes/layermark/_data")],
        (At::Volume | At::Tmpfs, _) => vec![dir.join("volume")],
    };
    let found = parents.iter().filter_map(|dir| below(dir).ok()).flatten();
    let mut found = found.filter(|path| path.is_dir());
    found.next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect()
}

/// Makes the root and the volume. Returns what the runtime sees in place of this host's files.
fn prepare(base: &Base) -> io::Result<Vec<Change>> {
    for name in ROOT_DIRS {
        fs::create_dir_all(base.dir.join("root").join(name))?;
    }
    fs::create_dir(base.dir.join("volume"))?;
    // Mount points of the binary.
    let binary = base.dir.join("layermark");
    for file in [&base.dir.join("root/layermark"), &binary] {
        fs::write(file, b"")?;
    }
    let path = |path: &Path| Change::path(path);
    Ok(vec![
        Change::Cover(path(&base.exe)?, path(&binary)?),
        Change::Show(Some(path(&base.dir)?), path(SEEN_AT.as_ref())?),
        Change::Empty(path("/run".as_ref())?, CString::from(c"mode=755")),
        Change::ControlGroups,
    ])
}
