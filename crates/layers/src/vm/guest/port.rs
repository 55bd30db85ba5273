//! The agent's end of the connection to the host: a virtio-serial port, or a serial port.

use crate::agent::protocol::{PIECE, PORT, Pieces};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::{SERIAL, wait_for};

/// The second serial port; the first is the console.
const TTY: &str = "/dev/ttyS1";

/// Opens both directions of the port.
pub(super) fn open(command_line: &str) -> io::Result<(Box<dyn Read>, File)> {
    if command_line.split_whitespace().any(|w| w == SERIAL) {
        return open_serial();
    }
    let port = wait_for("the port to the host", find)?;
    let port = File::options().read(true).write(true).open(&port)?;
    let input = io::BufReader::with_capacity(2 * PIECE, port.try_clone()?);
    Ok((Box::new(input), port))
}

fn find() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let ours = ports
        .flatten()
        .find(|e| fs::read_to_string(e.path().join("name")).is_ok_and(|n| n.trim() == PORT))?;
    Some(Path::new("/dev").join(ours.file_name())).filter(|p| p.exists())
}

fn open_serial() -> io::Result<(Box<dyn Read>, File)> {
    let port = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(TTY)
        .map_err(|e| io::Error::new(e.kind(), format!("{TTY}: {e}")))?;
    let mut settings = tcgetattr(&port)?;
    settings.make_raw();
    tcsetattr(&port, OptionalActions::Now, &settings)?;
    Ok((Box::new(drained(port.try_clone()?)?), port))
}

/// Reads a stream as it arrives, even if nothing waits for it, because a serial port has no flow
/// control and the kernel buffers little.
fn drained(mut from: impl Read + Send + 'static) -> io::Result<Pieces> {
    let (sender, pieces) = mpsc::channel();
    let read = move || {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("serial".into()).spawn(read)?;
    Ok(pieces.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_who_does_not_read() {
        use std::io::Write;
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut drained = drained(theirs).unwrap();
        let sent: Vec<u8> = (0..4 << 20).map(|n| (n % 251) as u8).collect();
        // More than a socket buffers without a reader.
        ours.write_all(&sent).unwrap();
        drop(ours);
        let mut heard = Vec::new();
        drained.read_to_end(&mut heard).unwrap();
        assert!(heard == sent, "{} bytes came", heard.len());
    }
}
