//! The tree that a program finds: names, kinds, permissions, sizes and links, but no contents.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::Name;

layermark_model::words! {
    /// Kind of an entry.
    pub enum EntryKind {
        /// A directory.
        Directory = "d",
        /// A file.
        File = "f",
        /// A symbolic link.
        Link = "l",
    }
}

/// An entry of a tree. In a recording, directories come before what they have in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name.
    #[serde(rename = "p")]
    pub path: Name,
    /// Its kind.
    #[serde(rename = "k")]
    pub kind: EntryKind,
    /// Permissions.
    #[serde(rename = "m")]
    pub mode: u32,
    /// Size of a file, bytes.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub size: u64,
    /// Parts of a file that have no data, in order: offset and length, bytes. They are not written.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<(u64, u64)>,
    /// Target of a symbolic link.
    #[serde(rename = "to", default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Name>,
    /// Number of the entry, from 0, of which this is another name: a hard link.
    #[serde(rename = "same", default, skip_serializing_if = "Option::is_none")]
    pub same: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Entry {
    /// A directory.
    pub fn directory(path: Name, mode: u32) -> Self {
        Self {
            path,
            kind: EntryKind::Directory,
            mode,
            size: 0,
            holes: Vec::new(),
            target: None,
            same: None,
        }
    }

    /// A file.
    pub fn file(path: Name, mode: u32, size: u64) -> Self {
        Self {
            kind: EntryKind::File,
            size,
            ..Self::directory(path, mode)
        }
    }

    /// Bytes that are written to make a file.
    pub fn stored(&self) -> u64 {
        let holes = self.holes.iter().map(|(_, length)| length);
        self.size.saturating_sub(holes.sum())
    }

    /// A symbolic link.
    pub fn link(path: Name, target: Name) -> Self {
        Self {
            kind: EntryKind::Link,
            target: Some(target),
            ..Self::directory(path, 0o777)
        }
    }
}

/// A tree in words, equal for equal trees: number of entries, and a hash of their names, kinds, sizes and links
/// (XXH3-64). Permissions, owners, times and hard links do not count, because some layers do not keep them.
pub fn words_of(entries: &[Entry]) -> String {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let mut hash = Xxh3::new();
    let mut text = |bytes: &[u8]| {
        // Every part is preceded by its length, so that no two trees give the same bytes.
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for entry in sorted {
        text(&entry.path.0);
        text(entry.kind.id().as_bytes());
        text(&entry.size.to_le_bytes());
        text(entry.target.as_ref().map_or(b"", |target| &target.0));
    }
    format!("{} entries, {:016x}", entries.len(), hash.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_trees_apart() {
        let dir = || Entry::directory("a".into(), 0o755);
        let file = |name: &str, size| Entry::file(name.into(), 0o644, size);
        let first = words_of(&[dir(), file("a/b", 3)]);
        assert!(first.starts_with("2 entries, "), "{first}");
        assert_eq!(words_of(&[file("a/b", 3), dir()]), first, "in any order");
        let others = [
            words_of(&[dir(), file("a/b", 4)]),
            words_of(&[dir(), file("a/c", 3)]),
            words_of(&[dir(), Entry::directory("a/b".into(), 0o644)]),
            words_of(&[dir(), Entry::link("a/b".into(), "x".into())]),
            words_of(&[dir(), Entry::link("a/b".into(), "y".into())]),
        ];
        let different: std::collections::BTreeSet<_> = others.iter().chain([&first]).collect();
        assert_eq!(different.len(), 6);
    }
}
