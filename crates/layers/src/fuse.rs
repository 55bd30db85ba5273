mod data_only;
mod fs;
pub(crate) mod requests;
mod table;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    num::NonZeroU64,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use layermark_model::{FRESHER, LABEL, Missing, Spec};
use rustix::fs::FileType;

use crate::{
    About, Base, Control, Group, LayerError, LayerInfo, OtherSide, Place, PowerCut, Undo,
    child::{self, Process},
    fuse_program::{self, Program},
    host::{self, HostPlace, PACKAGED},
    kind::LayerKind,
    mounts,
    options::{LayerOptions, bad, delay, layer_options, on_off},
    sandbox, tree,
};
use fs::Through;
use requests::{Agreed, FuseCache, FuseFsync, ServeOptions, StallOrder, StallPlan};

/// A file system in user space.
pub(crate) struct Fuse;

layer_options! {
    pub(crate) struct FuseOptions {
        /// the program: our own, which has the options below; or one of others, as it is without options
        variant: String = "own" ["own", "bindfs", "gocryptfs"],
        /// what the kernel keeps: names for 1 s and data until the file changes, everything, or nothing
        cache: FuseCache = "auto",
        /// the kernel gathers writes
        writeback: bool = "off",
        /// the kernel reads and writes the file below by itself (root, Linux 6.9)
        passthrough: bool = "off",
        /// O_DIRECT is passed on, or dropped as many file systems do
        direct: String = "pass" ["pass", "drop"],
        /// fsync is passed on; succeeds without a flush, or 200 ms before it; every second time without one; without
        /// the file's size; or for files and not for directories, so that a power cut loses what was written; fails
        /// with EINVAL; or fails once with EIO
        fsync: FuseFsync = "pass",
        /// added to every request, such as 20us or 1ms
        delay: String = "0",
        /// one request of `every` is held back so long, such as 20ms, as a journal's commit does
        stall: String = "0",
        /// one request of so many stalls
        every: String = "50",
        /// each `every`th request stalls, one of `every` at random, or the first flush of each open file
        stalls: StallOrder = "periodic",
        /// threads that serve requests
        threads: String = "2" ["1", "2", "4", "8"],
    }
}

/// Longest delay of a request. It is limited so that a trial ends in a reasonable time.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

impl LayerKind for Fuse {
    const ID: &'static str = "fuse";
    type Options = FuseOptions;

    fn describe(_: &Spec, options: &FuseOptions) -> LayerInfo {
        let program = options.program();
        let about = program.map_or(
            About::of(
                "our own file system in user space",
                ": it passes everything through",
            ),
            |program| program.about,
        );
        let info = LayerInfo {
            defaults: &["fuse"],
            power_cut: PowerCut::MOUNTED,
            ..LayerInfo::new(Group::UserSpace, about)
        };
        // Files of gocryptfs have other names and contents below.
        if program.is_some_and(|program| program.renames) {
            return info;
        }
        LayerInfo {
            other_side: OtherSide::Yes,
            ..info
        }
    }

    fn check(spec: &Spec, options: &FuseOptions) -> Result<(), LayerError> {
        if options.program().is_some() {
            let other = spec.options.iter().find(|(name, _)| *name != LABEL);
            return other.map_or(Ok(()), |(option, given)| {
                let must = "is an option of our own file system: -l fuse".into();
                Err(bad(spec, option, given, must))
            });
        }
        let options = serving(spec, options)?;
        let clash = match () {
            () if !options.passthrough => None,
            () if options.writeback => Some(("writeback", "on")),
            () if !options.direct => Some(("direct", "drop")),
            () if options.cache == FuseCache::None => Some(("cache", "none")),
            () => None,
        };
        match clash {
            Some((option, value)) => Err(bad(
                spec,
                option,
                value,
                "cannot be combined with passthrough=on".into(),
            )),
            None => Ok(()),
        }
    }

    fn missing(_: &Spec, options: &FuseOptions) -> Vec<Missing> {
        if let Some(program) = options.program() {
            return fuse_program::missing(&[(program.name, program.name)]);
        }
        let mut missing = fuse_program::missing(&[]);
        if missing.is_empty() && options.passthrough {
            missing.extend(sandbox::not_root());
        }
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        if let Some(program) = options.program() {
            return fuse_program::open(base, spec, program, undo);
        }
        let name = spec.to_string();
        base.emptied(undo);
        let [below, at] = fuse_program::directories(base, &name)?;
        if !base.survived() {
            let packaged = below.join(PACKAGED);
            tree::copy(&base.packaged, &packaged)
                .and_then(|()| host::sync(&below))
                .map_err(LayerError::io(&name, "copy packaged files to", &packaged))?;
        }
        let (pid, agreed) = start_server(base, spec, &below, &at, undo)?;
        mounts::assert_mounted(&name, &at, "fuse")?;
        let place = HostPlace::new(base, spec, at.clone())
            .proof(&at, "fuse")
            .backing_dir(&below)
            .other_side(&below)
            .helper(pid)
            .note("passthrough", on_off(agreed.passthrough))
            .note("writeback", on_off(agreed.writeback))
            .note("cache", options.cache.to_string())
            .note("direct", options.direct)
            .note("delay", options.delay)
            .note("stall", options.stall)
            .version("fuse protocol", agreed.abi);
        let fresher = match (options.cache, agreed.writeback) {
            (FuseCache::None, false) => return Ok(Box::new(place)),
            (FuseCache::None, true) => "writeback=off",
            (_, false) => "cache=none",
            (_, true) => "cache=none,writeback=off",
        };
        Ok(Box::new(place.note(FRESHER, fresher)))
    }
}

impl FuseOptions {
    /// The program of others that serves it.
    fn program(&self) -> Option<&'static Program> {
        fuse_program::find(&self.variant)
    }
}

/// How our own file system serves requests with these options.
fn serving(spec: &Spec, options: &FuseOptions) -> Result<ServeOptions, LayerError> {
    let time = |name, text: &str| {
        let must = format!(
            "is not a time up to {} s, such as 20us",
            LONGEST_DELAY.as_secs()
        );
        delay(text)
            .filter(|d| *d <= LONGEST_DELAY)
            .ok_or_else(|| bad(spec, name, text, must))
    };
    let text = &*options.every;
    let every = text.parse().ok().filter(|n| *n > 0);
    let every = every.ok_or_else(|| bad(spec, "every", text, "is not a number from 1".into()))?;
    Ok(ServeOptions {
        cache: options.cache,
        writeback: options.writeback,
        passthrough: options.passthrough,
        direct: options.direct == "pass",
        fsync: options.fsync,
        delay: time("delay", &options.delay)?,
        stalls: StallPlan {
            length: time("stall", &options.stall)?,
            every,
            order: options.stalls,
        },
    })
}

/// Starts `EXE fuse-serve` and waits until it serves. It is a separate process, because a process
/// that waits for its own file system can never be ended.
fn start_server(
    base: &Base,
    spec: &Spec,
    below: &Path,
    at: &Path,
    undo: &mut Undo,
) -> Result<(u32, Agreed), LayerError> {
    const LIMIT: Duration = Duration::from_secs(10);
    let name = spec.to_string();
    let mut command = child::command(&base.exe);
    command.arg("fuse-serve").arg(below).arg(at).arg(&name);
    let started = Process::start(&mut command);
    let mut server = started.map_err(LayerError::io(&name, "start the server", &base.exe))?;
    let line = first_line(&mut server, LIMIT);
    let line = line.map_err(LayerError::io(&name, "start the server", &base.exe))?;
    let agreed = line.as_deref().map(serde_json::from_str);
    let (pid, tail) = (server.child().id(), server.tail());
    let gone = server.wait(Duration::ZERO);
    undo.push_server("the FUSE server", server);
    // Above the server in the stack: unmounted first, while it can still answer.
    let mounted = at.to_path_buf();
    undo.push(format!("unmount {}", at.display()), move || {
        mounts::unmount(&mounted)
    });
    match (agreed, gone) {
        (Some(Ok(agreed)), None) => Ok((pid, agreed)),
        (_, Some(status)) => Err(LayerError::Program {
            layer: name,
            program: "the FUSE server".into(),
            status,
            tail,
        }),
        (_, None) => Err(LayerError::Slow {
            layer: name,
            what: "mounting".into(),
            after: LIMIT,
            tail,
        }),
    }
}

/// The first line of the process's output; `None` when it ends or stays silent for `limit`.
fn first_line(process: &mut Process, limit: Duration) -> io::Result<Option<String>> {
    let Some(out) = process.child().stdout.take() else {
        return Ok(None);
    };
    let (send, receive) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let mut line = String::new();
        // Limited, because a faulty server could send an endless line.
        let read = BufReader::new(out).take(4096).read_line(&mut line);
        // The receiver is gone once the limit has passed.
        let _ = send.send(read.is_ok_and(|n| n > 0).then_some(line));
    })?;
    let line = receive.recv_timeout(limit).ok().flatten();
    if line.is_none() {
        // It closed its output: wait for its end, so that its status can be reported.
        let _ = process.wait(Duration::from_millis(500));
    }
    Ok(line)
}

/// `EXE fuse-serve BACKING MOUNTPOINT SPEC`: mounts our file system, reports that in one line of
/// JSON on standard output, and serves until it is unmounted.
pub fn fuse_serve(args: &[OsString]) -> Result<(), LayerError> {
    let [below, at, name] = args else {
        let text = "fuse-serve BACKING MOUNTPOINT SPEC: it is started by layermark itself";
        return Err(LayerError::Io {
            layer: "fuse".into(),
            what: "read the arguments of".into(),
            path: "fuse-serve".into(),
            source: io::Error::new(io::ErrorKind::InvalidInput, text),
        });
    };
    let text = name.to_string_lossy();
    let spec: Spec = text.parse().map_err(|e: layermark_model::SpecError| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        LayerError::io("fuse", "read the layer's name", Path::new(name))(source)
    })?;
    crate::check(&spec)?;
    serve(Path::new(below), Path::new(at), &spec).map_err(LayerError::io(
        &text,
        "serve",
        Path::new(at),
    ))
}

fn serve(below: &Path, at: &Path, spec: &Spec) -> io::Result<()> {
    let given = FuseOptions::read(spec).map_err(io::Error::other)?;
    let options = serving(spec, &given).map_err(io::Error::other)?;
    let threads = given.threads.parse().unwrap_or(2);
    // One descriptor for each file that the kernel knows.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?;
    // Threads started later inherit it: a sleep then ends on time and not 50 us late.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;

    let agreed = Arc::new(Mutex::new(Agreed::default()));
    let system = Through::new(below, options, agreed.clone())?;
    let device = mount(at, FileType::Directory)?;
    let mut config = fuser::Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    let session = fuser::Session::from_fd(system, device, fuser::SessionACL::All, config)?;
    let agreed = agreed
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &agreed)?;
    out.write_all(b"\n")?;
    out.flush()?;
    drop(out);
    run(session)
}

/// Serves requests until the file system is unmounted.
pub(crate) fn run(session: fuser::Session<impl fuser::Filesystem>) -> io::Result<()> {
    match session.run() {
        // Unmounted.
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        other => other,
    }
}

/// Calls mount(2) itself, because `fusermount3` would need to be installed, set-uid, and aware of
/// our namespace. A launched program may run as another user, who sees the layer like any local
/// file system; the kernel checks permissions.
///
/// `root` is the type of its root: a directory, or one file, which is mounted over a file.
pub(crate) fn mount(at: &Path, root: FileType) -> io::Result<OwnedFd> {
    let device: OwnedFd = File::options()
        .read(true)
        .write(true)
        .open(fuse_program::DEVICE)?
        .into();
    let options = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions,allow_other",
        device.as_raw_fd(),
        root.as_raw_mode(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    mounts::mount(
        Path::new(OsStr::new("layermark")),
        at,
        "fuse",
        false,
        options.as_bytes(),
    )?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_delays_and_refuses_what_cannot_be_together() {
        assert_eq!(delay("20us"), Some(Duration::from_micros(20)));
        assert_eq!(delay("1ms"), Some(Duration::from_millis(1)));
        assert_eq!(delay("-1us"), None);
        for (text, good) in [
            ("fuse,delay=100us,cache=none", true),
            ("fuse,delay=2s", false),
            ("fuse,delay=soon", false),
            ("fuse,stall=20ms,every=50,stalls=random", true),
            ("fuse,stall=2s", false),
            ("fuse,stall=20ms,every=0", false),
            ("fuse,every=often", false),
            ("fuse,stalls=never", false),
            ("fuse,passthrough=on", true),
            ("fuse,passthrough=on,writeback=on", false),
            ("fuse,passthrough=on,direct=drop", false),
            ("fuse,threads=3", false),
            ("fuse:own,threads=4", true),
            ("fuse:bindfs,label=a", true),
            ("fuse:bindfs,cache=none", false),
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(crate::check(&spec).is_ok(), good, "{text}");
        }
    }
}
