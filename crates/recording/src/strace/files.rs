//! Calls on open files.

use super::{
    lex::{Ended, descriptor},
    names::bits,
    number::integer,
    sequence::{OWNERS, Sequence, Shared, Use},
};
use crate::{Call, CallKind, EntryKind, limits};

/// The most bytes that one call moves, `MAX_RW_COUNT` of Linux.
const MOST: i64 = 0x7fff_f000;

/// Calls with names of files that are not replayed.
const NAMED: [&str; 21] = [
    "acct",
    "chdir",
    "chroot",
    "file_getattr",
    "file_setattr",
    "fspick",
    "futimesat",
    "getxattrat",
    "listxattrat",
    "mount_setattr",
    "move_mount",
    "name_to_handle_at",
    "open_tree",
    "pivot_root",
    "quotactl",
    "removexattrat",
    "setxattrat",
    "swapoff",
    "swapon",
    "umount2",
    "uselib",
];

impl Sequence {
    /// A call whose first argument is a descriptor.
    pub(super) fn of_open_files(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        outcome: i64,
    ) -> Result<(), String> {
        match e.name {
            "mmap" | "mmap2" => return self.maps(id, e, outcome),
            "munmap" if outcome != 0 => return Ok(()),
            "munmap" => {
                let [address, length] = [0, 1].map(|at| integer(e.arg(at)).unwrap_or(0));
                return self.unmaps(id, address, length);
            }
            "mremap" => {
                return self.remaps(id, e, outcome);
            }
            // One of the ends of splice is a pipe.
            "copy_file_range" | "splice" => {
                return self.copies(id, e, (0, 1), (2, Some(3)), 4, outcome);
            }
            "sendfile" | "sendfile64" => return self.copies(id, e, (1, 2), (0, None), 3, outcome),
            _ => {}
        }
        let Some(file) = self.behind(id, e.arg(0)) else {
            if NAMED.contains(&e.name) && self.names_file_of_tree(id, e) {
                self.leave_call(e.name);
            }
            return Ok(());
        };
        match e.name {
            "read" | "write" | "pread64" | "pwrite64" | "readv" | "writev" | "preadv"
            | "pwritev" | "preadv2" | "pwritev2" => self.transfers(id, e, file, outcome),
            "getdents64" | "getdents" => self.lists(id, e, file, outcome),
            "fcntl" | "fcntl64" => self.controls(id, e, file, outcome),
            "ioctl" if e.arg(1).contains("FICLONE") => {
                let Some(source) = self
                    .behind(id, e.arg(2))
                    .filter(|_| !e.arg(1).contains("RANGE"))
                else {
                    self.leave("FICLONE of a range, or from elsewhere");
                    return Ok(());
                };
                let mut shared = self.of_file(source, false, false);
                shared.extend(self.of_file(file, false, true));
                let call = Call {
                    file: Some(source),
                    file2: Some(file),
                    outcome: outcome.min(0),
                    ..Call::new(CallKind::Clone)
                };
                self.emit(id, call, &shared)
            }
            "ioctl" if !e.arg(1).starts_with("TCGETS") => {
                self.leave("ioctl other than FICLONE and TCGETS");
                Ok(())
            }
            "epoll_ctl" => Ok(()),
            _ => self.simple(id, e, file, outcome),
        }
    }

    /// Calls that need no more than numbers.
    fn simple(&mut self, id: u32, e: &Ended<'_>, file: u32, outcome: i64) -> Result<(), String> {
        use CallKind as K;
        let number = |at: usize| integer(e.arg(at)).unwrap_or(0);
        // Kind, numbers, whether it moves the offset or a lock, whether it changes data.
        let (kind, numbers, moves, changes) = match e.name {
            "lseek" => (K::Seek, [number(1), bits(e.arg(2)), 0], true, false),
            "_llseek" => (K::Seek, [number(1), bits(e.arg(3)), 0], true, false),
            "fstat" | "fstat64" => (K::Fstat, [0; 3], false, false),
            "fchmod" => (K::Fchmod, [self.mode(e.arg(1)), 0, 0], true, false),
            "fchown" => (K::Fchown, [0; 3], true, false),
            "ftruncate" | "ftruncate64" => (K::Ftruncate, [number(1), 0, 0], false, true),
            "fallocate" => (
                K::Fallocate,
                [bits(e.arg(1)), number(2), number(3)],
                false,
                true,
            ),
            "fsync" => (K::Fsync, [0; 3], true, false),
            "fdatasync" => (K::Fdatasync, [0; 3], true, false),
            "sync_file_range" => (
                K::SyncRange,
                [number(1), number(2), bits(e.arg(3)) & 7],
                true,
                false,
            ),
            "fadvise64" | "fadvise64_64" | "posix_fadvise" => (
                K::Fadvise,
                [number(1), number(2), bits(e.arg(3))],
                true,
                false,
            ),
            "ioctl" => (K::IsTerminal, [0; 3], false, false),
            "fstatfs" | "fstatfs64" => (K::Fstatfs, [0; 3], false, false),
            // Waiting for a lock is waiting for the task that has it: see `of_locks`.
            "flock" => (K::Flock, [bits(e.arg(1)) & 0xb | 4, 0, 0], true, false),
            "fgetxattr" => (K::Fgetxattr, [number(3), 0, 0], false, false),
            "fsetxattr" => (
                K::Fsetxattr,
                [number(3), bits(e.arg(4)) & 3, 0],
                true,
                false,
            ),
            "flistxattr" => (K::Flistxattr, [number(2), 0, 0], false, false),
            "fremovexattr" => (K::Fremovexattr, [0; 3], true, false),
            "fchdir" | "fsetpos" => return Ok(()),
            other => {
                self.leave_call(other);
                return Ok(());
            }
        };
        if self.is_refused_to_user(kind, outcome) {
            return Ok(());
        }
        if kind == K::Fchown {
            self.leave(OWNERS);
        }
        if kind == K::Fstat {
            self.size_seen(file, e);
        }
        if kind == K::Seek && outcome >= 0 {
            // `_llseek` shows it as `[4096]`.
            let shown = integer(e.arg(2).trim_matches(['[', ']']));
            let at = shown.filter(|_| e.name == "_llseek").unwrap_or(outcome);
            self.offsets.insert(file, at as u64);
        }
        if changes {
            self.changes_data(file);
        }
        let mut call = Call {
            file: Some(file),
            a: numbers[0],
            b: numbers[1],
            c: numbers[2],
            outcome: outcome.min(0),
            ..Call::new(kind)
        };
        if kind.is_xattr() {
            call.a = call.a.clamp(0, 64 << 10);
            let path = self.file_paths[file as usize].clone();
            if !self.attribute(path.as_deref(), e.arg(1), outcome, &mut call) {
                return Ok(());
            }
        }
        let mut shared = self.of_file(file, moves, changes);
        if kind == K::Flock {
            shared.extend(self.of_locks(file));
        }
        self.emit(id, call, &shared)
    }

    fn changes_data(&mut self, file: u32) {
        let path = self.file_paths[file as usize].clone();
        if let (Some(inferred), Some(path)) = (&mut self.inferred, path) {
            inferred.writes(&path);
        }
    }

    /// Reads and writes. Those of more than the largest call become several.
    fn transfers(&mut self, id: u32, e: &Ended<'_>, file: u32, outcome: i64) -> Result<(), String> {
        use CallKind as K;
        let writes = e.name.contains("write");
        let vector = e.name.contains('v');
        let offset = integer(e.arg(3))
            .filter(|_| e.name.starts_with('p'))
            .filter(|at| *at >= 0);
        let kind = match (writes, offset) {
            (true, Some(_)) => K::Pwrite,
            (true, None) => K::Write,
            (false, Some(_)) => K::Pread,
            (false, None) => K::Read,
        };
        let asked = if vector {
            outcome.max(0)
        } else {
            integer(e.arg(2)).unwrap_or(0).max(0)
        };
        if outcome > MOST {
            self.leave("calls that move more than Linux allows");
            return Ok(());
        }
        if e.args.iter().skip(4).any(|arg| arg.contains("RWF_")) {
            self.leave("RWF_ flags of preadv2 and pwritev2: replayed without them");
        }
        self.moves(id, kind, file, asked, offset, outcome)
    }

    /// A read or write, in parts that a replay can do at once.
    fn moves(
        &mut self,
        id: u32,
        kind: CallKind,
        file: u32,
        asked: i64,
        offset: Option<i64>,
        outcome: i64,
    ) -> Result<(), String> {
        let most = limits::CALL_BYTES.cast_signed();
        let writes = matches!(kind, CallKind::Write | CallKind::Pwrite);
        if outcome > most {
            self.leave("calls of more than 16 MiB: replayed in several");
        }
        if writes {
            self.changes_data(file);
        } else if outcome > 0 {
            self.reads_up_to(file, offset, outcome as u64);
        }
        let mut done = 0;
        loop {
            let part = (outcome - done).min(most);
            let call = Call {
                file: Some(file),
                a: if outcome > most {
                    part
                } else {
                    asked.min(most).max(part)
                },
                b: offset.map_or(0, |at| at.saturating_add(done)),
                outcome: part,
                ..Call::new(kind)
            };
            let shared = self.of_file(file, offset.is_none(), writes);
            self.emit(id, call, &shared)?;
            done += part.max(0);
            if done >= outcome {
                return Ok(());
            }
        }
    }

    fn reads_up_to(&mut self, file: u32, offset: Option<i64>, bytes: u64) {
        let path = self.file_paths[file as usize].clone();
        let (Some(inferred), Some(path)) = (&mut self.inferred, path) else {
            return;
        };
        let end = if let Some(at) = offset {
            (at as u64).saturating_add(bytes)
        } else {
            let at = self.offsets.entry(file).or_default();
            *at = at.saturating_add(bytes);
            *at
        };
        inferred.reaches(&path, end);
    }

    /// The entries of a directory, which are read to their end at once: how many calls that takes depends on the layer.
    fn lists(&mut self, id: u32, e: &Ended<'_>, file: u32, outcome: i64) -> Result<(), String> {
        if self
            .listed
            .insert(file, outcome)
            .is_some_and(|before| before > 0)
        {
            return Ok(());
        }
        let path = self.file_paths[file as usize].clone();
        if let (Some(inferred), Some(path)) = (&mut self.inferred, &path) {
            inferred.found(path, Some(EntryKind::Directory));
        }
        let mut shared = self.of_file(file, true, false);
        if let Some(path) = path {
            shared.push((Shared::Entries(self.path(&path)), Use::Reads));
        }
        let call = Call {
            file: Some(file),
            a: integer(e.arg(2))
                .unwrap_or(32 << 10)
                .clamp(1 << 10, 1 << 20),
            outcome: outcome.min(0),
            ..Call::new(CallKind::List)
        };
        self.emit(id, call, &shared)
    }

    fn controls(&mut self, id: u32, e: &Ended<'_>, file: u32, outcome: i64) -> Result<(), String> {
        let command = e.arg(1);
        if command.contains("SETFD") {
            if let Some(number) = descriptor(e.arg(0))
                && let Some(own) = self.task(id).table.borrow_mut().get_mut(&number)
            {
                own.closed_by_exec = e.arg(2).contains("CLOEXEC");
            }
        } else if command.contains("SETLK") {
            let lock = e.arg(2);
            let value = |key: &str| {
                let (_, rest) = lock.split_once(key)?;
                rest.split([',', '}']).next().map(str::trim)
            };
            let number = |key: &str| value(key).and_then(integer).unwrap_or(0);
            if value("l_whence=") != Some("SEEK_SET") {
                self.leave("locks relative to the offset");
                return Ok(());
            }
            let call = Call {
                file: Some(file),
                a: value("l_type=").map_or(2, bits) & 3,
                b: number("l_start="),
                c: number("l_len="),
                outcome: outcome.min(0),
                ..Call::new(CallKind::Lock)
            };
            let mut shared = self.of_file(file, true, false);
            shared.extend(self.of_locks(file));
            self.emit(id, call, &shared)?;
        } else if command.contains("GETLK") {
            self.leave("fcntl F_GETLK");
        }
        Ok(())
    }

    /// `copy_file_range(2)`, `sendfile(2)` and `splice(2)`: which arguments are the descriptors and offsets of source
    /// and target, and the size.
    fn copies(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        (from, from_at): (usize, usize),
        (to, to_at): (usize, Option<usize>),
        size: usize,
        outcome: i64,
    ) -> Result<(), String> {
        let (source, target) = (self.behind(id, e.arg(from)), self.behind(id, e.arg(to)));
        // `[0] => [4096]`: before and after it.
        let at = |of: usize| {
            let before = e.arg(of).split(" =>").next().unwrap_or_default();
            integer(before.trim_matches(['[', ']'])).filter(|at| *at >= 0)
        };
        let (b, c) = (at(from_at), to_at.and_then(at));
        let (Some(source), Some(target)) = (source, target) else {
            use CallKind as K;
            let (file, kind, offset) = match (source, target) {
                (Some(file), _) if b.is_some() => (file, K::Pread, b),
                (Some(file), _) => (file, K::Read, None),
                (_, Some(file)) if c.is_some() => (file, K::Pwrite, c),
                (_, Some(file)) => (file, K::Write, None),
                _ => return Ok(()),
            };
            self.leave(
                "copies to and from elsewhere, such as a socket: replayed as reads and writes",
            );
            // That it failed may be due to the other side.
            if (0..=MOST).contains(&outcome) {
                self.moves(id, kind, file, outcome, offset, outcome)?;
            }
            return Ok(());
        };
        self.changes_data(target);
        if outcome > 0 {
            self.reads_up_to(source, b, outcome as u64);
        }
        let mut shared = self.of_file(source, b.is_none(), false);
        shared.extend(self.of_file(target, c.is_none(), true));
        // Programs often request "all": (size_t) -1, or 2 GiB. A copy to the end requests a page more.
        let asked = integer(e.arg(size)).unwrap_or(0);
        let most = outcome.max(0).saturating_add(1 << 12);
        let call = Call {
            file: Some(source),
            file2: Some(target),
            a: if (0..most).contains(&asked) {
                asked
            } else {
                most
            },
            b: b.unwrap_or(-1),
            c: c.unwrap_or(-1),
            outcome,
            ..Call::new(if e.name == "copy_file_range" {
                CallKind::CopyRange
            } else {
                CallKind::SendFile
            })
        };
        self.emit(id, call, &shared)
    }
}
