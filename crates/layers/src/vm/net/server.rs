//! Servers of a shared directory. They run in the guest's network. So they use their standard
//! ports, and only the guest reaches them.

use std::{fs, io, path::Path, process::Command};

use super::Network;
use crate::{
    Control,
    child::{self, Change, Process, SEEN_AT},
};

/// Directory in which servers keep locks and sockets under fixed names.
const OF_SERVERS: &str = "/run";

/// The server's path to this file of the guest's private directory.
pub(crate) fn seen(name: &str) -> String {
    beside(&format!("vm/{name}"))
}

/// The server's path to a directory next to it.
pub(crate) fn beside(name: &str) -> String {
    format!("{SEEN_AT}/{name}")
}

/// Starts a server for the guest whose private directory is `dir`.
pub(crate) fn start(
    network: Option<&Network>,
    dir: &Path,
    command: &mut Command,
) -> io::Result<Process> {
    let Some(net) = network.and_then(Network::space) else {
        return Err(io::ErrorKind::NetworkDown.into());
    };
    net.enter(command);
    start_alone(dir, command)
}

/// Starts a server for the guest whose private directory is `dir`, with a private `/run`, so that
/// other servers do not see its files there. They end with it.
pub(crate) fn start_alone(dir: &Path, command: &mut Command) -> io::Result<Process> {
    let layer = dir.parent().ok_or(io::ErrorKind::NotFound)?;
    command.current_dir(layer);
    let [seen, run] = [SEEN_AT, OF_SERVERS].map(|path| Change::path(path.as_ref()));
    let empty = Change::Empty(run?, c"mode=755".into());
    child::with_view(command, vec![Change::Show(None, seen?), empty]);
    Process::start_with(command)
}

/// Whether a process in the server's network listens on `port`.
pub(crate) fn listens(server: &Process, port: u16) -> bool {
    let Some(pid) = server.pid() else {
        return false;
    };
    ["tcp", "tcp6"].iter().any(|kind| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{kind}"));
        text.is_ok_and(|text| text.lines().any(|line| is_listener(line, port)))
    })
}

/// A line of `/proc/net/tcp`, see proc(5): number, local address, remote address, state (0A:
/// LISTEN).
fn is_listener(line: &str, port: u16) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let own = fields.get(1).and_then(|a| a.rsplit_once(':'));
    own.is_some_and(|(_, p)| u16::from_str_radix(p, 16) == Ok(port)) && fields.get(3) == Some(&"0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_from_connections() {
        let line = "   0: 0100090A:0801 00000000:0000 0A 00000000:00000000 00:00000000";
        let six = "   1: 00000000000000000000000001000000:0801 00000000000000000000000000000000:0000 0A 0";
        assert!(is_listener(line, 2049) && is_listener(six, 2049));
        assert!(!is_listener(line, 445));
        assert!(!is_listener(&line.replace(" 0A ", " 01 "), 2049));
        assert!(!is_listener("  sl  local_address rem_address   st", 2049));
        assert!(!is_listener("", 2049));
    }
}
