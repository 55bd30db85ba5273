//! Containers that layermark starts. The probe's agent is the container's only process, and its standard input
//! and output are those of the runtime.
//!
//! The runtime runs in a mount and a PID namespace of its own, which end with it: it sees the layer's directory
//! at [`SEEN_AT`], an empty `/run` and its own view of the control groups. So no process or mount of it
//! outlives the layer. A runc that is killed leaves an empty control group, which the next one removes. Only
//! Docker's containers belong to a daemon; see `docker.rs`.

use std::{
    ffi::OsString,
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use layermark_model::{Missing, Spec, random_name};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Storage, Undo, child,
    entered::{self, Own, Start, Way},
    host::HostPlace,
    needs,
    options::{bad, on, value},
    sandbox::{self, Privilege},
    workdir,
};

mod bubblewrap;
mod docker;
mod nspawn;
mod oci;
mod oci_image;
mod podman;
mod root;

use root::Root;

/// A container.
pub(crate) struct Container;

const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "variant",
        values: &[
            "podman",
            "docker",
            "crun",
            "runc",
            "gvisor",
            "nspawn",
            "bubblewrap",
        ],
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
    LayerOption {
        name: "rootfs",
        values: &[],
        default: "",
        help: "a directory with the files of the container's root, such as an unpacked image. It is never written \
               to: an overlay below --dir takes the changes (docker: a copy of it is imported)",
    },
    LayerOption {
        name: "image",
        values: &[],
        default: "",
        help: "an image with the files of the container's root (podman and docker). The engine must have it: \
               nothing is pulled",
    },
];

/// Where volumes are mounted in a container.
const MOUNTED_DIR: &str = "/data";

/// The agent's command line in a container. No image has a file of this name.
fn agent_in(token: &str) -> [String; 3] {
    [format!("/layermark.{token}"), "place".into(), token.into()]
}

/// The directory in a container in which the probe's is made. Its root is always there.
fn work_dir(at: At) -> PathBuf {
    match at {
        At::Root => "/".into(),
        _ => MOUNTED_DIR.into(),
    }
}

/// A program that starts containers.
struct Runtime {
    /// Name of the program, and of its Debian package.
    program: (&'static str, &'static str),
    about: &'static str,
    /// `None`: a daemon runs it.
    command: Option<Starting>,
    /// What cannot be proved in a kernel of its own. `None`: its containers run on this one.
    kernel: Option<&'static str>,
    /// Whether a user without root can start it, in the user namespace of the run.
    rootless: bool,
}

/// Prepares a container; returns the command that runs it.
type Starting = fn(&Bundle) -> Result<Vec<OsString>, LayerError>;

fn runtime(spec: &Spec) -> &'static Runtime {
    match value(spec, OPTIONS, "variant") {
        "docker" => &docker::DOCKER,
        "crun" => &oci::CRUN,
        "runc" => &oci::RUNC,
        "gvisor" => &oci::GVISOR,
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
    root: &'a Root,
    at: At,
    rm: bool,
    /// The agent's command line in the container.
    agent: [&'a str; 4],
}

impl Bundle<'_> {
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

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        let given = |option| given(spec, option);
        if !["podman", "docker"].contains(&runtime(spec).program.0) {
            let mut switches = [("at", "named"), ("rm", "on")].into_iter();
            let switch = switches.find(|(option, its)| given(option) == Some(its));
            let image = given("image").map(|its| ("image", its));
            if let Some((option, its)) = switch.or(image) {
                let must = "is an option of podman and docker: -l container:podman".to_owned();
                return Err(bad(spec, option, its, must));
            }
        }
        if let Some(dir) = given("rootfs") {
            let must = "is not the absolute path of a directory";
            if !Path::new(dir).is_absolute() || !Path::new(dir).is_dir() {
                return Err(bad(spec, "rootfs", dir, must.into()));
            }
        }
        let Some(name) = given("image") else {
            return Ok(());
        };
        let must = if name.is_empty() || name.starts_with('-') {
            "is not the name of an image"
        } else if given("rootfs").is_some() {
            "is another root than that of rootfs: choose one"
        } else {
            return Ok(());
        };
        Err(bad(spec, "image", name, must.into()))
    }

    fn storage(&self, spec: &Spec) -> Storage {
        match at(spec) {
            At::Tmpfs => Storage::Memory,
            At::Root | At::Named if runtime(spec).command.is_none() => Storage::Elsewhere,
            _ => Storage::Base,
        }
    }

    /// Both ends meet on the loopback of a container that is on this kernel.
    fn linked(&self, spec: &Spec, switch: Option<&str>) -> Result<Spec, LayerError> {
        if switch.is_none() && runtime(spec).kernel.is_none() {
            return Ok(spec.clone());
        }
        Err(entered::no_network(&spec.to_string()))
    }

    fn has_other_side(&self, spec: &Spec) -> bool {
        at(spec) == At::Volume && runtime(spec).kernel.is_none()
    }

    fn lacks_programs(&self, spec: &Spec) -> Option<&'static str> {
        let bare = given(spec, "image").is_none() && given(spec, "rootfs").is_none();
        bare.then_some("the container has no programs: rootfs=DIR or image=NAME has some")
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
                .chain(docker::missing(spec))
                .collect();
        }
        // podman starts its containers with crun.
        let crun = (program == "podman").then(|| needs::program("crun", "crun"));
        // Images are those of root's podman.
        let right = match given(spec, "image") {
            None if runtime.rootless => sandbox::no_mounts(),
            _ => sandbox::not_root(),
        };
        let mut missing: Vec<Missing> = right
            .into_iter()
            .chain(needs::program(program, package))
            .chain(crun.flatten())
            .chain(needs::static_binary())
            .collect();
        if given(spec, "rootfs").is_some() {
            missing.extend(needs::kernel_fs("overlay"));
        }
        if missing.is_empty() {
            missing.extend(Root::of(spec).err().and_then(|e| no_image(spec, &e)));
        }
        missing
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
            let dir = files_of(&base.dir, spec).map_err(LayerError::io(
                &layer,
                "find the container's files in",
                &base.dir,
            ))?;
            return Ok(Box::new(HostPlace::new(base, spec, dir)));
        }
        base.emptied(undo);
        let root = Root::of(spec)?;
        let view = root.prepare(base, spec, undo)?;
        let token = random_name("");
        let agent = agent_in(&token);
        let bundle = Bundle {
            layer: &layer,
            dir: &base.dir,
            root: &root,
            at,
            rm: on(spec, OPTIONS, "rm"),
            agent: [&agent[0], &agent[1], &agent[2], entered::MOUNTED],
        };
        let (program, package) = runtime.program;
        // podman's overlay names directories as podman sees them, and gVisor none of this host's.
        let unnamed = runtime.kernel.is_some() && at != At::Tmpfs;
        let stored = program == "podman" && at == At::Root || unnamed;
        let way = |command| Way {
            command,
            by_hand: Vec::new(),
            start: Start::Own(Own {
                token,
                view: Some(view),
                on_device_of: stored.then(|| base.dir.clone()),
                volume: (at == At::Volume).then(|| base.dir.join("volume")),
            }),
            drop_caches: Vec::new(),
            dir: work_dir(at),
            notes: notes(spec, runtime, &root),
            versions: Vec::new(),
        };
        // A runtime takes as long to say its version as to make its namespaces. Both are done at once.
        let (place, version) = thread::scope(|scope| {
            let version = scope.spawn(|| {
                let mut tool = needs::tool(&layer, program, package)?;
                child::run(&layer, tool.arg("--version"))
            });
            let place = command(&bundle).and_then(|words| entered::open(base, spec, way(words)));
            (
                place,
                version.join().unwrap_or_else(|why| resume_unwind(why)),
            )
        });
        // A runtime that does not even say its version is told so.
        let version = version?;
        Ok(Box::new(place?.version(program, version)))
    }
}

fn notes(spec: &Spec, runtime: &Runtime, root: &Root) -> Vec<(String, String)> {
    let program = runtime.program.0;
    let mut notes = vec![("runtime".into(), program.to_owned())];
    if program == "podman" {
        let driver = root
            .driver()
            .map(|name| ("storage_driver".into(), name.into()));
        notes.extend(driver);
    }
    if sandbox::privilege() != Privilege::Root {
        let ids = "that of the run";
        notes.push(("user_namespace".into(), ids.into()));
    }
    notes.extend(root::note(spec, root.id()));
    notes.extend(runtime.kernel.map(|why| ("not_proved".into(), why.into())));
    notes
}

/// The text of an option, if it was given.
fn given<'a>(spec: &'a Spec, option: &str) -> Option<&'a str> {
    spec.options.get(option).map(String::as_str)
}

/// The image, which the engine does not have, and the command that gets it.
fn no_image(spec: &Spec, why: &LayerError) -> Option<Missing> {
    let (name, engine) = (given(spec, "image")?, runtime(spec).program.0);
    let said = match why {
        LayerError::Program { tail, .. } => tail.last().map(|line| line.trim().to_owned()),
        _ => None,
    };
    Some(Missing {
        what: format!(
            "the image {name} in the store of root's {engine} ({})",
            said.unwrap_or_else(|| why.reason())
        ),
        hint: format!("sudo {engine} pull {name}"),
        installable: false,
    })
}

/// The probe's directory of a container that a power cut ended, as this host sees it: in the writable layer of
/// its root, or in its volume. A new container would not have these files.
fn files_of(dir: &Path, spec: &Spec) -> io::Result<PathBuf> {
    let over = given(spec, "rootfs").is_some();
    let parents = match (at(spec), runtime(spec).program.0) {
        (At::Root, _) if over => vec![dir.join("upper")],
        (At::Root, "podman") => {
            let layers = below(&dir.join("store/overlay"))?.into_iter();
            layers.map(|layer| layer.join("diff")).collect()
        }
        (At::Root, _) => vec![dir.join("root")],
        (At::Named, _) => vec![dir.join("store/volumes/layermark/_data")],
        (At::Volume | At::Tmpfs, _) => vec![dir.join("volume")],
    };
    let found = parents.iter().filter_map(|dir| below(dir).ok()).flatten();
    let mut found = found.filter(|path| is_work_dir(path));
    found.next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn is_work_dir(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(workdir::PREFIX.as_bytes()) && path.is_dir()
}

fn below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect()
}
