//! Which calls of a program become calls of a recording.

use super::{
    lex::{self, Ended, descriptor, integer, quoted},
    names::bits,
    paths::{below, normal, parent, plain},
    sequence::{Descriptor, Sequence, Shared, Use},
};
use crate::{Call, CallKind, EntryKind, call::open_flag, limits};

const ENOENT: i64 = -2;
const EEXIST: i64 = -17;

/// A name in the tree.
struct Place {
    /// Absolute, behind links that are not replayed.
    path: Vec<u8>,
    /// The open directory that `name` is relative to.
    dir: Option<u32>,
    name: Vec<u8>,
}

/// Where the name of a lookup is, and what the lookup becomes.
struct Lookup {
    base: Option<usize>,
    path: usize,
    kind: CallKind,
    follows: bool,
}

fn lookup(e: &Ended<'_>) -> Option<Lookup> {
    use CallKind as K;
    let at = |kind, follows| Lookup {
        base: Some(0),
        path: 1,
        kind,
        follows,
    };
    let plain = |kind, follows| Lookup {
        base: None,
        path: 0,
        kind,
        follows,
    };
    Some(match e.name {
        "stat" | "stat64" => plain(K::Stat, true),
        "lstat" | "lstat64" => plain(K::Lstat, false),
        "newfstatat" | "fstatat64" if e.arg(3).contains("NOFOLLOW") => at(K::Lstat, false),
        "newfstatat" | "fstatat64" => at(K::Stat, true),
        "statx" => at(K::Statx, !e.arg(2).contains("NOFOLLOW")),
        "access" => plain(K::Access, true),
        "faccessat" | "faccessat2" => at(K::Access, true),
        "readlink" => plain(K::Readlink, false),
        "readlinkat" => at(K::Readlink, false),
        "statfs" => plain(K::Statfs, true),
        "getxattr" => plain(K::Getxattr, true),
        "lgetxattr" => plain(K::Lgetxattr, false),
        "listxattr" => plain(K::Listxattr, true),
        "llistxattr" => plain(K::Llistxattr, false),
        "setxattr" => plain(K::Setxattr, true),
        "lsetxattr" => plain(K::Lsetxattr, false),
        "removexattr" => plain(K::Removexattr, true),
        "lremovexattr" => plain(K::Lremovexattr, false),
        "truncate" => plain(K::Truncate, true),
        "chmod" => plain(K::Chmod, true),
        "fchmodat" | "fchmodat2" => at(K::Chmod, true),
        "chown" => plain(K::Chown, true),
        "lchown" => plain(K::Chown, false),
        "fchownat" => at(K::Chown, !e.arg(4).contains("NOFOLLOW")),
        "utime" | "utimes" => plain(K::Utimens, true),
        "utimensat" => at(K::Utimens, !e.arg(3).contains("NOFOLLOW")),
        "mkdir" => plain(K::Mkdir, false),
        "mkdirat" => at(K::Mkdir, false),
        "unlink" => plain(K::Unlink, false),
        "rmdir" => plain(K::Rmdir, false),
        "unlinkat" if e.arg(2).contains("REMOVEDIR") => at(K::Rmdir, false),
        "unlinkat" => at(K::Unlink, false),
        _ => return None,
    })
}

impl Sequence {
    /// Takes a call that has ended.
    pub fn call(&mut self, id: u32, e: &Ended<'_>, resumed: bool) -> Result<(), String> {
        if self.of_tasks(id, e, resumed)? || self.waits(id, e) {
            return Ok(());
        }
        let Some(outcome) = e.outcome() else {
            if e.name != "execve"
                && e.name != "exit_group"
                && e.name != "exit"
                && self.touches(id, e)
            {
                self.leave("calls that were interrupted");
            }
            return Ok(());
        };
        match e.name {
            "open" | "creat" | "openat" | "openat2" => self.opens(id, e, outcome),
            "close" => match descriptor(e.arg(0)) {
                Some(number) if outcome == 0 => self.close(id, number),
                _ => Ok(()),
            },
            "close_range" => self.closes(id, e),
            "dup" | "dup2" | "dup3" => self.duplicates(id, e, outcome),
            "fcntl" | "fcntl64" if e.arg(1).contains("F_DUPFD") => self.duplicates(id, e, outcome),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                self.of_two_names(id, e, outcome)
            }
            "symlink" | "symlinkat" => self.symlinks(id, e, outcome),
            "mknod" | "mknodat" => {
                if self.touches(id, e) {
                    self.leave("pipes, sockets and devices that were made");
                }
                Ok(())
            }
            _ => match lookup(e) {
                Some(lookup) => self.looks_up(id, e, &lookup, outcome),
                None => self.of_open_files(id, e, outcome),
            },
        }
    }

    /// Whether an argument is a file of the tree.
    fn touches(&mut self, id: u32, e: &Ended<'_>) -> bool {
        let root = self.root.clone();
        let inside = |path: Vec<u8>| below(&root, &path).is_some();
        e.args.iter().any(|arg| {
            lex::path_of(arg).is_some_and(inside)
                || quoted(arg).is_some_and(|text| inside(normal(&self.task(id).cwd, &text)))
        })
    }

    /// Calls that make, replace or end tasks. Whether it is one.
    fn of_tasks(&mut self, id: u32, e: &Ended<'_>, resumed: bool) -> Result<bool, String> {
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
                }
            }
            "exit_group" | "exit" => {}
            "chdir" if e.returned == Some(0) => {
                if let Some(to) = quoted(e.arg(0)) {
                    let to = normal(&self.task(id).cwd, &to);
                    let to = self.links.follow(to, true);
                    self.task(id).cwd = to;
                }
            }
            "fchdir" if e.returned == Some(0) => {
                if let Some(to) = lex::path_of(e.arg(0)) {
                    self.task(id).cwd = to;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that wait for other tasks, or wake them. Whether it is one.
    fn waits(&mut self, id: u32, e: &Ended<'_>) -> bool {
        let returned = e.returned.unwrap_or(-1);
        match e.name {
            "wait4" | "waitid" => {
                let child = u32::try_from(returned)
                    .ok()
                    .filter(|n| *n > 0 && e.name == "wait4");
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
            "inotify_add_watch" | "fanotify_mark" => self.leave("inotify"),
            "socket" | "connect" | "accept" | "accept4" | "bind" | "sendto" | "sendmsg"
            | "recvfrom" | "recvmsg" => {
                self.leave("network and sockets");
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

    /// The place of a name; `None` outside of the tree.
    fn place(&mut self, id: u32, base: Option<&str>, text: &str, follows: bool) -> Option<Place> {
        let name = quoted(text).filter(|name| !name.is_empty())?;
        let base = base.filter(|base| !base.is_empty());
        let start = match base {
            Some(base) => lex::path_of(base).or_else(|| {
                let file = self.opened(id, descriptor(base)?)?.file;
                self.file_paths[file as usize].clone()
            }),
            None => None,
        };
        let start = start.unwrap_or_else(|| self.task(id).cwd.clone());
        if let Some(file) = self.magic(id, &name) {
            let path = self.file_paths[file as usize].clone()?;
            let name = below(&self.root, &path)?.to_vec();
            return Some(Place {
                path,
                dir: None,
                name,
            });
        }
        let whole = normal(&start, &name);
        let path = self.links.follow(whole.clone(), follows);
        let relative = below(&self.root, &path)?.to_vec();
        let is_absolute = name.starts_with(b"/");
        let dir = base
            .and_then(descriptor)
            .and_then(|number| self.opened(id, number));
        if let (Some(dir), Some(name), false) = (dir, plain(&name), is_absolute || path != whole) {
            return Some(Place {
                path,
                dir: Some(dir.file),
                name,
            });
        }
        Some(Place {
            path,
            dir: None,
            name: relative,
        })
    }

    /// The open file behind `/proc/self/fd/3`.
    fn magic(&mut self, id: u32, name: &[u8]) -> Option<u32> {
        let starts = [&b"/proc/self/fd/"[..], b"/proc/thread-self/fd/"];
        let number = starts.iter().find_map(|start| name.strip_prefix(*start))?;
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(self.opened(id, number)?.file)
    }

    /// What a call with this name shares with others.
    fn of_name(&mut self, path: &[u8], how: Use) -> Vec<(Shared, Use)> {
        let up = parent(path).to_vec();
        let mut all = vec![(Shared::Name(self.path(path)), how)];
        if below(&self.root, &up).is_some() {
            let up = self.path(&up);
            all.push((Shared::Name(up), Use::Reads));
            if how == Use::Exclusive {
                all.push((Shared::Entries(up), Use::Adds));
            }
        }
        all
    }

    /// What a call on an open file shares. `moves`: its offset or locks; `changes`: its data.
    pub(super) fn of_file(&mut self, file: u32, moves: bool, changes: bool) -> Vec<(Shared, Use)> {
        let how = |exclusive| {
            if exclusive {
                Use::Exclusive
            } else {
                Use::Reads
            }
        };
        let mut all = vec![(Shared::File(file), how(moves || changes))];
        if let Some(path) = self.file_paths[file as usize].clone() {
            all.push((Shared::Name(self.path(&path)), how(changes)));
        }
        all
    }

    fn opens(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        let at = usize::from(e.name.starts_with("openat"));
        let (flags, mode) = match e.name {
            "creat" => ("O_WRONLY|O_CREAT|O_TRUNC", e.arg(1)),
            "openat2" => (field(e.arg(2), "flags="), field(e.arg(2), "mode=")),
            _ => (e.arg(at + 1), e.arg(at + 2)),
        };
        let words = || flags.split('|').map(str::trim);
        let bit = |word| words().any(|own| own == word);
        let known: u32 = words().map(open_flag).fold(0, |all, bit| all | bit);
        let (creates, fresh) = (bit("O_CREAT"), bit("O_CREAT") && bit("O_EXCL"));
        let base = (at == 1).then(|| e.arg(0));
        let Some(place) = self.place(id, base, e.arg(at), !bit("O_NOFOLLOW") && !fresh) else {
            if outcome >= 0 {
                // The number may have been that of a file in the tree, whose close was not seen.
                self.task(id).table.borrow_mut().remove(&outcome);
            }
            return Ok(());
        };
        if field(e.arg(2), "resolve=").starts_with("RESOLVE") {
            self.leave("openat2 with RESOLVE flags: replayed with those of the replay");
        }
        let makes = creates || bit("O_TMPFILE");
        let mode = if makes {
            integer(mode).unwrap_or(0) & i64::from(limits::MODE)
        } else {
            0
        };
        let path = place.path.clone();
        self.opens_seen(&path, outcome, creates, fresh, bit("O_DIRECTORY"));
        if bit("O_TRUNC")
            && let Some(inferred) = &mut self.inferred
        {
            inferred.writes(&path);
        }
        let number = self.name(&place.name);
        let file = self.file((outcome >= 0).then(|| path.clone()));
        let exclusive = outcome >= 0 && (makes || bit("O_TRUNC"));
        let mut shared = self.of_name(
            &path,
            if exclusive {
                Use::Exclusive
            } else {
                Use::Reads
            },
        );
        shared.push((Shared::File(file), Use::Exclusive));
        let call = Call {
            dir: place.dir,
            path: Some(number),
            file: Some(file),
            a: known.into(),
            b: mode,
            outcome: outcome.min(0),
            ..Call::new(CallKind::Open)
        };
        self.emit(id, call, &shared)?;
        if outcome >= 0 {
            let closed_by_exec = bit("O_CLOEXEC");
            self.close(id, outcome)?;
            self.open(
                id,
                outcome,
                Descriptor {
                    file,
                    closed_by_exec,
                },
            );
        }
        Ok(())
    }

    fn opens_seen(&mut self, path: &[u8], outcome: i64, creates: bool, fresh: bool, dir: bool) {
        let Some(inferred) = &mut self.inferred else {
            return;
        };
        match outcome {
            0.. if fresh => inferred.absent(path),
            0.. if creates => inferred.absent(path),
            0.. => inferred.found(path, dir.then_some(EntryKind::Directory)),
            ENOENT => inferred.absent(path),
            EEXIST => inferred.found(path, None),
            _ => {}
        }
    }

    fn closes(&mut self, id: u32, e: &Ended<'_>) -> Result<(), String> {
        let (first, last) = (
            integer(e.arg(0)).unwrap_or(0),
            integer(e.arg(1)).unwrap_or(0),
        );
        // 4294967295, or ~0U.
        let last = if last <= 0 { i64::MAX } else { last };
        if first > last {
            return Ok(());
        }
        let marks = e.arg(2).contains("CLOEXEC");
        let table = std::rc::Rc::clone(&self.task(id).table);
        let numbers: Vec<i64> = table
            .borrow()
            .range(first..=last)
            .map(|(n, _)| *n)
            .collect();
        for number in numbers {
            if marks {
                if let Some(descriptor) = table.borrow_mut().get_mut(&number) {
                    descriptor.closed_by_exec = true;
                }
            } else {
                self.close(id, number)?;
            }
        }
        Ok(())
    }

    /// One open file with another descriptor: not a call of its own, since a replay names open files by their number.
    fn duplicates(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        let old = descriptor(e.arg(0));
        if outcome < 0 || old == Some(outcome) {
            return Ok(());
        }
        if e.name != "dup" && !e.name.starts_with("fcntl") {
            self.close(id, outcome)?;
        }
        if let Some(own) = old.and_then(|number| self.opened(id, number)) {
            let closed_by_exec = e.args.iter().any(|arg| arg.contains("CLOEXEC"));
            self.open(
                id,
                outcome,
                Descriptor {
                    closed_by_exec,
                    ..own
                },
            );
        }
        Ok(())
    }

    fn looks_up(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        lookup: &Lookup,
        outcome: i64,
    ) -> Result<(), String> {
        use CallKind as K;
        let base = lookup.base.map(|at| e.arg(at));
        let named = quoted(e.arg(lookup.path)).is_some_and(|name| !name.is_empty());
        if let (false, Some(base)) = (named, base) {
            return self.looks_at_open(id, e, lookup.kind, base, outcome);
        }
        let Some(place) = self.place(id, base, e.arg(lookup.path), lookup.follows) else {
            return Ok(());
        };
        self.lookup_seen(&place.path, e, lookup, outcome);
        let last = |at: usize| e.arg(lookup.path + at);
        let (a, b) = match lookup.kind {
            K::Statx => (bits(e.arg(2)) & 0x7900, mask(e.arg(3))),
            K::Access => (bits(last(1)) & 7, 0),
            K::Mkdir | K::Chmod => (integer(last(1)).unwrap_or(0) & i64::from(limits::MODE), 0),
            K::Truncate => (integer(last(1)).unwrap_or(0), 0),
            K::Chown | K::Utimens if !lookup.follows => (0x100, 0),
            K::Getxattr | K::Lgetxattr => (integer(last(3)).unwrap_or(0), 0),
            K::Setxattr | K::Lsetxattr => (integer(last(3)).unwrap_or(0), bits(last(4)) & 3),
            K::Listxattr | K::Llistxattr => (integer(last(2)).unwrap_or(0), 0),
            _ => (0, 0),
        };
        if matches!(lookup.kind, K::Chmod | K::Mkdir)
            && integer(last(1)).is_some_and(|m| m & 0o6000 != 0)
        {
            self.leave("set-user-ID and set-group-ID bits");
        }
        if lookup.kind == K::Chown {
            self.leave("owners: chown is replayed without a change");
        }
        let exclusive =
            outcome >= 0 && matches!(lookup.kind, K::Mkdir | K::Unlink | K::Rmdir | K::Truncate);
        let mut shared = self.of_name(
            &place.path,
            if exclusive {
                Use::Exclusive
            } else {
                Use::Reads
            },
        );
        if lookup.kind == K::Rmdir {
            shared.push((Shared::Entries(self.path(&place.path)), Use::Exclusive));
        }
        let mut call = Call {
            dir: place.dir,
            path: Some(self.name(&place.name)),
            a: a.clamp(
                0,
                if lookup.kind.is_xattr() {
                    64 << 10
                } else {
                    i64::MAX
                },
            ),
            b,
            outcome: outcome.min(0),
            ..Call::new(lookup.kind)
        };
        if lookup.kind.is_xattr() {
            if !self.attribute(e.arg(1), lookup.kind, &mut call) {
                return Ok(());
            }
            if call.dir.take().is_some() {
                let relative = below(&self.root, &place.path).unwrap_or(b".").to_vec();
                call.path = Some(self.name(&relative));
            }
        }
        self.emit(id, call, &shared)
    }

    /// Sets the name of an attribute. Whether it is replayed: no attribute but a user's is set.
    pub(super) fn attribute(&mut self, text: &str, kind: CallKind, call: &mut Call) -> bool {
        if kind.shape().path2 {
            let name = quoted(text).unwrap_or_default();
            let sets = !kind.id().contains("getxattr");
            if name.is_empty() || name.contains(&b'/') || sets && !name.starts_with(b"user.") {
                self.leave("attributes that are not a user's");
                return false;
            }
            call.path2 = Some(self.attribute_name(&name));
        }
        true
    }

    fn lookup_seen(&mut self, path: &[u8], e: &Ended<'_>, lookup: &Lookup, outcome: i64) {
        use CallKind as K;
        let Some(inferred) = &mut self.inferred else {
            return;
        };
        match (lookup.kind, outcome) {
            (K::Mkdir, 0) | (_, ENOENT) => inferred.absent(path),
            (K::Mkdir, EEXIST) => inferred.found(path, None),
            (K::Rmdir, 0) => inferred.found(path, Some(EntryKind::Directory)),
            (K::Readlink, 0..) => {
                inferred.leads(path, quoted(e.arg(lookup.path + 1)).unwrap_or_default());
            }
            (K::Truncate, 0) => {
                inferred.found(path, Some(EntryKind::File));
                inferred.writes(path);
            }
            (_, 0..) => {
                let (kind, size) = observed(e);
                inferred.found(path, kind);
                inferred.reaches(
                    path,
                    if kind == Some(EntryKind::File) {
                        size
                    } else {
                        0
                    },
                );
            }
            _ => {}
        }
    }

    /// A lookup without a name: of an open file.
    fn looks_at_open(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        kind: CallKind,
        base: &str,
        outcome: i64,
    ) -> Result<(), String> {
        use CallKind as K;
        let Some(own) = descriptor(base).and_then(|number| self.opened(id, number)) else {
            return Ok(());
        };
        let kind = match kind {
            K::Stat | K::Lstat => K::Fstat,
            K::Statx => K::Statx,
            K::Utimens => K::Futimens,
            K::Chown => K::Fchown,
            K::Chmod => K::Fchmod,
            _ => {
                self.leave("lookups of an open file without a name");
                return Ok(());
            }
        };
        self.size_seen(own.file, e);
        let (a, b) = match kind {
            K::Statx => (bits(e.arg(2)) & 0x7900, mask(e.arg(3))),
            K::Fchmod => (integer(e.arg(2)).unwrap_or(0) & i64::from(limits::MODE), 0),
            _ => (0, 0),
        };
        let call = Call {
            file: Some(own.file),
            a,
            b,
            outcome: outcome.min(0),
            ..Call::new(kind)
        };
        let shared = self.of_file(own.file, !matches!(kind, K::Fstat | K::Statx), false);
        self.emit(id, call, &shared)
    }

    /// Learns from what a stat of an open file showed.
    pub(super) fn size_seen(&mut self, file: u32, e: &Ended<'_>) {
        let path = self.file_paths[file as usize].clone();
        if let (Some(inferred), Some(path)) = (&mut self.inferred, path) {
            let (kind, size) = observed(e);
            if kind.is_some() {
                inferred.found(&path, kind);
            }
            if kind == Some(EntryKind::File) {
                inferred.reaches(&path, size);
            }
        }
    }

    fn of_two_names(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        let at = e.name.contains("at");
        let (from, to) = if at { (1, 3) } else { (0, 1) };
        let base = |of: usize| at.then(|| e.arg(of));
        let flags = if e.args.len() > 4 { bits(e.arg(4)) } else { 0 };
        let renames = e.name.starts_with("rename");
        let opened = quoted(e.arg(from))
            .and_then(|name| self.magic(id, &name))
            .or_else(|| {
                let named = quoted(e.arg(from)).is_some_and(|name| !name.is_empty());
                let number = (!named && at).then(|| descriptor(e.arg(0))).flatten()?;
                self.opened(id, number).map(|own| own.file)
            });
        let Some(target) = self.place(id, base(2), e.arg(to), false) else {
            if self.place(id, base(0), e.arg(from), false).is_some() {
                self.leave("names that were moved out of the tree");
            }
            return Ok(());
        };
        let how = if outcome >= 0 {
            Use::Exclusive
        } else {
            Use::Reads
        };
        if let (Some(file), false) = (opened, renames) {
            let mut shared = self.of_name(&target.path, how);
            shared.extend(self.of_file(file, true, false));
            if let Some(inferred) = &mut self.inferred {
                inferred.absent(&target.path);
            }
            let call = Call {
                file: Some(file),
                dir: target.dir,
                path: Some(self.name(&target.name)),
                outcome: outcome.min(0),
                ..Call::new(CallKind::LinkFile)
            };
            return self.emit(id, call, &shared);
        }
        let Some(source) = self.place(id, base(0), e.arg(from), false) else {
            self.leave("names that were moved into the tree");
            return Ok(());
        };
        let mut shared = self.of_name(&source.path, how);
        for (what, how) in self.of_name(&target.path, how) {
            if !shared.iter().any(|(known, _)| *known == what) {
                shared.push((what, how));
            }
        }
        let kind = if renames {
            CallKind::Rename
        } else {
            CallKind::Link
        };
        let call = Call {
            dir: source.dir,
            path: Some(self.name(&source.name)),
            dir2: target.dir,
            path2: Some(self.name(&target.name)),
            a: flags & if renames { 3 } else { 0x400 },
            outcome: outcome.min(0),
            ..Call::new(kind)
        };
        self.emit(id, call, &shared)?;
        if outcome >= 0 {
            self.moved(&source.path, &target.path, renames, flags == 2);
        }
        Ok(())
    }

    /// A name is now another: open files have it, and links that are followed here.
    fn moved(&mut self, from: &[u8], to: &[u8], renames: bool, exchanges: bool) {
        if let Some(inferred) = &mut self.inferred {
            if renames && !exchanges {
                inferred.renamed(from, to);
            } else {
                inferred.found(from, None);
                inferred.absent(to);
            }
        }
        if !renames {
            return;
        }
        let other = |path: &[u8], from: &[u8], to: &[u8]| {
            let rest = path.strip_prefix(from)?;
            (rest.is_empty() || rest.starts_with(b"/")).then(|| [to, rest].concat())
        };
        for path in self.file_paths.iter_mut().flatten() {
            if let Some(new) = other(path, from, to) {
                *path = new;
            } else if exchanges && let Some(new) = other(path, to, from) {
                *path = new;
            }
        }
        let links = std::mem::take(&mut self.links.0);
        let moved = links.into_iter().map(|(path, target)| {
            let new = other(&path, from, to);
            (new.unwrap_or(path), target)
        });
        self.links.0 = moved.collect();
    }

    fn symlinks(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        let (base, at) = if e.name == "symlinkat" {
            (Some(e.arg(1)), 2)
        } else {
            (None, 1)
        };
        let Some(place) = self.place(id, base, e.arg(at), false) else {
            return Ok(());
        };
        if let Some(inferred) = &mut self.inferred {
            match outcome {
                EEXIST => inferred.found(&place.path, None),
                _ => inferred.absent(&place.path),
            }
        }
        let target = quoted(e.arg(0)).unwrap_or_default();
        let safe = if outcome >= 0 {
            let (safe, other) = self.links.add(place.path.clone(), &target);
            if other {
                self.leave("symbolic links that lead up, and were followed while recording");
            }
            safe
        } else {
            super::paths::safe_target(&target)
        };
        let how = if outcome >= 0 {
            Use::Exclusive
        } else {
            Use::Reads
        };
        let shared = self.of_name(&place.path, how);
        let call = Call {
            dir: place.dir,
            path: Some(self.name(&place.name)),
            path2: Some(self.name(&safe)),
            outcome: outcome.min(0),
            ..Call::new(CallKind::Symlink)
        };
        self.emit(id, call, &shared)
    }
}

/// The value of a field: `flags=O_RDONLY` in `{flags=O_RDONLY, mode=0}`.
fn field<'a>(text: &'a str, key: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(key) else {
        return "";
    };
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    rest[..end].trim()
}

/// The mask of statx(2).
fn mask(text: &str) -> i64 {
    match bits(text) & 0xffff {
        0 => 0x7ff,
        mask => mask,
    }
}

/// Kind and size of a file, as strace shows what stat(2) found.
fn observed(e: &Ended<'_>) -> (Option<EntryKind>, u64) {
    let mut shown = e.args.iter().filter(|arg| arg.contains("S_IF"));
    let Some(shown) = shown.next() else {
        return (None, 0);
    };
    let kind = if shown.contains("S_IFDIR") {
        EntryKind::Directory
    } else if shown.contains("S_IFREG") {
        EntryKind::File
    } else if shown.contains("S_IFLNK") {
        EntryKind::Link
    } else {
        return (None, 0);
    };
    let size = integer(field(shown, "st_size=")).or_else(|| integer(field(shown, "stx_size=")));
    (Some(kind), size.unwrap_or(0).max(0) as u64)
}
