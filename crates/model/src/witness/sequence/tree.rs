//! The files of a sequence in memory: what each operation does to them where nothing is lost.

use std::collections::BTreeMap;

use super::{Edit, Name, Op};

/// Bytes of a unit: what a disk writes as a whole. All writes are of whole units.
pub const UNIT: usize = 512;
/// Units of a page.
const PAGE: usize = 8;
/// The files at the start, and what each holds in every byte.
pub const FIRST: [(&str, u8); 2] = [("a/f", b'p'), ("b/f", b'q')];
/// What was never written.
pub const HOLE: u8 = 0;
/// Units of each file at the start.
pub const UNITS: usize = 3 * PAGE;
/// Units after the truncation to a smaller size, and to a larger one.
const SMALL: usize = 5;
const LARGE: usize = 5 * PAGE;

/// What the step of this number, from 0, fills with.
pub(super) fn fill(step: usize) -> u8 {
    b'1' + (step % 9) as u8
}

/// A file, a directory or a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    File {
        /// The byte that fills each unit.
        units: Vec<u8>,
        /// The value of its attribute.
        attribute: Option<u8>,
    },
    Directory,
    Link,
}

/// Names and what they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) names: BTreeMap<Name, usize>,
    pub(super) nodes: Vec<Node>,
}

/// Units that an edit writes: from, to, and whether the file has to reach there afterwards.
pub(super) fn range(edit: Edit, size: usize) -> (usize, usize) {
    match edit {
        Edit::Unaligned => (PAGE / 2, PAGE / 2 + PAGE),
        Edit::Append => (size, size + PAGE),
        Edit::Mapped => (0, PAGE),
        Edit::DirectAppend => {
            let from = size.next_multiple_of(PAGE);
            (from, from + PAGE)
        }
        Edit::Shrink => (SMALL, size.max(SMALL)),
        Edit::Empty => (0, size),
        Edit::Grow => (size.min(LARGE), LARGE),
        Edit::Allocate => (2 * PAGE, 4 * PAGE),
        Edit::Keep => (3 * PAGE, 5 * PAGE),
        Edit::Overwrite | Edit::Direct | Edit::Punch | Edit::Attribute => (PAGE, 2 * PAGE),
    }
}

impl Tree {
    /// Before the first operation.
    pub(super) fn prepared() -> Self {
        let mut nodes = vec![Node::Directory];
        nodes.extend(FIRST.map(|(_, byte)| Node::File {
            units: vec![byte; UNITS],
            attribute: None,
        }));
        let find = |text: &str| Name::ALL.into_iter().find(|n| n.to_string() == text);
        let all = ["b/d"].into_iter().chain(FIRST.map(|(name, _)| name));
        let names = all.filter_map(find).zip(0..).collect();
        Self { names, nodes }
    }

    pub(super) fn node(&self, name: Name) -> Option<&Node> {
        self.names.get(&name).and_then(|at| self.nodes.get(*at))
    }

    /// Whether an `open` of it gives the thing itself.
    pub(super) fn can_be_opened(&self, name: Name) -> bool {
        self.node(name).is_some_and(|node| *node != Node::Link)
    }

    /// The bytes of a file's units.
    pub(super) fn units(&self, name: Name) -> Option<&Vec<u8>> {
        match self.node(name)? {
            Node::File { units, .. } => Some(units),
            _ => None,
        }
    }

    /// Does an operation; `None`: it cannot be done, or changes nothing.
    pub(super) fn apply(&mut self, op: Op, fill: u8) -> Option<()> {
        let made = |tree: &mut Self, name: Name, node: Node| {
            tree.nodes.push(node);
            let at = tree.nodes.len() - 1;
            tree.names.insert(name, at).is_none().then_some(())
        };
        let is_free = |tree: &Self, name| tree.node(name).is_none().then_some(());
        match op {
            Op::Create(name) => {
                is_free(self, name)?;
                let (units, attribute) = (Vec::new(), None);
                made(self, name, Node::File { units, attribute })
            }
            Op::Mkdir(name) => {
                is_free(self, name)?;
                made(self, name, Node::Directory)
            }
            Op::Symlink(name) => {
                is_free(self, name)?;
                made(self, name, Node::Link)
            }
            Op::Link(from, to) => {
                is_free(self, to)?;
                self.units(from)?;
                let at = *self.names.get(&from)?;
                self.names.insert(to, at).is_none().then_some(())
            }
            Op::Rename(from, to) => {
                let at = *self.names.get(&from)?;
                // Two names of one file: rename(2) does nothing.
                if self.names.get(&to) == Some(&at) {
                    return None;
                }
                self.names.remove(&from);
                self.names.insert(to, at);
                Some(())
            }
            Op::Unlink(name) | Op::Rmdir(name) => self.names.remove(&name).map(drop),
            Op::Edit(edit, name) => self.edit(edit, name, fill),
        }
    }

    fn edit(&mut self, edit: Edit, name: Name, fill: u8) -> Option<()> {
        let at = *self.names.get(&name)?;
        let Node::File { units, attribute } = self.nodes.get_mut(at)? else {
            return None;
        };
        let size = units.len();
        let (from, to) = range(edit, size);
        match edit {
            Edit::Attribute => *attribute = Some(fill),
            Edit::Keep => {}
            Edit::Shrink | Edit::Empty => {
                if size <= from {
                    return None;
                }
                units.truncate(from);
            }
            Edit::Grow | Edit::Allocate => {
                if size >= to {
                    return None;
                }
                units.resize(to, HOLE);
            }
            Edit::Punch => {
                let end = to.min(size);
                units.get_mut(from..end)?.fill(HOLE);
            }
            Edit::Mapped if size < to => return None,
            _ => {
                units.resize(size.max(to), HOLE);
                units[from..to].fill(fill);
            }
        }
        Some(())
    }
}
