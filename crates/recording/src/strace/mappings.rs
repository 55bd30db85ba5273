//! Mappings of files, and page faults on them, as calls.

use std::rc::Rc;

use super::{
    faults::{Fault, MAPPINGS, Mapped},
    lex::Ended,
    number::integer,
    paths::below,
    sequence::{Descriptor, Sequence},
};
use crate::{Call, CallKind, limits};

impl Sequence {
    /// `mmap(2)`, which returned this address.
    pub(super) fn maps(&mut self, id: u32, e: &Ended<'_>, address: i64) -> Result<(), String> {
        let [length, from] = [1, 5].map(|at| integer(e.arg(at)).unwrap_or(0));
        // What was there before is replaced.
        self.unmaps(id, address, length)?;
        let Some(file) = self.behind(id, e.arg(4)) else {
            return Ok(());
        };
        let is_written = e.arg(3).contains("MAP_SHARED") && e.arg(2).contains("PROT_WRITE");
        if is_written {
            self.leave("shared mappings that may be written: what is written through them");
        }
        if self.faults.is_none() {
            if !is_written {
                self.leave(MAPPINGS);
            }
            return Ok(());
        }
        if address <= 0 {
            return Ok(());
        }
        let inodes = self.inodes_of(file);
        if inodes.is_empty() {
            self.leave("mappings of files that were made and removed meanwhile, or renamed twice");
            return Ok(());
        }
        if self.mapped.len() >= limits::MAPPED && !self.mapped.contains_key(&file) {
            self.leave("mappings of more than 256 files at once");
            return Ok(());
        }
        let mapping = Descriptor {
            file,
            closed_by_exec: true,
            is_mapping: true,
        };
        self.open(id, -address, mapping);
        let end = from.saturating_add(length);
        if let Some(mapped) = self.mapped.get(&file) {
            let own = &mut self.calls[mapped.call].a;
            *own = within(end.max(*own));
            return Ok(());
        }
        let call = Call {
            file: Some(file),
            a: within(end),
            ..Call::new(CallKind::Map)
        };
        let number = self.calls.len();
        let shared = self.of_file(file, true, false);
        self.emit(id, call, &shared)?;
        self.mapped.insert(
            file,
            Mapped {
                call: number,
                inodes,
            },
        );
        Ok(())
    }

    /// Inode numbers of the name that an open file has now.
    fn inodes_of(&self, file: u32) -> Vec<u64> {
        let path = self.file_paths[file as usize].as_deref();
        let real = path.map(|path| self.links.real(path, true));
        let name = real.as_deref().and_then(|path| below(&self.root, path));
        let known = self.faults.as_ref().zip(name);
        known.map_or_else(Vec::new, |(faults, name)| faults.inodes(name))
    }

    /// Ends the mappings that begin here, also if only their first pages are unmapped.
    pub(super) fn unmaps(&mut self, id: u32, address: i64, length: i64) -> Result<(), String> {
        if self.faults.is_none() || address <= 0 || length <= 0 {
            return Ok(());
        }
        let first = 1 - address.saturating_add(length);
        if first > -address {
            return Ok(());
        }
        let range = first..=-address;
        let table = Rc::clone(&self.task(id).table);
        let ended: Vec<i64> = table.borrow().range(range).map(|(at, _)| *at).collect();
        ended.into_iter().try_for_each(|at| self.close(id, at))
    }

    /// `mremap(2)`, which returned this address.
    pub(super) fn remaps(&mut self, id: u32, e: &Ended<'_>, address: i64) -> Result<(), String> {
        let [old, before, after] = [0, 1, 2].map(|at| integer(e.arg(at)).unwrap_or(0));
        if old <= 0 || address <= 0 {
            return Ok(());
        }
        let table = Rc::clone(&self.task(id).table);
        let moved = table.borrow_mut().remove(&-old);
        let Some(moved) = moved else { return Ok(()) };
        // What was there before is replaced.
        self.unmaps(id, address, after)?;
        table.borrow_mut().insert(-address, moved);
        if before == 0 {
            // It is there twice.
            self.open(id, -old, moved);
        }
        if let Some(mapped) = self.mapped.get(&moved.file) {
            let own = &mut self.calls[mapped.call].a;
            let more = after.saturating_sub(before).max(0);
            *own = within(own.saturating_add(more));
        }
        Ok(())
    }

    /// Page faults of all tasks up to this time become calls.
    pub fn faults_until(&mut self, at: u64) -> Result<(), String> {
        while let Some(fault) = self.faults.as_mut().and_then(|faults| faults.next(at)) {
            let Some(file) = self.file_at(&fault) else {
                self.leave("page faults on files without a known mapping, such as programs");
                continue;
            };
            self.gaps.faults(fault.task, fault.at);
            let call = Call {
                file: Some(file),
                a: fault.offset.cast_signed(),
                ..Call::new(CallKind::Touch)
            };
            let shared = self.of_file(file, false, false);
            self.emit(fault.task, call, &shared)?;
        }
        Ok(())
    }

    /// The open file through whose mapping a task has this fault: the last one, if there are several.
    fn file_at(&self, fault: &Fault) -> Option<u32> {
        let table = self.live.get(&fault.task)?.table.borrow();
        let fits = |(_, mapped): &(&u32, &Mapped)| {
            let length = self.calls[mapped.call].a.cast_unsigned();
            mapped.inodes.contains(&fault.inode) && fault.offset < length
        };
        let mut fit: Vec<u32> = self.mapped.iter().filter(fits).map(|(f, _)| *f).collect();
        fit.sort_unstable();
        // A program may have thousands of mappings, mostly of the same few files.
        let maps = |file: &u32| table.range(..0).any(|(_, mapping)| mapping.file == *file);
        fit.into_iter().rev().find(maps)
    }
}

/// A length that a replay maps.
fn within(length: i64) -> i64 {
    length.clamp(1, limits::WRITTEN.cast_signed())
}
