//! The tree that a program found, from its calls: what it found before it made it.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use super::{
    by_path::{ByPath, LONGEST},
    paths::below,
};
use crate::{Entry, EntryKind, Name, limits};

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

impl Before {
    fn something(kind: Option<EntryKind>) -> Self {
        Self::Something {
            kind,
            size: 0,
            target: Vec::new(),
        }
    }
}

/// What the calls so far show. Paths are absolute, as they were before the program renamed anything.
#[derive(Debug, Default)]
pub struct Inferred {
    before: BTreeMap<Rc<[u8]>, Before>,
    /// Files that the program has written to: what is read from them may not have been there.
    written: BTreeSet<Vec<u8>>,
    /// Paths at the start of what was renamed: those of `before`.
    renamed: ByPath<Rc<[u8]>>,
    /// Bytes of the paths in `before` and `written`, however many calls have them.
    bytes: u64,
}

impl Inferred {
    /// The path that a file had at the start.
    fn original(&self, path: &[u8]) -> Vec<u8> {
        if self.renamed.is_empty() {
            return path.to_vec();
        }
        let ends = (1..=path.len()).rev();
        let mut ends = ends.filter(|end| *end == path.len() || path[*end] == b'/');
        let first =
            ends.find_map(|end| Some([&**self.renamed.get(&path[..end])?, &path[end..]].concat()));
        // Renames that are impossible make it longer and longer.
        first
            .filter(|first| first.len() <= LONGEST)
            .unwrap_or_else(|| path.to_vec())
    }

    /// Bytes of all these paths.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.renamed.bytes
    }

    /// How many paths were moved by renames.
    pub fn moved(&self) -> u64 {
        self.renamed.moved
    }

    /// The path that a file had at the start. What was there is what the first call with it shows.
    fn known(&mut self, path: &[u8], shown: Before) -> Rc<[u8]> {
        let path = self.original(path);
        if let Some((known, _)) = self.before.get_key_value(path.as_slice()) {
            return Rc::clone(known);
        }
        self.bytes += path.len() as u64;
        let new: Rc<[u8]> = path.into();
        self.before.insert(Rc::clone(&new), shown);
        new
    }

    /// It is there.
    pub fn found(&mut self, path: &[u8], kind: Option<EntryKind>) {
        let path = self.known(path, Before::something(kind));
        if let Some(Before::Something { kind: own, .. }) = self.before.get_mut(&path)
            && own.is_none()
        {
            *own = kind;
        }
    }

    /// It was made now, or is not there.
    pub fn absent(&mut self, path: &[u8]) {
        self.known(path, Before::Nothing);
    }

    /// A link leads there.
    pub fn leads(&mut self, path: &[u8], to: Vec<u8>) {
        self.found(path, Some(EntryKind::Link));
        let path = self.original(path);
        if let Some(Before::Something { target, .. }) = self.before.get_mut(path.as_slice()) {
            *target = to;
        }
    }

    /// A file has at least these bytes.
    pub fn reaches(&mut self, path: &[u8], end: u64) {
        let path = self.original(path);
        if self.written.contains(&path) {
            return;
        }
        if let Some(Before::Something { size, .. }) = self.before.get_mut(path.as_slice()) {
            *size = end.max(*size);
        }
    }

    /// The program changes the data of a file.
    pub fn writes(&mut self, path: &[u8]) {
        let path = self.original(path);
        let bytes = path.len() as u64;
        if self.written.insert(path) {
            self.bytes += bytes;
        }
    }

    /// A name is now another one.
    pub fn renamed(&mut self, from: &[u8], to: &[u8]) {
        let first = self.known(from, Before::something(None));
        self.absent(to);
        self.renamed.renamed(from, to, false);
        self.renamed.insert(to.to_vec(), first);
    }

    /// Two names have changed places.
    pub fn exchanged(&mut self, one: &[u8], other: &[u8]) {
        let first = self.known(one, Before::something(None));
        let second = self.known(other, Before::something(None));
        self.renamed.renamed(one, other, true);
        self.renamed.insert(other.to_vec(), first);
        self.renamed.insert(one.to_vec(), second);
    }

    /// The entries below `root`, with the directories that they need.
    ///
    /// # Errors
    /// If the names of these directories are too long altogether.
    pub fn tree(self, root: &[u8]) -> Result<Vec<Entry>, String> {
        let mut all: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        let mut parents: BTreeSet<Name> = BTreeSet::new();
        let mut bytes = 0;
        for (path, before) in self.before {
            let Before::Something { kind, size, target } = before else {
                continue;
            };
            let Some(name) = below(root, &path).filter(|name| *name != b".") else {
                continue;
            };
            let name = Name(name.to_vec());
            let mut up = name.parent();
            // Those above a known one are known, too.
            while !up.is_root() && !parents.contains(&up) {
                bytes += up.0.len() as u64;
                if bytes > limits::INFERRED {
                    return Err(format!(
                        "the names of its directories have more than {} bytes",
                        limits::INFERRED
                    ));
                }
                let next = up.parent();
                parents.insert(std::mem::replace(&mut up, next));
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
        Ok(all.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(inferred: Inferred) -> Vec<String> {
        let tree = inferred.tree(b"/r").unwrap();
        tree.iter().map(|entry| entry.path.escaped()).collect()
    }

    #[test]
    fn names_are_those_from_before_renames() {
        let mut it = Inferred::default();
        it.renamed(b"/r/a", b"/r/b");
        it.renamed(b"/r/b/x", b"/r/b/y");
        it.renamed(b"/r/b", b"/r/c");
        it.found(b"/r/c/y/f", None);
        it.absent(b"/r/b");
        it.exchanged(b"/r/c", b"/r/e");
        it.found(b"/r/e/g", None);
        it.found(b"/r/c/h", None);
        let expected = ["a", "a/g", "a/x", "a/x/f", "e", "e/h"];
        assert_eq!(named(it), expected.map(str::to_owned));
    }

    /// Each of these moves one path, however many there were before, and no path grows without end.
    #[test]
    fn renames_that_are_impossible_are_bounded() {
        let mut it = Inferred::default();
        for _ in 0..10_000 {
            it.renamed(b"/r/a/bbb", b"/r/a");
        }
        assert!(it.moved() < 20_000, "{}", it.moved());
        assert!(it.original(b"/r/a").len() <= LONGEST);
        assert!(it.before.len() <= LONGEST, "{}", it.before.len());
    }

    /// Long logs are of a few files, too.
    #[test]
    fn a_path_is_counted_once() {
        let mut it = Inferred::default();
        for _ in 0..100 {
            it.found(b"/r/a", None);
            it.absent(b"/r/b");
            it.writes(b"/r/a");
            it.renamed(b"/r/a", b"/r/c");
            it.renamed(b"/r/c", b"/r/a");
        }
        // Three before, one that was written, one that was renamed.
        assert_eq!(it.bytes(), 5 * 4);
    }

    /// A chain of directories is climbed once, not once for each file at its end.
    #[test]
    fn known_directories_are_not_climbed_again() {
        let mut it = Inferred::default();
        let deep = "/a".repeat(1000);
        for number in 0..1000 {
            it.found(format!("/r{deep}/f{number}").as_bytes(), None);
        }
        assert_eq!(named(it).len(), 2000);
        let mut it = Inferred::default();
        for number in 0..100 {
            it.found(format!("/r/{number}{deep}").as_bytes(), None);
        }
        let why = it.tree(b"/r").unwrap_err();
        assert!(why.contains("more than 67108864 bytes"), "{why}");
    }
}
