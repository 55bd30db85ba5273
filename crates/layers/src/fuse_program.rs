//! File systems in user space that are served by programs of others.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{Missing, Spec, random_name};

use crate::{
    About, Base, Control, LayerError, Place, Undo,
    child::{self, Process},
    host::HostPlace,
    mounts, needs,
    sandbox::{self, Privilege},
};

/// What every file system in user space is served through.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Directory that holds the data of a layer, and the one at which the program shows it.
const BELOW: &str = "backing";
const AT: &str = "mnt";

/// A program that shows a directory of this host at another one.
pub(crate) struct Program {
    /// Its name, which is also that of its Debian package.
    pub(crate) name: &'static str,
    pub(crate) about: About,
    /// The command that serves in the foreground, but for the two directories.
    command: fn(&MountRequest) -> Result<Command, LayerError>,
    /// Whether it stores files under other names, and reports the inode numbers of the stored ones.
    pub(crate) renames: bool,
}

/// What the command of a [`Program`] is made from.
struct MountRequest<'a> {
    layer: &'a str,
    base: &'a Base,
    below: &'a Path,
}

/// Every program of this kind.
pub(crate) const PROGRAMS: [Program; 2] = [
    Program {
        name: "bindfs",
        about: About::of("a directory shown by bindfs, in user space", ""),
        command: bindfs,
        renames: false,
    },
    Program {
        name: "gocryptfs",
        about: About::of("a directory encrypted by gocryptfs, in user space", ""),
        command: gocryptfs,
        renames: true,
    },
];

fn bindfs(request: &MountRequest) -> Result<Command, LayerError> {
    let mut command = needs::tool(request.layer, "bindfs", "bindfs")?;
    command.arg("-f");
    if sandbox::privilege() != Privilege::Root {
        command.arg("--no-allow-other");
    }
    Ok(command)
}

fn gocryptfs(request: &MountRequest) -> Result<Command, LayerError> {
    // Its name alone: it separates several files at commas.
    const SECRET: &str = "password";
    let secret = request.base.dir.join(SECRET);
    let tool = || -> Result<Command, LayerError> {
        let mut command = needs::tool(request.layer, "gocryptfs", "gocryptfs")?;
        command
            .current_dir(&request.base.dir)
            .args(["-q", "-passfile", SECRET]);
        Ok(command)
    };
    if !request.base.survived() {
        new_secret(&secret).map_err(LayerError::io(request.layer, "write", &secret))?;
        let mut init = tool()?;
        // A cheap derivation of the key from the password. It is only used when it is mounted.
        init.args(["-init", "-scryptn", "10", "--"]);
        child::run(request.layer, init.arg(request.below))?;
    }
    let mut command = tool()?;
    command.arg("-fg");
    if sandbox::privilege() == Privilege::Root {
        command.arg("-allow_other");
    }
    command.arg("--");
    Ok(command)
}

/// Writes a password that only this user can read. It is on the disk before the first power cut.
fn new_secret(path: &Path) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(format!("{}{}", random_name(""), random_name("")).as_bytes())?;
    file.sync_all()
}

/// The program with this name.
pub(crate) fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

/// What this host lacks for a mount in user space by these programs, each with its package.
pub(crate) fn missing(programs: &[(&str, &str)]) -> Vec<Missing> {
    let mut missing: Vec<Missing> = sandbox::no_mounts().into_iter().collect();
    missing.extend(needs::kernel_fs("fuse"));
    missing.extend(needs::device(DEVICE, "fuse"));
    let lacking = |(program, package): &(&str, &str)| needs::program(program, package);
    missing.extend(programs.iter().filter_map(lacking));
    missing
}

/// Mount options with which a launched program may run as another user.
pub(crate) fn for_all_users() -> &'static [&'static str] {
    match sandbox::privilege() {
        Privilege::Root => &["-o", "allow_other"],
        _ => &[],
    }
}

/// The line in which the program prints its version, among those of its libraries.
pub(crate) fn version(layer: &str, program: &str, option: &str) -> Result<String, LayerError> {
    let lines = child::lines(layer, needs::tool(layer, program, program)?.arg(option))?;
    let its = |line: &&String| line.to_lowercase().contains(program);
    let line = lines.iter().find(its).or(lines.first());
    Ok(line.cloned().unwrap_or_default())
}

/// Builds the layer that `program` serves.
pub(crate) fn open(
    base: &Base,
    spec: &Spec,
    program: &Program,
    undo: &mut Undo,
) -> Result<Box<dyn Place>, LayerError> {
    let layer = spec.to_string();
    base.emptied(undo);
    let [below, at] = directories(base, &layer)?;
    let mut command = (program.command)(&MountRequest {
        layer: &layer,
        base,
        below: &below,
    })?;
    let pid = serve(&layer, command.arg(&below).arg(&at), &at, undo)?;
    let mut place = HostPlace::new(base, spec, at.clone())
        .proof(&at, "fuse")
        .backing_dir(&below)
        .helper(pid)
        .version(program.name, version(&layer, program.name, "--version")?);
    place = if program.renames {
        place.renamed_below(&below)
    } else {
        place.other_side(&below)
    };
    place.package()?;
    Ok(Box::new(observed(place, &at, &[pid])?))
}

/// Makes the directory that holds the data, and the mount point.
pub(crate) fn directories(base: &Base, layer: &str) -> Result<[PathBuf; 2], LayerError> {
    let dirs = [BELOW, AT].map(|name| base.dir.join(name));
    for dir in &dirs {
        base.make_dir(dir)
            .map_err(LayerError::io(layer, "make", dir))?;
    }
    Ok(dirs)
}

/// Starts a program that serves `at` in the foreground, so that it ends with layermark, and waits for its
/// mount. Returns its process.
pub(crate) fn serve(
    layer: &str,
    command: &mut Command,
    at: &Path,
    undo: &mut Undo,
) -> Result<u32, LayerError> {
    const LIMIT: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(2);
    let program = Path::new(command.get_program()).file_name();
    let program = program.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut server = Process::start(command).map_err(LayerError::io(
        layer,
        &format!("start {program} on"),
        at,
    ))?;
    let pid = server.child().id();
    let mut waited = Duration::ZERO;
    let outcome = loop {
        if mounts::assert_mounted(layer, at, "fuse").is_ok() {
            break Ok(pid);
        }
        if let Some(status) = server.wait(PAUSE) {
            break Err(LayerError::Program {
                layer: layer.into(),
                program: program.clone(),
                status,
                tail: server.last_lines(),
            });
        }
        waited += PAUSE;
        if waited > LIMIT {
            break Err(LayerError::Slow {
                layer: layer.into(),
                what: "mounting".into(),
                after: LIMIT,
                tail: server.tail(),
            });
        }
    };
    undo.push_server(program, server);
    let mounted = at.to_path_buf();
    undo.push(format!("unmount {}", at.display()), move || {
        mounts::unmount(&mounted)
    });
    outcome
}

/// Adds notes of what the processes that serve `at` do with files.
pub(crate) fn observed(place: HostPlace, at: &Path, pids: &[u32]) -> Result<HostPlace, LayerError> {
    let failed = place.io("try a file in", at);
    let path = at.join(random_name("layermark-"));
    let seen = observe(&path, pids);
    let _ = fs::remove_file(&path);
    let (writeback, direct) = seen.map_err(failed)?;
    let noted = |place: HostPlace, name, value: Option<&str>| match value {
        Some(value) => place.note(name, value),
        None => place,
    };
    Ok(noted(
        noted(place, "writeback", writeback),
        "direct",
        direct,
    ))
}

/// Whether the kernel gathers writes to the file system of `path`, which is created, and whether `O_DIRECT` is
/// passed on. Both are seen in the files that its server has open: `None` where it has none.
fn observe(path: &Path, pids: &[u32]) -> io::Result<(Option<&'static str>, Option<&'static str>)> {
    /// A server that gets a write stores it in less time. The kernel gathers writes for seconds.
    const STORED: Duration = Duration::from_millis(200);
    /// A server that closes its file when ours is closed does so in less time.
    const CLOSED: Duration = Duration::from_secs(2);
    let before = open_files(pids);
    let mut file = File::create_new(path)?;
    let new: Vec<PathBuf> = open_files(pids).difference(&before).cloned().collect();
    file.write_all(&[1; 4096])?;
    let until = Instant::now() + STORED;
    let is_stored = || new.iter().any(|f| f.metadata().is_ok_and(|m| m.len() > 0));
    while !is_stored() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    let writeback = if is_stored() { "off" } else { "on" };
    file.sync_all()?;
    drop(file);
    // The server hears of it later, and then may open the next file by the same number.
    let until = Instant::now() + CLOSED;
    while new.iter().any(|f| f.exists()) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }

    let before = open_files(pids);
    let direct = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    let passed = match direct {
        Err(_) => Some("refused"),
        Ok(open) => {
            // Some open their own file at the first read.
            let mut page = Page([0; 4096]);
            let _ = open.read_at(&mut page.0, 0);
            let now = open_files(pids);
            let mut new = now.difference(&before).peekable();
            let how = |direct| if direct { "pass" } else { "drop" };
            new.peek()
                .is_some()
                .then(|| how(new.any(|file| is_direct(file))))
        }
    };
    Ok(((!new.is_empty()).then_some(writeback), passed))
}

/// Memory for a read with `O_DIRECT`.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// Regular files that these processes have open, as `/proc/PID/fd/N`.
fn open_files(pids: &[u32]) -> BTreeSet<PathBuf> {
    let all = pids
        .iter()
        .flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")))
        .flatten()
        .flatten();
    all.map(|entry| entry.path())
        .filter(|path| path.metadata().is_ok_and(|m| m.is_file()))
        .collect()
}

/// Whether a file in `/proc/PID/fd` was opened with `O_DIRECT`, according to its `fdinfo`.
fn is_direct(path: &Path) -> bool {
    let info = path.to_string_lossy().replace("/fd/", "/fdinfo/");
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_DIRECT.cast_unsigned() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_open_is_seen() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"x").unwrap();
        let us = [std::process::id()];
        let flagged = |flags| {
            let open = File::options()
                .read(true)
                .custom_flags(flags)
                .open(&path)
                .unwrap();
            let same = |seen: &&PathBuf| fs::read_link(seen).is_ok_and(|to| to == path);
            let seen = open_files(&us);
            let found = seen.iter().find(same).map(|file| is_direct(file));
            drop(open);
            found
        };
        assert_eq!(flagged(0), Some(false));
        assert_eq!(flagged(libc::O_DIRECT), Some(true));
        assert!(open_files(&[u32::MAX]).is_empty());
    }
}
