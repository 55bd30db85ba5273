//! Names that say nothing: components replaced by random ones of the same length.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Name, Recording};

/// Characters of new components.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
/// Attempts to find a component of the same length that is not taken.
const ATTEMPTS: u64 = 10_000;

/// New components, the same for the same component.
pub struct Renamed {
    salt: u64,
    /// How many were drawn.
    drawn: u64,
    known: HashMap<Vec<u8>, Vec<u8>>,
    taken: HashSet<Vec<u8>>,
}

impl Renamed {
    /// New components are drawn one after another. They do not depend on the old ones, so that these cannot be found by
    /// trying words. What is left of a component is its length, and its place in the order of the tree.
    pub fn new(salt: u64) -> Self {
        Self {
            salt,
            drawn: 0,
            known: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// The new name of a name.
    pub fn name(&mut self, name: &Name) -> Name {
        if name.is_root() {
            return name.clone();
        }
        let parts: Vec<Vec<u8>> = name.components().map(|part| self.component(part)).collect();
        Name(parts.join(&b'/'))
    }

    /// The new name of an attribute, which keeps its class: `user.`.
    fn attribute(&mut self, name: &Name) -> Name {
        let Some(own) = name.0.strip_prefix(b"user.") else {
            // A class of the system has the same names everywhere.
            return name.clone();
        };
        Name([b"user.", self.component(own).as_slice()].concat())
    }

    fn component(&mut self, part: &[u8]) -> Vec<u8> {
        if let Some(known) = self.known.get(part) {
            return known.clone();
        }
        // There are 64 names of one letter: if all are taken, a longer one is.
        let longer = [0, 1, 2]
            .into_iter()
            .flat_map(|more| (0..ATTEMPTS).map(move |_| more));
        let mut new = Vec::new();
        for more in longer {
            new = self.draw(part.len() + more);
            if !self.taken.contains(&new) {
                break;
            }
        }
        self.taken.insert(new.clone());
        self.known.insert(part.to_vec(), new.clone());
        new
    }

    fn draw(&mut self, length: usize) -> Vec<u8> {
        let first = xxh3_64_with_seed(&self.drawn.to_le_bytes(), self.salt);
        self.drawn += 1;
        let letters = (0..length as u64).map(|at| {
            let hash = xxh3_64_with_seed(&at.to_le_bytes(), first);
            LETTERS[(hash % 64) as usize]
        });
        letters.collect()
    }
}

impl Recording {
    /// Replaces names, and forgets the command. Returns what replaced them, for the names
    /// of the tree that the program left.
    pub fn make_private(&mut self, salt: u64) -> Renamed {
        let mut renamed = Renamed::new(salt);
        for entry in &mut self.tree {
            entry.path = renamed.name(&entry.path);
            entry.target = entry.target.as_ref().map(|target| renamed.name(target));
        }
        let attributes = self.calls.iter().filter(|call| call.kind.is_xattr());
        let attributes: HashSet<u32> = attributes.filter_map(|call| call.path2).collect();
        for (number, name) in (0u32..).zip(&mut self.names) {
            *name = if attributes.contains(&number) {
                renamed.attribute(name)
            } else {
                renamed.name(name)
            };
        }
        self.head.command.clear();
        self.head.private = true;
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_keep_their_length_and_stay_apart() {
        let mut renamed = Renamed::new(7);
        let first = renamed.name(&"secret/plans.txt".into());
        assert_eq!(first.0.len(), "secret/plans.txt".len());
        assert!(!first.escaped().contains("secret") && !first.escaped().contains("plans"));
        assert_eq!(renamed.name(&"secret/plans.txt".into()), first);
        assert_eq!(renamed.name(&"secret".into()), first.parent());
        assert_eq!(renamed.name(&".".into()), ".".into());
        let other = Renamed::new(8).name(&"secret/plans.txt".into());
        assert_ne!(other, first);
        let same = Renamed::new(7).name(&"public/sheet.txt".into());
        assert_eq!(same.0, first.0, "it does not depend on the old name");
        // More names of one byte than there are letters.
        let all: HashSet<Vec<u8>> = (1..=200u8)
            .filter(|b| *b != b'/')
            .map(|b| renamed.component(&[b]))
            .collect();
        assert_eq!(all.len(), 199);
        assert!(
            all.iter()
                .all(|name| Name(name.clone()).refused().is_none())
        );
    }
}
