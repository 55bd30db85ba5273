//! Descriptors of tasks, and the open files behind them.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use super::{
    by_path::LONGEST,
    sequence::{Descriptor, Sequence, Shared, Use},
};
use crate::{Call, CallKind};

impl Sequence {
    /// A new open file at an absolute path.
    pub fn file(&mut self, path: Option<Vec<u8>>) -> u32 {
        let file = self.file_paths.len() as u32;
        if let Some(path) = &path {
            self.bytes += path.len() as u64;
            self.open_files.at(path).insert(file);
        }
        self.file_paths.push(path);
        self.references.push([0; 2]);
        file
    }

    /// Open files have the names that files have after a rename.
    pub fn move_open_files(&mut self, from: &[u8], to: &[u8], exchanges: bool) {
        let (moved, replaced) = (self.open_files.take(from), self.open_files.take(to));
        self.put_open_files(to, moved);
        if exchanges {
            self.put_open_files(from, replaced);
        }
    }

    fn put_open_files(&mut self, path: &[u8], taken: Vec<(Vec<u8>, BTreeSet<u32>)>) {
        for (rest, files) in &taken {
            let new = [path, rest].concat();
            for file in files {
                let now = (new.len() <= LONGEST).then(|| new.clone());
                self.bytes += now.as_ref().map_or(0, Vec::len) as u64;
                let before = std::mem::replace(&mut self.file_paths[*file as usize], now);
                self.bytes -= before.map_or(0, |path| path.len()) as u64;
            }
        }
        self.open_files.put(path, taken);
    }

    /// Forgets the path of a file that is closed and not mapped.
    fn forget_path(&mut self, file: u32) {
        let Some(path) = self.file_paths[file as usize].take() else {
            return;
        };
        self.bytes -= path.len() as u64;
        if let Some(files) = self.open_files.get_mut(&path) {
            files.remove(&file);
            if files.is_empty() {
                self.open_files.remove(&path);
            }
        }
    }

    /// Another descriptor of an open file, or a mapping of it.
    pub fn open(&mut self, id: u32, number: i64, descriptor: Descriptor) {
        *descriptor.count(&mut self.references) += 1;
        self.task(id).table.borrow_mut().insert(number, descriptor);
    }

    /// The open file behind a descriptor.
    pub fn opened(&mut self, id: u32, number: i64) -> Option<Descriptor> {
        self.task(id).table.borrow().get(&number).copied()
    }

    /// Closes a descriptor, or ends a mapping: a call, if it was the last one of its open file.
    pub fn close(&mut self, id: u32, number: i64) -> Result<(), String> {
        let gone = self.task(id).table.borrow_mut().remove(&number);
        let Some(descriptor) = gone else {
            return Ok(());
        };
        let left = descriptor.count(&mut self.references);
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(());
        }
        let file = descriptor.file;
        let mut shared = vec![(Shared::File(file), Use::Exclusive)];
        let kind = if descriptor.is_mapping {
            self.mapped.remove(&file);
            CallKind::Unmap
        } else {
            // It releases them, and another task may wait for that.
            let locks = self.locked.remove(&file);
            shared.extend(locks.map(|path| (Shared::Locks(path), Use::Exclusive)));
            CallKind::Close
        };
        if self.references[file as usize] == [0; 2] {
            self.forget_path(file);
        }
        let call = Call {
            file: Some(file),
            ..Call::new(kind)
        };
        self.emit(id, call, &shared)
    }

    /// What a call on the locks of a file shares with others: all of them keep their order. A replay does not wait for a
    /// lock, so it must not be tried before another task has released it.
    pub fn of_locks(&mut self, file: u32) -> Option<(Shared, Use)> {
        let path = self.file_paths[file as usize].clone()?;
        let now = self.path(&path);
        let path = *self.locked.entry(file).or_insert(now);
        Some((Shared::Locks(path), Use::Exclusive))
    }

    /// Closes what exec closes.
    pub fn executes(&mut self, id: u32) -> Result<(), String> {
        // A table that is shared is copied first.
        let table = self.task(id).table.borrow().clone();
        let numbers: Vec<i64> = table
            .iter()
            .filter(|(_, d)| d.closed_by_exec)
            .map(|(n, _)| *n)
            .collect();
        if Rc::strong_count(&self.task(id).table) > 1 {
            for descriptor in table.values() {
                *descriptor.count(&mut self.references) += 1;
            }
            self.task(id).table = Rc::new(RefCell::new(table));
        }
        numbers
            .into_iter()
            .try_for_each(|number| self.close(id, number))?;
        let after = self.mark(id);
        self.task(id).executed.get_or_insert(after);
        Ok(())
    }
}
