//! Which calls of a program become calls of a recording.

use super::{
    lex::{self, Ended, descriptor, field, quoted},
    lookups::lookup,
    names::bits,
    number::integer,
    paths::{below, normal, parent, plain},
    sequence::{Descriptor, Sequence, Shared, Use},
};
use crate::{Call, CallKind, EntryKind, call::open_flag, limits};

const ENOENT: i64 = -2;
const EEXIST: i64 = -17;

/// A name in the tree.
pub(super) struct Place {
    /// Absolute, behind links that are not replayed.
    pub path: Vec<u8>,
    /// The open directory that `name` is relative to.
    pub dir: Option<u32>,
    pub name: Vec<u8>,
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
    pub(super) fn touches(&mut self, id: u32, e: &Ended<'_>) -> bool {
        let root = self.root.clone();
        let inside = |path: Vec<u8>| below(&root, &path).is_some();
        e.args.iter().any(|arg| {
            lex::path_of(arg).is_some_and(inside)
                || quoted(arg).is_some_and(|text| inside(normal(&self.task(id).cwd, &text)))
        })
    }

    /// The place of a name; `None` outside of the tree.
    pub(super) fn place(
        &mut self,
        id: u32,
        base: Option<&str>,
        text: &str,
        follows: bool,
    ) -> Option<Place> {
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
        let Some(relative) = below(&self.root, &path).map(<[u8]>::to_vec) else {
            if below(&self.root, &whole).is_some() {
                self.leave("calls through links that lead out of the tree");
            }
            return None;
        };
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
    pub(super) fn of_name(&mut self, path: &[u8], how: Use) -> Vec<(Shared, Use)> {
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
