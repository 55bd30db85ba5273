//! Which calls of a program become calls of a recording.

use super::{
    by_path::LONGEST,
    lex::{self, Ended, descriptor, field, quoted},
    lookups::lookup,
    names::{EEXIST, ENOENT},
    number::integer,
    paths::{below, ends_in_slash, normal, plain},
    sequence::{CUT, Descriptor, Sequence, Shared, Use},
};
use crate::{Call, CallKind, EntryKind, call::open_flag, limits};

/// Errors that a name has only because of the slash at its end.
const OF_SLASH: [i64; 3] = [-20, -21, -22];

/// A name in the tree.
pub(super) struct Place {
    /// Absolute, behind links that are not replayed.
    pub path: Vec<u8>,
    /// The open directory that `name` is relative to.
    pub dir: Option<u32>,
    pub name: Vec<u8>,
}

/// The arguments of a call that opens a file.
pub(super) struct Opening<'a> {
    /// Which argument is the name. The one before it is the directory, if there is one.
    pub at: usize,
    pub flags: &'a str,
    pub mode: &'a str,
}

impl<'a> Opening<'a> {
    pub fn of(e: &Ended<'a>) -> Self {
        let at = usize::from(e.name.starts_with("openat"));
        let (flags, mode) = match e.name {
            "creat" => ("O_WRONLY|O_CREAT|O_TRUNC", e.arg(1)),
            "openat2" => (field(e.arg(2), "flags="), field(e.arg(2), "mode=")),
            _ => (e.arg(at + 1), e.arg(at + 2)),
        };
        Self { at, flags, mode }
    }
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
        let in_slash = |arg: &&str| quoted(arg).is_some_and(|name| ends_in_slash(&name));
        let may_be_of_slash = OF_SLASH.contains(&outcome) && !e.has_data();
        if may_be_of_slash && e.args.iter().any(in_slash) && self.touches(id, e) {
            // A recording has no such names: ENOTDIR, EISDIR or EINVAL would be success.
            self.leave("calls that fail because of the slash at the end of a name");
            return Ok(());
        }
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
            "bind" => self.binds(id, e, outcome),
            "mknod" | "mknodat" => {
                if self.touches(id, e) {
                    self.leave("pipes, sockets and devices that were made");
                }
                Ok(())
            }
            _ => match lookup(e) {
                Some(lookup) => self.looks_up(id, e, lookup, outcome),
                None => self.of_open_files(id, e, outcome),
            },
        }
    }

    /// Whether an argument is a file of the tree.
    pub(super) fn touches(&mut self, id: u32, e: &Ended<'_>) -> bool {
        let is_inside = |arg: &&str| self.shows_file_of_tree(arg);
        e.args.iter().any(is_inside) || self.names_file_of_tree(id, e)
    }

    /// Whether strace shows that a descriptor is a file of the tree.
    pub(super) fn shows_file_of_tree(&self, arg: &str) -> bool {
        lex::path_of(arg).is_some_and(|path| below(&self.root, &path).is_some())
    }

    /// Whether an argument in quotes is the name of a file of the tree.
    pub(super) fn names_file_of_tree(&mut self, id: u32, e: &Ended<'_>) -> bool {
        let cwd = self.task(id).cwd.clone();
        let mut names = e.args.iter().filter_map(|arg| quoted(arg));
        !e.has_data() && names.any(|name| below(&self.root, &normal(&cwd, &name)).is_some())
    }

    /// The open file of the tree behind a descriptor argument. Counts one that is not known.
    pub(super) fn behind(&mut self, id: u32, arg: &str) -> Option<u32> {
        let opened = self.opened(id, descriptor(arg)?);
        if opened.is_none() && self.shows_file_of_tree(arg) {
            self.leave("calls on files that were open before, or that another program opened");
        }
        Some(opened?.file)
    }

    /// The place of a name; `None` outside of the tree.
    pub(super) fn place(
        &mut self,
        id: u32,
        base: Option<&str>,
        text: &str,
        follows: bool,
    ) -> Option<Place> {
        if lex::is_cut(text) {
            self.leave(CUT);
        }
        let name = quoted(text).filter(|name| !name.is_empty())?;
        let follows = follows || ends_in_slash(&name);
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
        if name.len() > limits::NAME || path.len() > LONGEST {
            self.leave("names longer than Linux allows");
            return None;
        }
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
    pub(super) fn magic(&mut self, id: u32, name: &[u8]) -> Option<u32> {
        let starts = [&b"/proc/self/fd/"[..], b"/proc/thread-self/fd/"];
        let number = starts.iter().find_map(|start| name.strip_prefix(*start))?;
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(self.opened(id, number)?.file)
    }

    /// What a call with this name shares with others: the name, also behind links, the file if it has other names, and
    /// each directory above it, since that may be renamed.
    pub(super) fn of_name(&mut self, path: &[u8], how: Use) -> Vec<(Shared, Use)> {
        let mut paths = vec![path.to_vec()];
        for last in [false, true] {
            let real = self.links.real(path, last);
            if !paths.contains(&real) && below(&self.root, &real).is_some() {
                paths.push(real);
            }
        }
        let mut all = Vec::new();
        for path in &paths {
            let number = self.path(path);
            add(&mut all, Shared::Name(number), how);
            if let Some(inode) = self.hard_links.of_name(path) {
                add(&mut all, Shared::Inode(inode), how);
            }
            let above = self.above(number);
            for (at, up) in above.enumerate() {
                if at == 0 && how == Use::Exclusive {
                    add(&mut all, Shared::Entries(up), Use::Adds);
                }
                add(&mut all, Shared::Name(up), Use::Reads);
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
        let mut inode = self.hard_links.of_open(file);
        if let Some(path) = self.file_paths[file as usize].clone() {
            let real = self.links.real(&path, true);
            inode = inode.or_else(|| self.hard_links.of_name(&real));
            all.push((Shared::Name(self.path(&real)), how(changes)));
        }
        all.extend(inode.map(|inode| (Shared::Inode(inode), how(changes))));
        all
    }

    fn opens(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        let Opening { at, flags, mode } = Opening::of(e);
        let words = || flags.split('|').map(str::trim);
        let bit = |word| words().any(|own| own == word);
        let mut known: u32 = words().map(open_flag).fold(0, |all, bit| all | bit);
        if quoted(e.arg(at)).is_some_and(|name| ends_in_slash(&name)) {
            known &= !open_flag("O_NOFOLLOW");
        }
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
        if outcome >= 0 && bit("O_TMPFILE") {
            self.hard_links.opened_without_name(file);
        } else if outcome >= 0 {
            let real = self.links.real(&path, true);
            if real == path {
                self.hard_links.opened(file, &real);
            } else {
                let open = self.open_files.get(&real).into_iter().flatten();
                self.hard_links.opened_behind(file, &real, open.copied());
            }
        }
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
                    is_mapping: false,
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
}

/// Adds something that a call shares. What it uses in two ways, it uses in the exclusive one.
pub(super) fn add(all: &mut Vec<(Shared, Use)>, what: Shared, how: Use) {
    match all.iter_mut().find(|(known, _)| *known == what) {
        Some((_, known)) if how == Use::Exclusive => *known = how,
        Some(_) => {}
        None => all.push((what, how)),
    }
}
