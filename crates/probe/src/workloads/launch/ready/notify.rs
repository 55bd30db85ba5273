//! Ready when the program reports it by `sd_notify(3)`.

use std::os::{
    fd::{AsFd, BorrowedFd},
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

use layermark_model::random_name;
use layermark_sys::process::Stat;
use rustix::{net::sockopt::set_socket_passcred, process::geteuid};

use super::{MOST, Ready, ReadyEvent, ReadyKind, Scene};
use crate::{ProbeError, programs::sys::receive_with_sender};

/// `notify`
pub struct Notify;

impl ReadyKind for Notify {
    fn id(&self) -> &'static str {
        "notify"
    }
    fn value(&self) -> &'static str {
        ""
    }
    fn arm(&self, _: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        // An abstract name needs no directory that both sides see. Any process of the machine can
        // read it in /proc/net/unix and send to it, so the kernel reports the sender.
        let name = random_name("layermark/");
        let bound = SocketAddr::from_abstract_name(&name)
            .and_then(|at| UnixDatagram::bind_addr(&at))
            .and_then(|socket| {
                set_socket_passcred(&socket, true)?;
                Ok(socket)
            });
        let socket = bound
            .map_err(|e| ProbeError::new(format!("cannot make the socket for `notify`: {e}")))?;
        scene.command.env("NOTIFY_SOCKET", format!("@{name}"));
        Ok(Box::new(Says(socket)))
    }
}

struct Says(UnixDatagram);

impl Ready for Says {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.0.as_fd()]
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        let now = ReadyEvent::now();
        let mut message = [0; 4096];
        for _ in 0..MOST {
            let Ok((n, sender)) = receive_with_sender(&self.0, &mut message) else {
                break;
            };
            let ready = message[..n].split(|b| *b == b'\n').any(|l| l == b"READY=1");
            if ready && sender.is_some_and(|(pid, uid)| is_launched(pid, uid)) {
                return Ok(Some(now));
            }
        }
        Ok(None)
    }
}

/// Whether a process belongs to the launched program, as a descendant of this process. A process
/// that has ended belongs to it in two cases. This is the first process of a PID namespace, where
/// all processes with an id are descendants. Or it had the same user, who may control this process
/// anyway.
fn is_launched(pid: i32, uid: u32) -> bool {
    let own = std::process::id().cast_signed();
    let mut at = pid;
    while at > 0 && at != own {
        match parent(at) {
            Some(parent) => at = parent,
            None => return own == 1 || uid == geteuid().as_raw(),
        }
    }
    at == own
}

/// The parent of a process; `None` when that process has ended.
fn parent(pid: i32) -> Option<i32> {
    let stat = Stat::of(pid.cast_unsigned())?;
    Some(stat.parent.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descendants_are_of_the_program() {
        let (own, user) = (std::process::id().cast_signed(), geteuid().as_raw());
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        assert!(is_launched(child.id().cast_signed(), user));
        child.kill().unwrap();
        child.wait().unwrap();
        // Outside of the namespace, the first process, and the parent.
        for other in [0, 1, parent(own).unwrap()] {
            assert!(!is_launched(other, user), "{other}");
        }
        // It has ended, so the message of another user is not accepted.
        assert!(is_launched(i32::MAX, user) && !is_launched(i32::MAX, user + 1));
    }

    #[test]
    fn the_kernel_tells_who_has_sent() {
        let (here, there) = UnixDatagram::pair().unwrap();
        set_socket_passcred(&here, true).unwrap();
        there.send(b"READY=1").unwrap();
        let mut buffer = [0; 16];
        let own = (std::process::id().cast_signed(), geteuid().as_raw());
        let got = receive_with_sender(&here, &mut buffer).unwrap();
        assert_eq!(got, (7, Some(own)));
        assert!(
            receive_with_sender(&here, &mut buffer).is_err(),
            "nothing more"
        );
    }
}
