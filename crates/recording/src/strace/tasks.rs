//! Calls that make, end and wake tasks, or wait for them.

use super::{
    by_path::LONGEST,
    lex::{self, Ended, field, quoted},
    number::integer,
    paths::normal,
    sequence::Sequence,
};

impl Sequence {
    /// Calls that make, replace or end tasks. Whether it is one.
    pub(super) fn of_tasks(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        resumed: bool,
    ) -> Result<bool, String> {
        match e.name {
            "clone" | "clone3" | "fork" | "vfork" => {
                let has = |flag: &str| e.args.iter().any(|arg| arg.contains(flag));
                let child = e
                    .returned
                    .and_then(|n| u32::try_from(n).ok())
                    .filter(|n| *n > 0);
                if resumed {
                    match child {
                        None => self.stillborn(id),
                        // A line of the child's has taken it, or none has come yet.
                        Some(child) => drop(self.task(child)),
                    }
                } else if child.is_some() {
                    self.bear(id, has("CLONE_FILES"), has("CLONE_THREAD"), child);
                }
                if let Some(child) = child
                    && (e.name == "vfork" || has("CLONE_VFORK"))
                {
                    // The parent has waited until here.
                    let after = self
                        .task(child)
                        .executed
                        .clone()
                        .or_else(|| self.exits.get(&child).cloned());
                    self.wait(id, after.as_ref());
                }
            }
            "execve" | "execveat" => {
                if e.returned == Some(0) {
                    if self.touches(id, e) {
                        self.leave(
                            "programs of the tree that were executed: their pages are not read",
                        );
                    }
                    self.executes(id)?;
                } else if self.touches(id, e) {
                    self.leave_call(e.name);
                }
            }
            "exit_group" | "exit" => {}
            "chdir" if e.returned == Some(0) => {
                if let Some(to) = quoted(e.arg(0)) {
                    let to = normal(&self.task(id).cwd, &to);
                    let to = self.links.follow(to, true);
                    self.enter(id, to);
                }
            }
            "fchdir" if e.returned == Some(0) => {
                if let Some(to) = lex::path_of(e.arg(0)) {
                    self.enter(id, to);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn enter(&mut self, id: u32, dir: Vec<u8>) {
        if dir.len() > LONGEST {
            self.leave("names longer than Linux allows");
        } else {
            self.task(id).cwd = dir;
        }
    }

    /// Calls that wait for other tasks, or wake them. Whether it is one.
    pub(super) fn waits(&mut self, id: u32, e: &Ended<'_>) -> bool {
        let returned = e.returned.unwrap_or(-1);
        match e.name {
            "wait4" | "waitid" => {
                let child = if e.name == "waitid" {
                    integer(field(e.arg(2), "si_pid=")).filter(|_| returned == 0)
                } else {
                    Some(returned)
                };
                let child = child.and_then(|child| u32::try_from(child).ok());
                let after = child.and_then(|child| self.exits.get(&child).cloned());
                self.wait(id, after.as_ref());
            }
            "futex" => {
                let key = (self.task(id).group, e.arg(0).to_owned());
                if e.arg(1).contains("WAKE") {
                    let after = self.mark(id);
                    self.wakes.insert(key, after);
                } else if e.arg(1).contains("WAIT") && returned == 0 {
                    let after = self.wakes.get(&key).cloned();
                    self.wait(id, after.as_ref());
                }
            }
            "epoll_wait" | "epoll_pwait" | "poll" | "ppoll" | "select" | "pselect6" => {
                if returned > 0 {
                    let after = self.last_write.clone();
                    self.wait(id, Some(&after));
                }
            }
            "clock_nanosleep" | "nanosleep" => self.leave("sleeps"),
            "io_uring_enter" | "io_uring_setup" => self.leave("io_uring"),
            "msync" => self.leave("msync: what was written through mappings"),
            "sync" => self.leave("sync: it is for all file systems"),
            "inotify_add_watch" | "fanotify_mark" => self.leave("inotify"),
            "socket" | "connect" | "accept" | "accept4" | "bind" | "sendto" | "sendmsg"
            | "recvfrom" | "recvmsg" => {
                self.leave("network and sockets");
                // It may make a name.
                return e.name != "bind";
            }
            "read" | "write" | "readv" | "writev" => return self.pipes(id, e, returned),
            _ => return false,
        }
        true
    }

    /// Reads and writes of pipes and sockets: who reads comes after who has written. Whether it is one.
    fn pipes(&mut self, id: u32, e: &Ended<'_>, returned: i64) -> bool {
        let Some(shown) = lex::annotation(e.arg(0)) else {
            return false;
        };
        let ends = [
            "pipe:",
            "socket:",
            "anon_inode:",
            "UNIX",
            "TCP",
            "UDP",
            "NETLINK",
        ];
        if !ends.iter().any(|start| shown.starts_with(start)) {
            return false;
        }
        let after = if e.name.starts_with("write") {
            let after = self.mark(id);
            self.writes.insert(shown.to_owned(), after.clone());
            self.last_write = after;
            return true;
        } else if returned > 0 {
            self.writes.get(shown).cloned()
        } else {
            Some(self.last_exit.clone())
        };
        self.wait(id, after.as_ref());
        true
    }
}
