//! Removes the work directory after layermark was killed.
//!
//! A small child process holds one end of a socket; only layermark holds the other end. When
//! layermark ends, for whatever reason, the kernel closes that end. Then the child removes the
//! directories that were announced to it. It receives them as descriptors, because their paths may
//! lead elsewhere by then. It waits until the mount namespace of the run is gone: see [`namespace`].

mod namespace;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            process::CommandExt,
        },
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    cmsg_space,
    fs::OFlags,
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};

use crate::{dir_journal, fd, known_paths, loopdev, marker, mounts, removal, served};

/// Longest name it accepts, bytes (`NAME_MAX`).
const LONGEST: usize = 255;

/// How long it waits for the end of the run's mount namespace, and then tries to remove all directories.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long layermark waits for it. Removing files on a dead server takes until the server is back.
const LONGEST_REMOVAL: Duration = Duration::from_secs(20);
/// The same where something does not answer.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The child that cleans up after layermark. Dropping it waits for the cleanup.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
}

/// Our end of the janitor's socket. A process has one janitor.
static SOCKET: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// Names of the directories that were announced to it.
static TOLD: Mutex<BTreeSet<OsString>> = Mutex::new(BTreeSet::new());
/// The janitor's process id, 0 without one.
static PID: AtomicU32 = AtomicU32::new(0);

/// Starts `EXE janitor`. Call it before [`crate::sandbox::enter`]: the child stays outside, so that
/// it keeps no mount of ours busy. Work directories are announced to it when they are created.
///
/// `journal` is an open directory of the user's, for the names of directories that still have to be removed. Without
/// one, what a power cut leaves stays.
pub fn spawn(exe: &Path, journal: Option<OwnedFd>) -> io::Result<Janitor> {
    spawn_with(exe, None, journal)
}

/// The same with an argument for the janitor.
///
/// # Errors
///
/// It cannot be started.
pub fn spawn_with(
    exe: &Path,
    argument: Option<&str>,
    journal: Option<OwnedFd>,
) -> io::Result<Janitor> {
    let (ours, its) = pair()?;
    let output = match &journal {
        Some(journal) => Stdio::from(journal.try_clone()?),
        None => Stdio::null(),
    };
    let child = Command::new(exe)
        .arg("janitor")
        .args(argument)
        .env_clear()
        .current_dir("/")
        // Ctrl-C and a closed terminal reach the whole process group of the shell's job.
        .process_group(0)
        .stdin(Stdio::from(its))
        // It prints nothing, and a descriptor cannot be led elsewhere as a path could.
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()?;
    *socket() = Some(ours);
    PID.store(child.id(), Ordering::Relaxed);
    if let Some(journal) = journal {
        dir_journal::open(journal);
    }
    Ok(Janitor { child })
}

/// The janitor's process id.
pub(crate) fn pid() -> Option<u32> {
    Some(PID.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
}

fn announced() -> MutexGuard<'static, BTreeSet<OsString>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a directory may have to be removed still.
fn is_left() -> bool {
    let told = announced();
    let Some(left) = dir_journal::names("") else {
        // Without a journal it is not known.
        return true;
    };
    left.iter().any(|name| told.contains(name))
}

/// A socket pair that keeps messages separate, whatever their content.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

fn socket() -> MutexGuard<'static, Option<OwnedFd>> {
    SOCKET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces the directory `name` in `parent` to the janitor, if there is one. The janitor removes
/// it after layermark has ended. Called before the directory is created, and again with its
/// descriptor.
pub(crate) fn watch(parent: impl AsFd, name: &OsStr, dir: Option<BorrowedFd<'_>>) {
    announced().insert(name.to_owned());
    let mut socket = socket();
    let told = |socket: &OwnedFd| tell(socket, parent.as_fd(), name, dir);
    if socket.as_ref().is_some_and(|s| told(s).is_err()) {
        // The janitor has died. The next run in the same directory removes what is left.
        *socket = None;
    }
}

fn tell(
    socket: &OwnedFd,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    dir: Option<BorrowedFd<'_>>,
) -> Result<usize, Errno> {
    let both = [parent, dir.unwrap_or(parent)];
    send(socket, name, &both[..=usize::from(dir.is_some())])
}

fn send(socket: &OwnedFd, text: &OsStr, with: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(with));
    }
    let text = [IoSlice::new(text.as_bytes())];
    sendmsg(socket, &text, &mut control, SendFlags::NOSIGNAL)
}

/// Tells the janitor which mount namespace this process is in now.
pub(crate) fn entered() {
    if let Some(socket) = socket().as_ref() {
        // Without it the janitor begins at once.
        let _ = namespace::own().map(|name| send(socket, &name, &[]));
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        if let Some(socket) = socket().take() {
            // This process waits for the janitor, and has unmounted what it mounted.
            let _ = send(&socket, namespace::NONE.as_ref(), &[]);
        }
        // What does not answer is not removed before it does.
        let limit = if served::is_given_up() {
            LAST_WORD
        } else {
            LONGEST_REMOVAL
        };
        let until = Instant::now() + limit;
        // If it cannot be waited for, there is nothing left to do.
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= until {
                if is_left() {
                    known_paths::tell("what is left of the run is removed when it can be");
                }
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Runs the child: receives directories from `socket` until it is closed, then removes them, and their names from
/// `journal`. Those without a descriptor are removed only if they are work directories of layermark. Then loop
/// devices get back the caches that the run had denied them.
pub fn run(socket: impl AsFd, journal: impl AsFd) -> io::Result<()> {
    ignore_signals();
    let mut outcome = Ok(());
    let (all, namespace) = listen(socket.as_fd());
    namespace::wait_for_end(&namespace, Instant::now() + PATIENCE);
    // Each is tried at least once.
    let until = Instant::now() + PATIENCE;
    for mut told in all {
        match told.remove(until) {
            // Where there is no journal, nothing has to be removed from it.
            Ok(()) => drop(dir_journal::remove_from(&journal, &told.name)),
            Err(e) => outcome = Err(e),
        }
    }
    loopdev::give_caches();
    outcome
}

/// A directory to remove.
struct Told {
    parent: OwnedFd,
    name: OsString,
    dir: Option<OwnedFd>,
}

/// A message of layermark.
enum Message {
    Dir(Told),
    /// The mount namespace of the run.
    Namespace(OsString),
}

/// All directories, and the mount namespace of the run.
fn listen(socket: BorrowedFd<'_>) -> (Vec<Told>, OsString) {
    let mut all: Vec<Told> = Vec::new();
    let mut namespace = namespace::NONE.into();
    while let Some(message) = hear(socket) {
        match message {
            Message::Namespace(name) => namespace = name,
            Message::Dir(told) => {
                // Announced first without its descriptor, then with it.
                all.retain(|earlier| earlier.dir.is_some() || earlier.name != told.name);
                all.push(told);
            }
        }
    }
    (all, namespace)
}

/// The next message; `None` at the end, or when it is not a message of layermark.
fn hear(socket: BorrowedFd<'_>) -> Option<Message> {
    let mut name = vec![0; LONGEST + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let heard = loop {
        let mut into = [IoSliceMut::new(&mut name)];
        match recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other.ok()?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            descriptors.extend(all);
        }
    }
    name.truncate(heard.bytes);
    let name = OsString::from_vec(name);
    let plain = Path::new(&name).file_name() == Some(&name) && name.len() <= LONGEST;
    let mut descriptors = descriptors.into_iter();
    let Some(parent) = descriptors.next() else {
        return namespace::is_name(&name).then_some(Message::Namespace(name));
    };
    let dir = descriptors.next();
    plain.then_some(Message::Dir(Told { parent, name, dir }))
}

impl Told {
    /// Removes it. Tried until `until`, because probes and helpers of the dead run are being killed at this
    /// moment and may still create files.
    fn remove(&mut self, until: Instant) -> io::Result<()> {
        loop {
            match self.try_remove(until) {
                // Some servers do not notice that a directory has been removed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(e) if !is_final(&e) && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                outcome => return outcome,
            }
        }
    }

    fn try_remove(&mut self, until: Instant) -> io::Result<()> {
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => match mounts::open_unmounted(&self.parent, &self.name, OFlags::RDONLY) {
                Err(Errno::NOENT) => return Ok(()),
                dir => self.of_ours(dir?)?,
            },
        };
        let dir = self.dir.insert(dir);
        removal::empty_marked(&*dir, until)?;
        fd::remove_empty(&self.parent, &self.name, &*dir)
    }

    /// Checks that it is a work directory of layermark. Needed if layermark was killed before it
    /// could send the descriptor.
    fn of_ours(&self, dir: OwnedFd) -> io::Result<OwnedFd> {
        if marker::is_ours(&dir) {
            return Ok(dir);
        }
        let text = format!(
            "{} is not a work directory of layermark",
            self.name.display()
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }
}

/// Whether the next try would fail too: it is not ours, or its server has ended (`ENOTCONN`, `ECONNABORTED`) or no
/// longer has it (`ESTALE`).
fn is_final(e: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, NotConnected, PermissionDenied, StaleNetworkFileHandle,
    };
    let kinds = [
        ConnectionAborted,
        NotConnected,
        PermissionDenied,
        StaleNetworkFileHandle,
    ];
    kinds.contains(&e.kind())
}

#[allow(unsafe_code)]
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn removes_work_directories_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let parent = || fd::open_dir(rustix::fs::CWD, home.path()).unwrap();
        let fresh = |name: &str| {
            fs::create_dir(home.path().join(name)).unwrap();
            home.path().join(name)
        };
        let (ours, its) = pair().unwrap();
        let say = |name: &str, dir: Option<&Path>| {
            let dir = dir.map(|d| fd::open_dir(rustix::fs::CWD, d).unwrap());
            let dir = dir.as_ref().map(AsFd::as_fd);
            tell(&ours, parent().as_fd(), name.as_ref(), dir).unwrap();
        };
        // The process was killed before and while it marked them.
        let (unmarked, half) = (fresh("layermark-1"), fresh("layermark-2"));
        fs::write(half.join(marker::MARKER), b"A work").unwrap();
        let theirs = fresh("layermark-theirs");
        fs::write(theirs.join("precious"), b"x").unwrap();
        let named_so = fresh("layermark-named-so");
        fs::write(named_so.join(marker::MARKER), b"a file").unwrap();
        for name in [
            "layermark-1",
            "layermark-2",
            "layermark-theirs",
            "layermark-named-so",
            "layermark-absent",
        ] {
            say(name, None);
        }
        // Its descriptor was sent, and then it was replaced.
        let known = fresh("layermark-3");
        fs::create_dir(known.join("sub")).unwrap();
        fs::write(known.join("sub/left over"), b"x").unwrap();
        say("layermark-3", None);
        say("layermark-3", Some(&known));
        let moved = home.path().join("moved");
        fs::rename(&known, &moved).unwrap();
        std::os::unix::fs::symlink(&theirs, &known).unwrap();
        drop(ours);

        let journal = tempfile::tempdir().unwrap();
        let names = [
            "layermark-1",
            "layermark-2",
            "layermark-3",
            "layermark-theirs",
            "layermark-other",
        ];
        for name in names {
            fs::write(journal.path().join(name), b"").unwrap();
        }
        let dir = fd::open_dir(rustix::fs::CWD, journal.path()).unwrap();
        let e = run(&its, dir).unwrap_err();
        assert!(e.to_string().contains("layermark-named-so"), "{e}");
        assert!(!unmarked.exists() && !half.exists() && !moved.exists());
        assert!(known.is_symlink() && theirs.join("precious").exists());
        assert!(named_so.join(marker::MARKER).exists());
        let left = |name: &&str| journal.path().join(name).exists();
        let left: Vec<&str> = names.into_iter().filter(left).collect();
        assert_eq!(left, ["layermark-theirs", "layermark-other"]);
    }

    /// Another user may own what lies in a directory that was announced and not yet opened.
    #[test]
    fn a_marker_that_others_could_have_written_proves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let parent = fd::open_dir(rustix::fs::CWD, home.path()).unwrap();
        let dir = home.path().join("layermark-1");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("precious"), b"x").unwrap();
        let text = "A work directory of layermark. It is removed when its run ends.\n";
        fs::write(dir.join(marker::MARKER), text).unwrap();
        let mode = |path: &Path, mode| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&dir, 0o1777);
        let removed = || {
            let (ours, its) = pair().unwrap();
            tell(&ours, parent.as_fd(), "layermark-1".as_ref(), None).unwrap();
            drop(ours);
            run(&its, fs::File::open("/dev/null").unwrap()).is_ok()
        };
        assert!(!removed() && dir.join("precious").exists());
        mode(&dir, 0o755);
        mode(&dir.join(marker::MARKER), 0o666);
        assert!(!removed() && dir.join("precious").exists());
        mode(&dir.join(marker::MARKER), 0o644);
        assert!(removed() && !dir.exists());
    }

    #[test]
    fn a_server_that_has_ended_is_given_up_at_once() {
        let errors = [
            libc::ENOTCONN,
            libc::ECONNABORTED,
            libc::ESTALE,
            libc::EACCES,
        ];
        assert!(
            errors
                .map(io::Error::from_raw_os_error)
                .iter()
                .all(is_final)
        );
        let again = [libc::EBUSY, libc::ENOTEMPTY, libc::EIO];
        assert!(!again.map(io::Error::from_raw_os_error).iter().any(is_final));
    }

    #[test]
    fn what_is_no_message_of_ours_ends_it() {
        let home = tempfile::tempdir().unwrap();
        let parent = fd::open_dir(rustix::fs::CWD, home.path()).unwrap();
        for name in ["", "..", "a/b", "/", &"x".repeat(300)] {
            let (ours, its) = pair().unwrap();
            tell(&ours, parent.as_fd(), name.as_ref(), Some(parent.as_fd())).unwrap();
            drop(ours);
            run(&its, &its).unwrap();
            assert!(home.path().exists(), "{name}");
        }
        let input = fs::File::open("/dev/null").unwrap();
        run(&input, &input).unwrap();
    }
}
