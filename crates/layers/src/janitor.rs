//! Removes the work directory when layermark was killed.
//!
//! A small child process holds the reading end of a pipe whose only writing end is ours. The
//! kernel closes that when we end, however we end; then the child removes what it was told of.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::{ffi::OsStrExt, ffi::OsStringExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{tree, workdir};

/// Longest path it accepts, bytes (`PATH_MAX`).
const LONGEST: u64 = 4096;
/// How long it is waited for. What lies on a dead server takes it until that comes back.
const LONGEST_REMOVAL: Duration = Duration::from_secs(20);

/// The child that cleans up after us. Dropping it ends it once it has cleaned up.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
}

/// The writing end of the janitor's pipe; there is one janitor in a process.
static PIPE: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// Starts `EXE janitor`. Call it before [`crate::sandbox::enter`]: the child stays outside, so
/// that it keeps no mount of ours busy. Work directories made later are told to it.
pub fn spawn(exe: &Path) -> io::Result<Janitor> {
    let mut child = Command::new(exe)
        .arg("janitor")
        .env_clear()
        .current_dir("/")
        // Ctrl-C and a closed terminal reach the whole group of the shell's job.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    *pipe() = child.stdin.take();
    Ok(Janitor { child })
}

fn pipe() -> MutexGuard<'static, Option<ChildStdin>> {
    PIPE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the janitor, if there is one, of a work directory to remove when we are gone.
pub(crate) fn watch(dir: &Path) {
    let mut pipe = pipe();
    let bytes = dir.as_os_str().as_bytes();
    // A length and not a line's end: a path may hold any byte.
    let mut message = format!("{}\n", bytes.len()).into_bytes();
    message.extend_from_slice(bytes);
    if pipe
        .as_mut()
        .is_some_and(|p| p.write_all(&message).is_err())
    {
        // It has died: the next run in the same directory reaps instead.
        *pipe = None;
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        *pipe() = None;
        let until = Instant::now() + LONGEST_REMOVAL;
        // Nothing is left to do when it cannot be waited for.
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= until {
                eprintln!("layermark: what is left of the run is removed when it can be");
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What the child does: reads directories from `input` until it ends, then removes them.
/// Directories that are not work directories of ours are refused.
pub fn run(input: impl Read) -> io::Result<()> {
    ignore_signals();
    let dirs = read_dirs(BufReader::new(input));
    let mut outcome = Ok(());
    for dir in dirs {
        if let Err(e) = remove(&dir) {
            outcome = Err(e);
        }
    }
    outcome
}

/// Whatever was told in full counts, also when the last message was cut off.
fn read_dirs(mut input: impl BufRead) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    loop {
        let mut line = String::new();
        match input.by_ref().take(20).read_line(&mut line) {
            Ok(got) if got > 0 => {}
            _ => return dirs,
        }
        let Some(length) = line.trim().parse().ok().filter(|n| *n <= LONGEST) else {
            return dirs;
        };
        let mut bytes = Vec::new();
        match input.by_ref().take(length).read_to_end(&mut bytes) {
            Ok(got) if got as u64 == length => {
                dirs.push(std::ffi::OsString::from_vec(bytes).into());
            }
            _ => return dirs,
        }
    }
}

/// Probes and helpers of the dead run are being killed at this moment and may still make files.
fn remove(dir: &Path) -> io::Result<()> {
    let mut last = Ok(());
    for _ in 0..500 {
        if !dir.exists() {
            return Ok(());
        }
        if !workdir::is_ours(dir) && !workdir::is_begun(dir) {
            let text = format!("{} is not a work directory of layermark", dir.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        last = tree::remove_marked(dir);
        if last.is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    last
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

    fn message(dir: &Path) -> Vec<u8> {
        let bytes = dir.as_os_str().as_bytes();
        [format!("{}\n", bytes.len()).as_bytes(), bytes].concat()
    }

    #[test]
    fn removes_work_directories_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let fresh = || workdir::fresh(home.path(), |_| {}).unwrap();
        let ours = fresh();
        drop(workdir::mark(&ours).unwrap());
        fs::write(ours.join("left over"), b"x").unwrap();
        // Killed before and while it marked them.
        let (unmarked, half) = (fresh(), fresh());
        fs::write(half.join(workdir::MARKER), b"A work").unwrap();
        let theirs = home.path().join("layermark-theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("precious"), b"x").unwrap();

        let told = [&ours, &unmarked, &half, &theirs].map(|dir| message(dir));
        let input = [told.concat(), b"12".to_vec()].concat();
        let e = run(input.as_slice()).unwrap_err();
        assert!(e.to_string().contains("layermark-theirs"), "{e}");
        assert!(
            !ours.exists()
                && !unmarked.exists()
                && !half.exists()
                && theirs.join("precious").exists()
        );
        run(&b"99999\nx"[..]).unwrap();
        run(&b""[..]).unwrap();
    }
}
