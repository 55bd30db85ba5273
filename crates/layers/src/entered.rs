//! A place that a command leads into: the probe behind `podman exec`, `nsenter`, `ssh` and the like.
//!
//! The command runs `layermark place TOKEN [mounted]` in the place, with a socket of this host as its standard input and
//! output. A place on this kernel is looked into from here, through `/proc/PID/root`; any other one answers
//! for itself.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use layermark_model::{CpuTime, DroppedCaches, Facts, GuestFacts, Spec, random_name};
use rustix::fs::{FileType, Stat};

use crate::{
    Base, Control, End, Kernel, KernelCaches, LayerError, NoPath, Place, PlaceInfo, Wire,
    agent::{
        client::{AgentClient, AgentError},
        files,
        protocol::{AgentReply, AgentRequest},
    },
    child::{self, Change, PROGRAM_PATH, Process, SEEN_AT},
    fd::{self, Held},
    host::{HostPlace, start_probe},
    net::space::Net,
    process_tree::{GuestWork, ProcessTree},
};

mod agent;
pub(crate) mod describe;
mod greeting;
mod here;
mod limits;
mod push;

pub use agent::place;
use greeting::{Failed, Greeting};
use here::Here;

/// What the agent prints first. Its token follows, then the hash of its binary or [`MOUNTED`].
const HELLO: &str = "layermark place ";
/// Word for an agent whose binary is a mount of this host's, made by layermark. It says it instead of a hash, for
/// which it would have to read all of the binary.
pub(crate) const MOUNTED: &str = "mounted";
/// Prefix of names of directories that hold nothing but a binary that was brought there.
const PUSHED: &str = "layermark-bin-";
/// A binary that was brought there, in the current directory.
const BROUGHT: &str = "./layermark";

/// Time limit for packaged files and dropped caches, as long as the place's processes work.
const SLOW: Duration = Duration::from_mins(5);
/// Time limit of other requests, and for the agent to speak, unless `--silence` is shorter.
const QUICK: Duration = Duration::from_secs(30);
/// Minimum of these limits.
const FLOOR: Duration = Duration::from_secs(10);
/// How long the agent may take to remove its directory.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Variables that commands of the user's get: where their configuration, sockets and agents are.
const PASSED: [&str; 11] = [
    "HOME",
    "USER",
    "LOGNAME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINER_HOST",
    "KUBECONFIG",
    "TMPDIR",
];
/// Programs with many variables: all that begin like this are passed.
const PASSED_PREFIXES: [&str; 7] = [
    "DOCKER_", "VAGRANT_", "LIMA_", "LXD_", "INCUS_", "SLURM_", "WSL",
];

/// How to get into a place.
pub(crate) struct Way {
    /// Runs the arguments that follow it in the place; a command of layermark's own starts the agent.
    pub(crate) command: Vec<OsString>,
    /// The command as the user can type it, for hints.
    pub(crate) by_hand: Vec<OsString>,
    /// How the agent gets there.
    pub(crate) start: Start,
    /// Drops the caches of the place, run on this host; empty: the agent does it.
    pub(crate) drop_caches: Vec<OsString>,
    /// A directory in the place. The probe works in a new one below it.
    pub(crate) dir: PathBuf,
    /// Notes and versions for the facts.
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) versions: Vec<(String, String)>,
}

/// How the agent gets into a place.
pub(crate) enum Start {
    /// The command is layermark's own, and starts it.
    Own(Own),
    /// The binary lies at this path there. It was put there from this host, where nobody else can change it.
    Put(PathBuf),
    /// The binary is there at the same path, or is sent through the command.
    Found,
    /// The binary is sent through the command. With `keep` it stays there, and is sent only once.
    Sent { keep: bool },
}

/// What a command of layermark's own is about.
pub(crate) struct Own {
    /// The token of the agent that it starts.
    pub(crate) token: String,
    /// Changes of the files that it sees, of which one is this host's binary: the agent is told so, [`MOUNTED`].
    /// `None`: it has the user's environment and files, as a client of the
    /// user's daemon needs them.
    pub(crate) view: Option<Vec<Change>>,
    /// A directory on the disk of the place's files. The mounts do not name one that this host sees elsewhere.
    pub(crate) on_device_of: Option<PathBuf>,
    /// The directory of this host in which the place's files are, too: a volume.
    pub(crate) volume: Option<PathBuf>,
    /// The network in which it runs. `None`: this host's.
    pub(crate) outside: Option<Outside>,
}

/// A network namespace around a place, in which the near end of work with two ends is.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) net: Net,
    /// The near end's address there, and the place's as both name it.
    pub(crate) addresses: [IpAddr; 2],
}

/// A command of layermark's own, which sees changed files and none of the user's configuration.
pub(crate) fn own_command(words: &[OsString], view: &[Change]) -> io::Result<Command> {
    let (program, rest) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = child::command(program);
    command.args(rest);
    // Programs want a home, and write large files below TMPDIR: the layer's directory is both.
    for name in ["HOME", "TMPDIR"] {
        command.env(name, SEEN_AT);
    }
    child::with_view(&mut command, view.to_vec());
    Ok(command)
}

/// A command that the user named, or whose program needs the user's configuration.
pub(crate) fn users_command(words: &[OsString]) -> Command {
    let (program, rest) = words
        .split_first()
        .map_or((None, words), |(p, r)| (Some(p), r));
    let mut command = child::command(program.map_or("".as_ref(), OsString::as_os_str));
    command.args(rest).env("PATH", search_path());
    command.envs(std::env::vars_os().filter(|(name, _)| is_passed(name)));
    // A program that wants a password must fail and not wait for one.
    child::without_terminal(&mut command);
    command
}

/// Whether commands of the user's get this variable.
fn is_passed(name: &OsStr) -> bool {
    let begins = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
    PASSED.iter().any(|passed| name == *passed) || PASSED_PREFIXES.iter().any(begins)
}

/// Directories in which a command's program is searched.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(PROGRAM_PATH);
    path
}

/// Whether a command's program can be found.
pub(crate) fn is_found(program: &Path) -> bool {
    program.is_absolute() && program.exists()
        || std::env::split_paths(&search_path()).any(|dir| dir.join(program).is_file())
}

/// A process of a command, with our end of its standard input and output.
struct Line {
    process: Process,
    stream: UnixStream,
}

impl Line {
    fn start(layer: &str, words: &[OsString], own: Option<&Own>) -> Result<Self, LayerError> {
        let program = PathBuf::from(words.first().map_or("".into(), OsString::clone));
        let failed = |e: io::Error| LayerError::io(layer, "run", &program)(e);
        let (stream, its) = UnixStream::pair().map_err(failed)?;
        let (input, output) = (its.try_clone().map_err(failed)?, its);
        let mut command = match own.and_then(|own| own.view.as_ref()) {
            Some(view) => own_command(words, view).map_err(failed)?,
            None => users_command(words),
        };
        if let Some(outside) = own.and_then(|own| own.outside.as_ref()) {
            outside.net.enter(&mut command);
        }
        command
            .stdin(OwnedFd::from(input))
            .stdout(OwnedFd::from(output))
            .stderr(std::process::Stdio::piped());
        let process = Process::start_with(&mut command).map_err(failed)?;
        // The command holds copies of the other end, which would keep the stream open.
        drop(command);
        Ok(Self { process, stream })
    }
}

/// A layer in a place that was entered.
pub(crate) struct EnteredPlace {
    layer: String,
    info: PlaceInfo,
    /// Path of the probe's program.
    exe: String,
    agent: Arc<AgentClient>,
    /// The process that leads there.
    process: Mutex<Process>,
    /// The agent as a process of this host, if it is one.
    here: Option<Here>,
    /// Whether layermark has started the place.
    own: bool,
    /// The disk of its files, if its kernel is another one on this host.
    disk: Option<HostPlace>,
    /// The network around it.
    outside: Option<Outside>,
    exe_path: PathBuf,
    trees: Mutex<Vec<ProcessTree>>,
    master: PathBuf,
    notes: Vec<(String, String)>,
    versions: Vec<(String, String)>,
    drop_caches: Vec<OsString>,
    silence: Duration,
    quick: Duration,
}

/// Enters a place and brings the packaged files there.
pub(crate) fn open(base: &Base, spec: &Spec, way: Way) -> Result<EnteredPlace, LayerError> {
    let place = enter(base, spec, way)?;
    place.package()?;
    Ok(place)
}

/// Enters a place, in which the agent has a new directory.
pub(crate) fn enter(base: &Base, spec: &Spec, way: Way) -> Result<EnteredPlace, LayerError> {
    let layer = spec.to_string();
    let silence = base.silence.max(FLOOR);
    let quick = QUICK.min(silence);
    let token = match &way.start {
        Start::Own(own) => own.token.clone(),
        Start::Put(_) | Start::Found | Start::Sent { .. } => random_name(""),
    };
    let greeting = greet(&layer, base, &way, &token, quick)?;
    let Greeting { process, stream } = greeting;
    let io = |what: &str, path: &Path| LayerError::io(&layer, what, path);
    let agent = AgentClient::new(stream, silence).map_err(io("connect to", &way.dir))?;
    let secret = random_name("") + &random_name("");
    let entered = agent.ask(
        &AgentRequest::Enter {
            dir: way.dir.clone(),
            secret: secret.clone(),
        },
        quick,
    );
    let mut process = Mutex::new(process);
    let (dir, held) = match entered {
        Ok(AgentReply::Entered { dir, held }) => (dir, held),
        Ok(_) => {
            return Err(failed(
                &layer,
                &mut process,
                "make a directory",
                &AgentError::OutOfTurn,
            ));
        }
        Err(why) => return Err(failed(&layer, &mut process, "make a directory", &why)),
    };
    let (below, volume, outside) = match &way.start {
        Start::Own(own) => (
            own.on_device_of.as_deref(),
            own.volume.as_deref(),
            own.outside.clone(),
        ),
        _ => (None, None, None),
    };
    let here = Here::find(&token, base, spec, (&secret, held), below);
    let runs = here.as_ref().map(|here| here.runs(&base.exe)).transpose();
    if !runs.map_err(io("read", &base.exe))?.unwrap_or(true) {
        return Err(Failed::OtherBinary.error(&layer, &way.by_hand));
    }
    let apart = below.filter(|_| here.is_none());
    let disk = apart.map(|dir| HostPlace::new(base, spec, dir.into()));
    let name = dir.file_name().unwrap_or_default();
    let info = PlaceInfo {
        seen_at: here.as_ref().map(|here| here.dir().to_owned()),
        kernel: match here {
            Some(_) => Kernel::OfHost,
            None => Kernel::Other,
        },
        other_side: volume.map(|volume| volume.join(name)),
        ..PlaceInfo::elsewhere(dir.clone())
    };
    let heads = [
        process
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .pid(),
        here.as_ref().map(|here| here.pid),
    ];
    Ok(EnteredPlace {
        layer,
        info,
        exe: base
            .exe
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        agent,
        process,
        trees: Mutex::new(ProcessTree::apart(heads)),
        here,
        own: matches!(way.start, Start::Own(_)),
        disk,
        outside,
        exe_path: base.exe.clone(),
        master: base.packaged.clone(),
        notes: way.notes,
        versions: way.versions,
        drop_caches: way.drop_caches,
        silence,
        quick,
    })
}

/// Starts the agent. If the place does not see this host's binary, it is brought there first. A command that
/// fails for another reason is not started again.
fn greet(
    layer: &str,
    base: &Base,
    way: &Way,
    token: &str,
    limit: Duration,
) -> Result<Greeting, LayerError> {
    let unread = || LayerError::io(layer, "read", &base.exe);
    let hash = match &way.start {
        Start::Own(own) if own.view.is_some() => MOUNTED.to_owned(),
        _ => File::open(&base.exe)
            .and_then(agent::hash)
            .map_err(unread())?,
    };
    let failed = |why: Failed| why.error(layer, &way.by_hand);
    let greeted = |words: &[OsString], own| {
        let line = Line::start(layer, words, own)?;
        Ok(greeting::wait(line, token, &hash, limit))
    };
    let agent_at = |path: &Path| {
        let agent = [path.into(), "place".into(), token.into()];
        [&way.command[..], &agent].concat()
    };
    match &way.start {
        Start::Own(own) => {
            let greeting = greeted(&way.command, Some(own))?;
            return greeting.map_err(|why| why.of_own(layer, &way.command));
        }
        Start::Put(path) => return greeted(&agent_at(path), None)?.map_err(failed),
        Start::Found if push::is_plain(&base.exe) && is_firm(&base.exe) => {
            match greeted(&agent_at(&base.exe), None)? {
                Err(why) if why.is_of_binary(&base.exe) => {}
                greeting => return greeting.map_err(failed),
            }
        }
        Start::Found | Start::Sent { .. } => {}
    }
    let binary = std::fs::read(&base.exe).map_err(unread())?;
    let sent = push::Binary {
        bytes: &binary,
        hash: &hash,
        keep: matches!(way.start, Start::Sent { keep: true }),
    };
    let line = Line::start(layer, &push::shell(&way.command), None)?;
    let line = push::push(line, &sent, (&way.dir, token), limit).map_err(failed)?;
    greeting::wait(line, token, &hash, limit).map_err(failed)
}

/// Whether nobody but root and this user can put a file at this path. A place may have other files at the path, but
/// most have the same directories, in which other users can put files or not.
fn is_firm(path: &Path) -> bool {
    let open = |_: &Path, stat: &Stat| {
        let link = FileType::from_raw_mode(stat.st_mode).is_symlink();
        !fd::is_trusted(stat) || !link && fd::is_open_to_others(stat)
    };
    Held::find(path, false, open).is_ok()
}

/// The error for a place that did not carry out a request.
fn failed(layer: &str, process: &mut Mutex<Process>, what: &str, why: &AgentError) -> LayerError {
    let process = process.get_mut().unwrap_or_else(PoisonError::into_inner);
    broken(layer, process, what, why)
}

fn broken(layer: &str, process: &mut Process, what: &str, why: &AgentError) -> LayerError {
    let ended = matches!(why, AgentError::Gone).then(|| process.wait(Duration::from_secs(1)));
    let why = match ended.flatten() {
        Some(how) => format!("its command has ended: {how}"),
        None => why.to_string(),
    };
    LayerError::Entered {
        layer: layer.into(),
        what: format!("its probe could not {what}: {why}"),
        tail: process.last_lines(),
        hint: None,
    }
}

impl EnteredPlace {
    /// Adds the version of a program to the facts.
    pub(crate) fn version(mut self, program: &str, version: String) -> Self {
        self.versions.push((program.into(), version));
        self
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, what: &str) -> impl FnOnce(AgentError) -> LayerError {
        move |why| broken(&self.layer, &mut self.process(), what, &why)
    }

    fn ask(&self, what: &str, asked: &AgentRequest) -> Result<AgentReply, LayerError> {
        let pids = [
            self.process().pid(),
            self.here.as_ref().map(|here| here.pid),
        ];
        let mut work = GuestWork::of(pids.into_iter().flatten());
        self.agent
            .ask_long(asked, (self.silence, SLOW), || work.is_seen())
            .map_err(self.broken(what))
    }

    /// Brings all packaged files there.
    pub(crate) fn package(&self) -> Result<(), LayerError> {
        let names = files::list(&self.master);
        self.put(&names.map_err(LayerError::io(&self.layer, "read", &self.master))?)
    }

    /// Has the agent drop the caches of its place.
    fn drop_its_caches(&self) -> Result<DroppedCaches, LayerError> {
        match self.ask("drop its caches", &AgentRequest::DropCaches)? {
            AgentReply::DroppedCaches(mut dropped) => {
                for how in &mut dropped.how {
                    *how = format!("in the place: {how}");
                }
                Ok(dropped)
            }
            _ => Err(self.broken("drop its caches")(AgentError::OutOfTurn)),
        }
    }

    fn put(&self, names: &[String]) -> Result<(), LayerError> {
        for name in names {
            let path = self.master.join(name);
            files::send(&self.agent, name, &path).map_err(LayerError::io(
                &self.layer,
                "send to the place",
                &path,
            ))?;
        }
        match self.ask("take in the packaged files", &AgentRequest::Seal)? {
            AgentReply::Done => Ok(()),
            _ => Err(self.broken("take in the packaged files")(
                AgentError::OutOfTurn,
            )),
        }
    }
}

impl Drop for EnteredPlace {
    /// The agent removes what it made when its connection ends, and then its command ends.
    fn drop(&mut self) {
        self.agent.cut();
        let _ = self.process().wait(LAST_WORD.min(self.quick));
    }
}

impl Place for EnteredPlace {
    fn info(&self) -> &PlaceInfo {
        &self.info
    }

    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        if end == End::Far {
            let started = self.agent.start(self.exe.clone(), self.quick);
            return started.map_err(self.broken("start"));
        }
        if let Some(outside) = self.outside.clone() {
            return start_probe(&self.layer, &self.exe_path, |command| {
                outside.net.enter(command);
            });
        }
        let network = self.here.as_ref().map(Here::network).transpose();
        let io = LayerError::io(&self.layer, "find the network of", &self.info.dir);
        let network = network.map_err(io)?;
        start_probe(&self.layer, &self.exe_path, |command| {
            if let Some(network) = network {
                child::in_network(command, network.into());
            }
        })
    }

    /// Without a network around it, both ends are in that of the agent: its loopback.
    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        if let Some(outside) = &self.outside {
            return Ok(outside.addresses);
        }
        match &self.here {
            Some(_) if self.own => Ok([Ipv4Addr::LOCALHOST.into(); 2]),
            _ => Err(NO_PATH.error(&self.layer)),
        }
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        let answer = self.ask("report its facts", &AgentRequest::Facts);
        let (mut facts, clock) = match answer {
            Ok(AgentReply::Facts { facts, clock, .. }) => (*facts, clock),
            Ok(_) => return Err(self.broken("report its facts")(AgentError::OutOfTurn)),
            Err(e) => match &self.here {
                // A place without /proc cannot report its mounts, but this host can.
                Some(_) if self.agent.is_connected() => (Facts::default(), String::new()),
                _ => return Err(e),
            },
        };
        if let Some(here) = &self.here {
            facts = here.facts(facts)?;
        } else {
            // Numbers of devices of another kernel are not those of this host.
            facts.guest = Some(GuestFacts {
                kernel: facts.versions.get("kernel").cloned().unwrap_or_default(),
                accelerator: "unknown".into(),
                emulated_cpu: false,
                clock,
                devices: std::mem::take(&mut facts.devices),
            });
            facts.backing.clear();
            if let Some(disk) = &self.disk {
                let below = disk.facts()?;
                facts.mounts.extend(below.mounts);
                facts.devices = below.devices;
                facts.backing = below.backing;
            } else {
                let why = "flushes and bytes at the device, and the CPU time of its processes: they \
                           cannot be seen from this host";
                facts.notes.insert("not_proved".into(), why.into());
            }
        }
        facts.notes.extend(self.notes.iter().cloned());
        facts.versions.extend(self.versions.iter().cloned());
        Ok(facts)
    }

    fn drop_caches(&mut self, kernel: KernelCaches) -> Result<DroppedCaches, LayerError> {
        let by_user = !self.drop_caches.is_empty();
        if by_user {
            child::run(&self.layer, &mut users_command(&self.drop_caches))?;
        }
        let mut dropped = match &mut self.here {
            Some(here) => here.drop_caches(kernel)?,
            // Only the user's word says that all are dropped.
            None if by_user => DroppedCaches::default(),
            None => {
                let mut dropped = self.drop_its_caches()?;
                if let Some(disk) = &mut self.disk {
                    dropped.how.extend(disk.drop_caches(kernel)?.how);
                }
                return Ok(dropped);
            }
        };
        if by_user {
            dropped.how.push("as the file says: drop_caches".into());
        }
        Ok(dropped)
    }

    fn refresh(&mut self, _: &[String]) -> Result<(), LayerError> {
        match self.ask("check its packaged files", &AgentRequest::Changed)? {
            AgentReply::Changed { paths } => self.put(&paths),
            _ => Err(self.broken("check its packaged files")(
                AgentError::OutOfTurn,
            )),
        }
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(CpuTime {
            ns: trees.iter_mut().map(ProcessTree::cpu_ns).sum(),
            within_ns: 0,
        })
    }
}

/// Why a place that was entered is not for work with two ends.
pub(crate) const NO_PATH: NoPath = NoPath {
    why: "cannot be an end of a path: its network is not set up by layermark",
    hint: "netns and vm can be: layermark net -l netns",
};

/// Why a place that has a network of its own is in none with another layer.
pub(crate) const ALONE: NoPath = NoPath {
    why: "cannot be an end of a path to another layer: its network has no other",
    hint: "name it alone, as in layermark net -l container:podman,network=bridge",
};

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// In a place with another `/tmp` anybody could have put a file there.
    #[test]
    fn a_path_below_tmp_is_not_firm() {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let below_tmp = dir.path().join("layermark");
        fs::write(&below_tmp, "x").unwrap();
        assert!(!is_firm(&below_tmp));
        assert!(is_firm(Path::new("/bin/sh")));
        // Only the directory's mode differs.
        let Ok(home) = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")) else {
            return eprintln!("skipped: another user may make nothing in the clone");
        };
        let file = home.path().join("layermark");
        fs::write(&file, "x").unwrap();
        let before = is_firm(&file);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_firm(&file), "{before}");
    }
}
