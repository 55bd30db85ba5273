//! The tree that a program found, from its calls: what it found before it made it.

use std::collections::BTreeMap;

use super::paths::below;
use crate::{Entry, EntryKind, Name};

/// What was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Before {
    Nothing,
    Something {
        kind: Option<EntryKind>,
        size: u64,
        target: Vec<u8>,
    },
}

/// What the calls so far show. Paths are absolute, as they were before the program renamed anything.
#[derive(Debug, Default)]
pub struct Inferred {
    before: BTreeMap<Vec<u8>, Before>,
    /// Files that the program has written to: what is read from them may not have been there.
    written: std::collections::BTreeSet<Vec<u8>>,
    renames: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Inferred {
    /// The path that a file had at the start.
    fn original(&self, path: &[u8]) -> Vec<u8> {
        let mut path = path.to_vec();
        for (from, to) in self.renames.iter().rev() {
            if let Some(rest) = path.strip_prefix(to.as_slice())
                && (rest.is_empty() || rest.starts_with(b"/"))
            {
                path = [from, rest].concat();
            }
        }
        path
    }

    /// It is there.
    pub fn found(&mut self, path: &[u8], kind: Option<EntryKind>) {
        let path = self.original(path);
        let new = Before::Something {
            kind,
            size: 0,
            target: Vec::new(),
        };
        let known = self.before.entry(path).or_insert(new);
        if let Before::Something { kind: own, .. } = known
            && own.is_none()
        {
            *own = kind;
        }
    }

    /// It was made now, or is not there.
    pub fn absent(&mut self, path: &[u8]) {
        let path = self.original(path);
        self.before.entry(path).or_insert(Before::Nothing);
    }

    /// A link leads there.
    pub fn leads(&mut self, path: &[u8], to: Vec<u8>) {
        self.found(path, Some(EntryKind::Link));
        let path = self.original(path);
        if let Some(Before::Something { target, .. }) = self.before.get_mut(&path) {
            *target = to;
        }
    }

    /// A file has at least these bytes.
    pub fn reaches(&mut self, path: &[u8], end: u64) {
        let path = self.original(path);
        if self.written.contains(&path) {
            return;
        }
        if let Some(Before::Something { size, .. }) = self.before.get_mut(&path) {
            *size = end.max(*size);
        }
    }

    /// The program changes the data of a file.
    pub fn writes(&mut self, path: &[u8]) {
        let path = self.original(path);
        self.written.insert(path);
    }

    /// A name is now another one.
    pub fn renamed(&mut self, from: &[u8], to: &[u8]) {
        self.found(from, None);
        self.absent(to);
        self.renames.push((from.to_vec(), to.to_vec()));
    }

    /// The entries below `root`, with the directories that they need.
    pub fn tree(self, root: &[u8]) -> Vec<Entry> {
        let mut all: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        let mut parents = Vec::new();
        for (path, before) in self.before {
            let Before::Something { kind, size, target } = before else {
                continue;
            };
            let Some(name) = below(root, &path).filter(|name| *name != b".") else {
                continue;
            };
            let name = Name(name.to_vec());
            let mut up = name.parent();
            while !up.is_root() {
                parents.push(up.clone());
                up = up.parent();
            }
            let entry = match kind.unwrap_or(EntryKind::File) {
                EntryKind::Directory => Entry::directory(name.clone(), 0o755),
                EntryKind::File => Entry::file(name.clone(), 0o755, size),
                EntryKind::Link => {
                    Entry::link(name.clone(), Name(super::paths::safe_target(&target)))
                }
            };
            all.insert(name.0, entry);
        }
        for parent in parents {
            let directory = Entry::directory(parent.clone(), 0o755);
            all.insert(parent.0, directory);
        }
        all.into_values().collect()
    }
}
