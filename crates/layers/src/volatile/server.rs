//! A file system in user space that the user names, between the disk and what stands on it.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use super::{disk::NAME, failed};
use crate::{Control, LayerError, Undo, child::Process, mounts, needs, served::Watched};

/// How long it may take to mount.
const LIMIT: Duration = Duration::from_secs(10);

/// Watches the calling thread while it works at `at`, where a server of the user's is mounted, or will be: a call that waits for
/// that server for `silence` fails.
pub fn watch(at: &Path, silence: Duration) -> Watched {
    let at = at.to_path_buf();
    Watched::new(silence, move || mounts::abort(&at))
}

/// Runs `command` with the directory `source` and the mount point `at` as its last two arguments, and
/// waits until it has mounted itself. It has to stay in the foreground. Of the user's environment it gets
/// only the language.
///
/// # Errors
///
/// The program is not installed, ends, or does not mount in time.
pub fn serve_with(
    command: &[String],
    source: &Path,
    at: &Path,
    undo: &mut Undo,
) -> Result<(), LayerError> {
    let Some((program, arguments)) = command.split_first() else {
        let empty = std::io::ErrorKind::InvalidInput.into();
        return Err(failed("start the server for", at)(empty));
    };
    let mut started = needs::tool(NAME, program, program)?;
    started.args(arguments).arg(source).arg(at);
    started
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let process = Process::start_with(&mut started);
    let mut process = process.map_err(failed("start", Path::new(program)))?;
    let begun = Instant::now();
    let ended = loop {
        if mounts::assert_mounted(NAME, at, "fuse").is_ok() {
            break None;
        }
        if let Some(status) = process.wait(Duration::from_millis(5)) {
            break Some(LayerError::Program {
                layer: NAME.into(),
                program: program.clone(),
                status,
                tail: process.tail(),
            });
        }
        if begun.elapsed() > LIMIT {
            break Some(LayerError::Slow {
                layer: NAME.into(),
                what: program.clone(),
                after: LIMIT,
                tail: process.tail(),
            });
        }
    };
    undo.push_server(program, process);
    let mounted = at.to_path_buf();
    undo.push(format!("unmount {}", at.display()), move || {
        mounts::unmount(&mounted)
    });
    ended.map_or(Ok(()), Err)
}
