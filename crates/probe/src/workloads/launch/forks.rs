//! Counts the processes created on this machine, as reported by the kernel's process connector
//! (`linux/cn_proc.h`). Needs root. It also counts processes that end at once.
#![allow(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use rustix::fs::{Mode, OFlags, openat};

/// Index and value of the process connector, and its multicast group.
const CN_PROC: u32 = 1;
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// `nlmsghdr` and `cn_msg`.
const HEADERS: usize = 16 + 20;
/// Size of the buffer for events that arrive while a program starts, bytes: some thousand events.
const ROOM: libc::c_int = 8 << 20;

const EVENT_NONE: u32 = 0;
const EVENT_FORK: u32 = 1;

/// A listener.
#[derive(Debug)]
pub struct Forks {
    socket: OwnedFd,
    /// `/proc` of the namespace that the kernel's numbers refer to.
    proc: File,
    /// Id of the process that listens. A forked copy only reads.
    owner: u32,
    /// Whether some events were lost, so that the count is unknown.
    lost: bool,
}

impl Forks {
    /// `None` if the kernel reports no events: not root, or in a container.
    pub fn listen() -> Option<Self> {
        let mut forks = Self {
            socket: socket().ok()?,
            proc: File::open("/proc").ok()?,
            owner: std::process::id(),
            lost: false,
        };
        forks.tell(LISTEN).ok()?;
        // The answer has arrived when the message has been sent.
        let mut agreed = false;
        while let Some(event) = forks.next() {
            agreed |= word(&event, 0) == Some(EVENT_NONE) && word(&event, 16) == Some(0);
        }
        agreed.then_some(forks)
    }

    /// The kernel's own id of a process, which differs inside a PID namespace.
    pub fn number(&self, pidfd: BorrowedFd<'_>) -> Option<u32> {
        let path = format!("self/fdinfo/{}", pidfd.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut text = String::new();
        let info = openat(&self.proc, path, flags, Mode::empty()).ok()?;
        File::from(info).read_to_string(&mut text).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix("Pid:"))?;
        line.trim().parse().ok()
    }

    /// Discards the events so far.
    pub fn forget(&mut self) {
        while self.next().is_some() {}
        self.lost = false;
    }

    /// Number of processes in the tree of `main`, including itself; `None` when events were lost.
    pub fn count(&mut self, main: u32) -> Option<u64> {
        let mut tree = BTreeSet::from([main]);
        while let Some(event) = self.next() {
            follow(&event, &mut tree);
        }
        (!self.lost).then_some(tree.len() as u64)
    }

    /// The body of the next message, without its headers.
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0_u8; 1024];
        loop {
            // SAFETY: the kernel writes at most the buffer's length to it.
            let n = unsafe {
                let (to, room) = (buffer.as_mut_ptr().cast(), buffer.len());
                libc::recv(self.socket.as_raw_fd(), to, room, 0)
            };
            if let Ok(n) = usize::try_from(n) {
                return Some(buffer[..n].get(HEADERS..).unwrap_or_default().to_vec());
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ENOBUFS) => self.lost = true,
                _ => return None,
            }
        }
    }

    fn tell(&self, what: u32) -> io::Result<()> {
        let length = (HEADERS + 4) as u32;
        let done = libc::NLMSG_DONE as u32; // type, and no flags in the upper half
        let mut message = Vec::with_capacity(length as usize);
        // nlmsghdr: length, type and flags, sequence, sender; cn_msg: index, value, sequence,
        // acknowledgement, length and flags.
        for word in [length, done, 0, 0, CN_PROC, 1, 0, 0, 4, what] {
            message.extend(word.to_ne_bytes());
        }
        // SAFETY: the kernel reads the message's bytes.
        let sent = unsafe {
            let (from, length) = (message.as_ptr().cast(), message.len());
            libc::send(self.socket.as_raw_fd(), from, length, 0)
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Drop for Forks {
    fn drop(&mut self) {
        // Older kernels keep sending events when a listener only closes its socket, and count the
        // listeners.
        if self.owner == std::process::id() {
            let _ = self.tell(IGNORE);
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a zeroed address is valid; the descriptor is new and only ours; pointers are to live
    // variables of the given sizes.
    unsafe {
        let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_nl = std::mem::zeroed();
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = CN_PROC;
        let length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        if libc::bind(fd, (&raw const address).cast(), length) < 0 {
            return Err(io::Error::last_os_error());
        }
        // In a smaller buffer events may be lost, which is detected.
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        let room = ROOM;
        let at = (&raw const room).cast();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, at, length);
        Ok(socket)
    }
}

/// Adds a process to the tree if its creator belongs to it. `proc_event`: kind, CPU, time (8
/// bytes); of a fork: thread and process that created it, new thread and its process.
fn follow(event: &[u8], tree: &mut BTreeSet<u32>) {
    let all = [0, 20, 24, 28].map(|at| word(event, at));
    if let [Some(EVENT_FORK), Some(parent), Some(thread), Some(process)] = all
        && thread == process
        && tree.contains(&parent)
    {
        tree.insert(process);
    }
}

fn word(event: &[u8], at: usize) -> Option<u32> {
    let bytes = event.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u32, parent: u32, thread: u32, process: u32) -> Vec<u8> {
        let words = [kind, 0, 0, 0, parent, parent, thread, process];
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn descendants_count_and_threads_and_others_do_not() {
        let mut tree = BTreeSet::from([10]);
        for e in [
            event(EVENT_FORK, 10, 11, 11),
            event(EVENT_FORK, 11, 12, 11), // a thread
            event(EVENT_FORK, 11, 13, 13),
            event(EVENT_FORK, 99, 14, 14), // somebody else's
            event(2, 10, 15, 15),          // no fork
            vec![1, 2],
        ] {
            follow(&e, &mut tree);
        }
        assert_eq!(tree, BTreeSet::from([10, 11, 13]));
    }

    #[test]
    fn the_kernel_tells_of_short_lived_children() {
        let Some(mut forks) = Forks::listen() else {
            eprintln!("skipped: the process connector is for root of the whole machine");
            return;
        };
        forks.forget();
        let script = "/bin/true; (/bin/true; /bin/true)";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", script])
            .spawn()
            .unwrap();
        let pid = rustix::process::Pid::from_child(&shell);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        assert_eq!(
            forks.number(std::os::fd::AsFd::as_fd(&pidfd)),
            Some(shell.id())
        );
        shell.wait().unwrap();
        // The shell, its subshell, and three programs, the last of which may replace the subshell.
        let n = forks.count(shell.id()).unwrap();
        assert!((4..=5).contains(&n), "{n}");
    }
}
