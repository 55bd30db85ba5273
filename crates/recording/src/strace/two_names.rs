//! Calls with two names, and those that make links.

use super::{
    calls::{Place, add},
    lex::{Ended, descriptor, quoted},
    names::{EEXIST, bits},
    sequence::{CUT, Sequence, Use},
};
use crate::{Call, CallKind};

/// The arguments of a call that renames or links.
pub(super) struct TwoNames {
    /// Whether the argument before each name is its directory.
    pub at: bool,
    pub from: usize,
    pub to: usize,
    pub flags: i64,
    pub renames: bool,
}

impl TwoNames {
    pub fn of(e: &Ended<'_>) -> Self {
        let at = e.name.contains("at");
        let (from, to) = if at { (1, 3) } else { (0, 1) };
        Self {
            at,
            from,
            to,
            flags: if e.args.len() > 4 { bits(e.arg(4)) } else { 0 },
            renames: e.name.starts_with("rename"),
        }
    }
}

/// Which arguments of a call that makes a symbolic link are the directory and the name.
pub(super) fn symlink_at(e: &Ended<'_>) -> (Option<usize>, usize) {
    if e.name == "symlinkat" {
        (Some(1), 2)
    } else {
        (None, 1)
    }
}

impl Sequence {
    pub(super) fn of_two_names(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        outcome: i64,
    ) -> Result<(), String> {
        let TwoNames {
            at,
            from,
            to,
            flags,
            renames,
        } = TwoNames::of(e);
        let base = |of: usize| at.then(|| e.arg(of));
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
            self.emit(id, call, &shared)?;
            if outcome >= 0 {
                self.linked_open(file, &target.path);
            }
            return Ok(());
        }
        let Some(source) = self.place(id, base(0), e.arg(from), false) else {
            self.leave("names that were moved into the tree");
            return Ok(());
        };
        let mut shared = self.of_name(&source.path, how);
        for (what, how) in self.of_name(&target.path, how) {
            add(&mut shared, what, how);
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
        if outcome >= 0 && renames {
            self.moved(&source.path, &target.path, flags == 2);
        } else if outcome >= 0 {
            self.linked(&source.path, &target.path, flags & 0x400 != 0);
        }
        Ok(())
    }

    /// A file has another name.
    fn linked(&mut self, from: &[u8], to: &[u8], follows: bool) {
        if let Some(inferred) = &mut self.inferred {
            inferred.found(from, None);
            inferred.absent(to);
        }
        let (from, to) = (self.links.real(from, follows), self.links.real(to, false));
        let open = self.open_files.get(&from).into_iter().flatten();
        self.hard_links.linked(&from, open.copied(), to);
    }

    /// An open file has this name, too.
    fn linked_open(&mut self, file: u32, to: &[u8]) {
        let to = self.links.real(to, false);
        let from = self.file_paths[file as usize].clone();
        if !self.hard_links.linked_open(file, &to)
            && let Some(from) = from
        {
            let from = self.links.real(&from, true);
            self.hard_links.linked(&from, std::iter::once(file), to);
        }
    }

    /// A name is now another: open files have it, links that are followed here, and attributes.
    fn moved(&mut self, from: &[u8], to: &[u8], exchanges: bool) {
        let (real_from, real_to) = (self.links.real(from, false), self.links.real(to, false));
        // Two names of one file: nothing is done.
        if self.hard_links.are_one(&real_from, &real_to) {
            return;
        }
        match &mut self.inferred {
            Some(inferred) if exchanges => inferred.exchanged(from, to),
            Some(inferred) => inferred.renamed(from, to),
            None => {}
        }
        if from != to {
            self.move_open_files(from, to, exchanges);
            self.links.renamed(from, to, exchanges);
            self.attributes.renamed(from, to, exchanges);
            self.hard_links.renamed(&real_from, &real_to, exchanges);
        }
    }

    pub(super) fn symlinks(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        let (base, at) = symlink_at(e);
        let base = base.map(|base| e.arg(base));
        let Some(place) = self.place(id, base, e.arg(at), false) else {
            return Ok(());
        };
        if let Some(inferred) = &mut self.inferred {
            match outcome {
                EEXIST => inferred.found(&place.path, None),
                _ => inferred.absent(&place.path),
            }
        }
        let Some(target) = quoted(e.arg(0)) else {
            self.leave(CUT);
            return Ok(());
        };
        let safe = if outcome >= 0 {
            let (safe, other) = self.links.add(place.path.clone(), &target);
            if other {
                self.leave("symbolic links that lead up, and were followed while recording");
            }
            safe
        } else {
            super::paths::safe_target(&target)
        };
        let call = Call {
            path2: Some(self.name(&safe)),
            outcome: outcome.min(0),
            ..Call::new(CallKind::Symlink)
        };
        self.makes(id, &place, call)
    }

    /// A call that makes a name, and that has this place.
    pub(super) fn makes(&mut self, id: u32, place: &Place, call: Call) -> Result<(), String> {
        let how = if call.outcome == 0 {
            Use::Exclusive
        } else {
            Use::Reads
        };
        let shared = self.of_name(&place.path, how);
        let call = Call {
            dir: place.dir,
            path: Some(self.name(&place.name)),
            ..call
        };
        self.emit(id, call, &shared)
    }
}
