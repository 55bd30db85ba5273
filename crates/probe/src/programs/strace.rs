//! System calls of programs, by strace(1): its command line, and the file that it writes.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use layermark_recording::strace::{Event, events};

use crate::ProbeError;

/// Largest trace that is read, bytes.
const LARGEST: u64 = 256 << 20;

/// The words before a program that trace it and its children: paths of descriptors, no data, and these
/// calls. Those that a machine does not have are skipped if a `?` stands before them.
pub fn command<'a>(options: &[&'a str], calls: &'a str, file: &'a str) -> Vec<&'a str> {
    let own = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "0"];
    [&own[..], options, &["-e", calls, "-o", file, "--"]].concat()
}

/// Calls `each` with the events of a trace, and removes the file. The traced program may have put anything in its place.
pub fn read(at: &Path, each: impl FnMut(u32, &Event<'_>)) -> Result<(), ProbeError> {
    let own = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(own).open(at);
    let read = file
        .and_then(bounded)
        .and_then(|file| events(BufReader::new(file), each).map_err(io::Error::other));
    read.map_err(|e| ProbeError::io("read the trace", at, &e))?;
    let _ = fs::remove_file(at);
    Ok(())
}

/// The file, if it is a regular one that is not too large.
fn bounded(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if found.len() > LARGEST {
        let text = format!("it has {} bytes, more than {LARGEST}", found.len());
        return Err(io::Error::other(text));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_limited_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let error = |at: &Path| bounded(File::open(at).unwrap()).unwrap_err().to_string();
        assert_eq!(error(dir.path()), "it is not a file");
        let at = dir.path().join("trace");
        let file = File::create(&at).unwrap();
        file.set_len(LARGEST).unwrap();
        assert!(bounded(File::open(&at).unwrap()).is_ok());
        file.set_len(LARGEST + 1).unwrap();
        assert!(error(&at).ends_with("more than 268435456"));
    }
}
