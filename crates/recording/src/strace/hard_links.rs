//! Files with several names: a call by one of them is ordered with those by the others, and with those on open files.

use std::collections::HashMap;

use super::by_path::ByPath;
use crate::Entry;

/// Files that have, or had, several names. Each has a number.
#[derive(Debug, Default)]
pub struct HardLinks {
    /// By the absolute paths of their names, without links.
    names: ByPath<u32>,
    /// By the open files of which they are.
    open: HashMap<u32, u32>,
    count: u32,
    /// How many open files were given a number because of a link.
    numbered: u64,
}

impl HardLinks {
    /// Those of a tree.
    pub fn of_tree(tree: &[Entry], root: &[u8]) -> Self {
        let mut all = Self::default();
        let path = |entry: &Entry| [root, b"/", &entry.path.0].concat();
        for entry in tree {
            if let Some(first) = entry.same.and_then(|first| tree.get(first as usize)) {
                all.linked(&path(first), std::iter::empty(), path(entry));
            }
        }
        all
    }

    fn add(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// The number of the file that has this name and others.
    pub fn of_name(&self, path: &[u8]) -> Option<u32> {
        self.names.get(path).copied()
    }

    /// The number of the file that is open.
    pub fn of_open(&self, file: u32) -> Option<u32> {
        self.open.get(&file).copied()
    }

    /// A file is open, by this name.
    pub fn opened(&mut self, file: u32, path: &[u8]) {
        if let Some(number) = self.of_name(path) {
            self.open.insert(file, number);
        }
    }

    /// A file is open, behind a link, by this name. Its open file has the name of the link, which does not move with this one,
    /// so it is numbered at once. `open`: what is open by this name already.
    pub fn opened_behind(&mut self, file: u32, path: &[u8], open: impl Iterator<Item = u32>) {
        let number = self.numbered(path, open);
        self.open.insert(file, number);
    }

    /// A file is open that has no name yet.
    pub fn opened_without_name(&mut self, file: u32) {
        let number = self.add();
        self.open.insert(file, number);
    }

    /// The number of the file with this name, which it is given if it has none.
    fn numbered(&mut self, path: &[u8], open: impl Iterator<Item = u32>) -> u32 {
        if let Some(number) = self.of_name(path) {
            return number;
        }
        let number = self.add();
        // Some may be of a file that had this name before.
        for file in open {
            self.open.entry(file).or_insert(number);
            self.numbered += 1;
        }
        self.names.insert(path.to_vec(), number);
        number
    }

    /// A file has another name. `open`: what is open by the first one.
    pub fn linked(&mut self, from: &[u8], open: impl Iterator<Item = u32>, to: Vec<u8>) {
        let number = self.numbered(from, open);
        self.names.insert(to, number);
    }

    /// An open file has this name, too. Whether it was known; else it has the name by which it was opened.
    pub fn linked_open(&mut self, file: u32, to: &[u8]) -> bool {
        let number = self.of_open(file);
        if let Some(number) = number {
            self.names.insert(to.to_vec(), number);
        }
        number.is_some()
    }

    /// A name was removed.
    pub fn removed(&mut self, path: &[u8]) {
        self.names.remove(path);
    }

    /// A name is now another one, or two have changed places.
    pub fn renamed(&mut self, from: &[u8], to: &[u8], exchanges: bool) {
        self.names.renamed(from, to, exchanges);
    }

    /// Whether two names are of one file.
    pub fn are_one(&self, one: &[u8], other: &[u8]) -> bool {
        let number = self.of_name(one);
        number.is_some() && number == self.of_name(other)
    }

    /// Bytes of the names.
    pub fn bytes(&self) -> u64 {
        self.names.bytes
    }

    /// How many names and open files links and renames have changed so far.
    pub fn moved(&self) -> u64 {
        self.names.moved + self.numbered
    }
}
