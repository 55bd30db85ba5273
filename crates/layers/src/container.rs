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

use layermark_model::{CONTAINER, KEPT_IN_MEMORY, Missing, Spec, random_name};

use crate::{
    About, Base, Group, LayerError, LayerInfo, OtherSide, PathEnd, PathEnds, Place, PowerCut,
    Programs, Storage, Undo,
    child::{self, Change},
    entered::{self, Own, Start, Way},
    host::HostPlace,
    kind::LayerKind,
    needs,
    options::{bad, layer_options, option_rows, option_words},
    sandbox::{self, Privilege},
    workdir,
};

mod bubblewrap;
mod docker;
mod network;
mod nspawn;
mod oci;
mod oci_image;
mod podman;
mod root;

use network::Network;
use root::Root;

/// A container.
pub(crate) struct Container;

layer_options! {
    pub(crate) struct ContainerOptions {
        /// the runtime that starts the container, in which layermark is the only program
        variant: &'static Runtime = "podman" reaches Path if "docker",
        /// where the work is done. root: the container's own writable layer (podman and docker: an overlay; others:
        /// a directory); volume: a bind mount of a directory below --dir; named: a volume of podman's or docker's;
        /// tmpfs
        at: At = "root",
        /// start it with --rm (podman and docker)
        rm: bool = "off" ["on", "off"],
        /// a directory with the files of the container's root, such as an unpacked image. It is never written to: an
        /// overlay below --dir takes the changes (docker: a copy of it is imported)
        rootfs: Option<String> = "" reaches Path,
        /// an image with the files of the container's root (podman and docker). The engine must have it: nothing is
        /// pulled
        image: Option<String> = "" reaches Path,
        /// what gVisor does with changes to the container's root (runsc --overlay2). none: each goes to this host; memory:
        /// they stay in gVisor's memory; default: as runsc does without the flag. One of May 2023 or later keeps them in
        /// a file that it maps
        overlay: Overlay = "default",
        /// how podman's container is connected, for work with two ends. none: both are on its loopback; slirp4netns: a
        /// network in user space, whose ports podman publishes; bridge: podman's bridge (CNI or netavark; root)
        network: Network = "none",
    }
}

impl ContainerOptions {
    /// Whether what is written stays in memory.
    fn in_memory(&self) -> bool {
        self.at == At::Tmpfs || self.overlay == Overlay::Memory
    }
}

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
pub(crate) struct Runtime {
    /// Variant of the layer.
    name: &'static str,
    /// Name of the program, and of its Debian package.
    program: (&'static str, &'static str),
    about: About,
    /// `None`: a daemon runs it.
    command: Option<Starting>,
    /// What cannot be proved in a kernel of its own. `None`: its containers run on this one.
    kernel: Option<&'static str>,
    /// Whether a user without root can start it, in the user namespace of the run.
    rootless: bool,
}

/// Prepares a container; returns the command that runs it.
type Starting = fn(&Bundle) -> Result<Vec<OsString>, LayerError>;

/// Every runtime, in the order of the help.
const RUNTIMES: [Runtime; 7] = [
    podman::PODMAN,
    docker::DOCKER,
    oci::CRUN,
    oci::RUNC,
    oci::GVISOR,
    nspawn::NSPAWN,
    bubblewrap::BUBBLEWRAP,
];

option_rows!(Runtime, RUNTIMES);

option_words! {
    /// Where a container does its work.
    pub(crate) enum At {
        Root = "root",
        Volume = "volume",
        Named = "named",
        Tmpfs = "tmpfs",
    }
}

option_words! {
    /// Whether gVisor puts a file system of its own above a container's root.
    pub(crate) enum Overlay {
        Default = "default",
        None = "none",
        Memory = "memory",
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
    overlay: Overlay,
    network: Network,
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

impl LayerKind for Container {
    const ID: &'static str = "container";
    type Options = ContainerOptions;

    fn describe(spec: &Spec, options: &ContainerOptions) -> LayerInfo {
        let about = match spec.variant {
            Some(_) => options.variant.about,
            None => About::of("a container", ": its own files, a volume or a tmpfs"),
        };
        let on_this_kernel = options.variant.kernel.is_none();
        let by_daemon = options.variant.command.is_none();
        let mut info = LayerInfo::new(Group::Containers, about);
        info.storage = match options.at {
            _ if options.in_memory() => Storage::Memory,
            At::Root | At::Named if by_daemon => Storage::Elsewhere,
            _ => Storage::Base,
        };
        info.path = PathEnds::none(match options.network {
            Network::None => entered::NO_PATH,
            _ => entered::ALONE,
        });
        if on_this_kernel {
            // Both ends meet on the loopback of the container, or through its network.
            info.path.with_host = PathEnd::Yes;
        }
        info.path.network = options.network != Network::None;
        if options.variant.name == podman::PODMAN.name && !info.path.network {
            info.path.network_by = Some(("network", "slirp4netns"));
        }
        if options.at == At::Volume && on_this_kernel {
            info.other_side = OtherSide::Yes;
        }
        if options.image.is_none() && options.rootfs.is_none() {
            info.programs =
                Programs::None("the container has no programs: rootfs=DIR or image=NAME has some");
        }
        info.power_cut = match () {
            () if options.in_memory() => {
                PowerCut::No("its files are in memory: a power cut leaves none of them")
            }
            () if by_daemon => PowerCut::No("its files belong to a daemon of yours"),
            () => PowerCut::Yes {
                large_disk: false,
                unmounted: false,
                alone: false,
            },
        };
        info
    }

    fn check(spec: &Spec, options: &ContainerOptions) -> Result<(), LayerError> {
        if !["podman", "docker"].contains(&options.variant.program.0) {
            let others = match () {
                () if options.at == At::Named => Some(("at", "named")),
                () if options.rm => Some(("rm", "on")),
                () => options.image.as_deref().map(|image| ("image", image)),
            };
            if let Some((option, its)) = others {
                let must = "is an option of podman and docker: -l container:podman".to_owned();
                return Err(bad(spec, option, its, must));
            }
        }
        if options.network != Network::None && options.variant.program.0 != "podman" {
            let must = "is an option of podman: -l container:podman".to_owned();
            return Err(bad(spec, "network", &options.network.to_string(), must));
        }
        let elsewhere = match () {
            () if options.overlay == Overlay::Default => None,
            () if options.variant.name != oci::GVISOR.name => {
                Some("is an option of gVisor: -l container:gvisor")
            }
            () if options.at != At::Root => Some("is about the container's root: leave out `at`"),
            () => None,
        };
        if let Some(must) = elsewhere {
            let overlay = options.overlay.to_string();
            return Err(bad(spec, "overlay", &overlay, must.into()));
        }
        if let Some(dir) = &options.rootfs {
            let must = "is not the absolute path of a directory";
            if !Path::new(dir).is_absolute() || !Path::new(dir).is_dir() {
                return Err(bad(spec, "rootfs", dir, must.into()));
            }
        }
        let Some(name) = &options.image else {
            return Ok(());
        };
        let must = if name.is_empty() || name.starts_with('-') {
            "is not the name of an image"
        } else if options.rootfs.is_some() {
            "is another root than that of rootfs: choose one"
        } else {
            return Ok(());
        };
        Err(bad(spec, "image", name, must.into()))
    }

    fn missing(spec: &Spec, options: &ContainerOptions) -> Vec<Missing> {
        let runtime = options.variant;
        let (program, package) = runtime.program;
        if runtime.command.is_none() {
            let needed = [sandbox::not_root(), needs::static_binary()];
            return needed
                .into_iter()
                .flatten()
                .chain(docker::missing(options))
                .collect();
        }
        // podman starts its containers with crun.
        let crun = (program == "podman").then(|| needs::program("crun", "crun"));
        // Images are those of root's podman.
        let right = match options.image {
            None if runtime.rootless && options.network != Network::Bridge => sandbox::no_mounts(),
            _ => sandbox::not_root(),
        };
        let mut missing: Vec<Missing> = right
            .into_iter()
            .chain(needs::program(program, package))
            .chain(crun.flatten())
            .chain(options.network.missing())
            .chain(needs::static_binary())
            .collect();
        if options.rootfs.is_some() {
            missing.extend(needs::kernel_fs("overlay"));
        }
        if missing.is_empty() {
            missing.extend(
                Root::of(spec, options)
                    .err()
                    .and_then(|e| no_image(options, &e)),
            );
        }
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let layer = spec.to_string();
        let (runtime, at) = (options.variant, options.at);
        let Some(command) = runtime.command else {
            return docker::open(base, spec, &options, undo);
        };
        if base.survived() {
            let dir = files_of(&base.dir, &options).map_err(LayerError::io(
                &layer,
                "find the container's files in",
                &base.dir,
            ))?;
            return Ok(Box::new(HostPlace::new(base, spec, dir)));
        }
        base.emptied(undo);
        let root = Root::of(spec, &options)?;
        let mut view = root.prepare(base, spec, at, undo)?;
        let io = LayerError::io(&layer, "make a network for", &base.dir);
        let outside = options.network.outside().map_err(io)?;
        for dir in options.network.hidden() {
            let io = LayerError::io(&layer, "hide", dir);
            view.push(Change::Empty(
                Change::path(dir).map_err(io)?,
                c"mode=755".into(),
            ));
        }
        let token = random_name("");
        let agent = agent_in(&token);
        let bundle = Bundle {
            layer: &layer,
            dir: &base.dir,
            root: &root,
            at,
            rm: options.rm,
            overlay: options.overlay,
            network: options.network,
            agent: [&agent[0], &agent[1], &agent[2], entered::MOUNTED],
        };
        let (program, package) = runtime.program;
        // podman's overlay names directories as podman sees them, and gVisor none of this host's.
        let unnamed = runtime.kernel.is_some() && !options.in_memory();
        let stored = program == "podman" && at == At::Root || unnamed;
        let way = |command| Way {
            command,
            by_hand: Vec::new(),
            start: Start::Own(Own {
                token,
                view: Some(view),
                on_device_of: stored.then(|| base.dir.clone()),
                volume: (at == At::Volume).then(|| base.dir.join("volume")),
                outside: outside.clone(),
            }),
            drop_caches: Vec::new(),
            dir: work_dir(at),
            notes: notes(&options, &root),
            versions: Vec::new(),
        };
        // A runtime takes as long to say its version as to make its namespaces. Both are done at once.
        let (place, version) = thread::scope(|scope| {
            let version = || {
                let mut tool = needs::tool(&layer, program, package)?;
                child::run(&layer, tool.arg("--version"))
            };
            let asked = thread::Builder::new().spawn_scoped(scope, version);
            let place = command(&bundle).and_then(|words| entered::open(base, spec, way(words)));
            (
                place,
                match asked {
                    Ok(asked) => asked.join().unwrap_or_else(|why| resume_unwind(why)),
                    Err(_) => version(),
                },
            )
        });
        // A runtime that does not even say its version is told so.
        let version = version?;
        Ok(Box::new(place?.version(program, version)))
    }
}

fn notes(options: &ContainerOptions, root: &Root) -> Vec<(String, String)> {
    let runtime = options.variant;
    let program = runtime.program.0;
    let mut notes = vec![(CONTAINER.into(), program.to_owned())];
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
    notes.extend(options.network.notes());
    notes.extend(root::note(options, root.id()));
    let hidden = runtime.kernel.filter(|_| !options.in_memory());
    notes.extend(hidden.map(|why| ("not_proved".into(), why.into())));
    if options.overlay == Overlay::Memory {
        notes.push((KEPT_IN_MEMORY.0.into(), KEPT_IN_MEMORY.1.into()));
    }
    notes
}

/// The image, which the engine does not have, and the command that gets it.
fn no_image(options: &ContainerOptions, why: &LayerError) -> Option<Missing> {
    let (name, engine) = (options.image.as_ref()?, options.variant.program.0);
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
fn files_of(dir: &Path, options: &ContainerOptions) -> io::Result<PathBuf> {
    let parents = match (options.at, options.variant.program.0) {
        (At::Root, _) if options.rootfs.is_some() => vec![dir.join("upper")],
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
