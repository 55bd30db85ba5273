//! What must be there after a power cut, and whose promise it is. Pure: a sequence and what a reader found in, losses out.
//!
//! Each name, content and attribute has a version for each step. A call makes the version of that moment durable, by
//! POSIX or fsync(2), or only by what Linux file systems do beyond them. After a cut any version from the durable one on
//! may be there, since a file system may write sooner than it was told to.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Edit, Name, Op, Sequence, Step, Sync,
    tree::{Node, Tree, fill},
};

mod certain;
mod content;

pub(super) use certain::{Certain, Held};
use content::{in_words, may_hold, runs_of};

/// Whose promise it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// POSIX, or fsync(2), the manual page of Linux: content after fsync or fdatasync of the file, what was stored to a
    /// mapping after msync; names after fsync of their directory, which fsync(2) alone says.
    Posix,
    /// Neither promises it, and ext4, XFS and btrfs keep it: names and attributes of a file after its fsync,
    /// all after syncfs, one of the two names after a rename.
    Linux,
}

/// What is wrong.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// A name is absent.
    Name,
    /// A name is there that was removed, or another file has it.
    OldName,
    /// A file has neither its old name nor its new one.
    File,
    /// A file's content or size is not one that it may have.
    Content,
    /// Nor is an attribute.
    Attribute,
}

impl LossKind {
    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Name => "name lost",
            Self::OldName => "old name is back",
            Self::File => "neither name is there",
            Self::Content => "content",
            Self::Attribute => "attribute",
        }
    }
}

/// Something that was lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LostThing {
    /// Its name, as `a/f`.
    pub path: String,
    /// What is wrong.
    pub kind: LossKind,
    /// Whose promise it was.
    pub basis: Basis,
    /// What should be there.
    pub expected: String,
    /// What is.
    pub found: String,
}

/// What has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenEntry {
    /// A file: its bytes as runs of equal ones, and the value of its attribute.
    File {
        /// Byte, and how many of it.
        runs: Vec<(u8, u64)>,
        /// Its `user.lm`, if it has any.
        attribute: Option<String>,
    },
    /// A directory.
    Directory,
    /// A symbolic link, and where it points.
    Link(String),
    /// Why it cannot be read.
    Unreadable(String),
}

/// What a reader found, by names such as `a/f`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Names and what they are of.
    pub names: BTreeMap<String, SeenEntry>,
}

/// When the power was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Steps whose sync had returned 0.
    pub acknowledged: usize,
    /// Steps that may have begun.
    pub begun: usize,
}

/// What has versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    Entry(Name),
    Content(usize),
    Attribute(usize),
}

/// The first version that may be there after a cut.
type Durable = BTreeMap<(Atom, Basis), usize>;

/// The versions of all, and which of them are durable after each step.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Before the first step, and after each.
    trees: Vec<Tree>,
    durable: Vec<Durable>,
    /// What was done between two trees.
    ops: Vec<Op>,
}

impl Oracle {
    /// Of a sequence.
    ///
    /// # Errors
    ///
    /// Which of its steps cannot be done.
    pub fn of(sequence: &Sequence) -> Result<Self, String> {
        let mut oracle = Self {
            trees: vec![Tree::prepared()],
            durable: vec![Durable::new()],
            ops: Vec::new(),
        };
        for (at, step) in sequence.0.iter().enumerate() {
            let mut tree = oracle.trees[at].clone();
            tree.apply(step.op, fill(at))
                .ok_or_else(|| format!("`{}` cannot be done there", step.op))?;
            oracle.trees.push(tree);
            oracle.ops.push(step.op);
            oracle.sync(step)?;
        }
        Ok(oracle)
    }

    /// What the last step's call makes durable.
    fn sync(&mut self, step: &Step) -> Result<(), String> {
        let now = self.trees.len() - 1;
        let mut durable = self.durable[now - 1].clone();
        let tree = &self.trees[now];
        let mut keep = |atom, bases: &[Basis]| {
            durable.extend(bases.iter().map(|basis| ((atom, *basis), now)));
        };
        let (both, beyond) = (&[Basis::Posix, Basis::Linux][..], &[Basis::Linux][..]);
        let opened = |name: Name| {
            let at = tree.names.get(&name).filter(|_| tree.can_be_opened(name));
            let at = at.copied();
            at.ok_or_else(|| format!("`{}`: nothing to open there", step.sync))
        };
        match step.sync {
            Sync::None => {}
            Sync::Fsync(name) => {
                let file = opened(name)?;
                keep(Atom::Content(file), both);
                keep(Atom::Attribute(file), beyond);
                if tree.units(name).is_some() {
                    let names = tree.names.iter().filter(|(_, at)| **at == file);
                    names.for_each(|(name, _)| keep(Atom::Entry(*name), beyond));
                }
            }
            Sync::Fdatasync(name) => keep(Atom::Content(opened(name)?), both),
            Sync::Msync(name) => {
                let file = opened(name)?;
                // It flushes what was stored to the mapping, and nothing that was written in another way.
                if step.op != Op::Edit(Edit::Mapped, name) {
                    return Err(format!(
                        "`{}`: nothing was stored to a mapping before",
                        step.sync
                    ));
                }
                let before = self.content(file, Basis::Posix, now - 1);
                if before.is_some_and(|versions| versions.len() == 1) {
                    keep(Atom::Content(file), both);
                }
            }
            Sync::Parent(dir) => {
                for name in Name::ALL.into_iter().filter(|n| n.dir == dir) {
                    keep(Atom::Entry(name), both);
                }
            }
            Sync::All => {
                for name in Name::ALL {
                    keep(Atom::Entry(name), beyond);
                }
                for at in 0..tree.nodes.len() {
                    keep(Atom::Content(at), beyond);
                    keep(Atom::Attribute(at), beyond);
                }
            }
        }
        self.durable.push(durable);
        Ok(())
    }

    /// Different contents that a file may have after a cut at a moment when so many steps had been acknowledged, and one
    /// more may have begun; `None` if it is not a file.
    fn content(&self, file: usize, basis: Basis, acknowledged: usize) -> Option<Vec<&Vec<u8>>> {
        self.contents(
            file,
            self.from(Atom::Content(file), basis, acknowledged),
            acknowledged,
        )
    }

    fn from(&self, atom: Atom, basis: Basis, acknowledged: usize) -> usize {
        let durable = &self.durable[acknowledged];
        durable.get(&(atom, basis)).copied().unwrap_or(0)
    }

    fn contents(&self, file: usize, from: usize, to: usize) -> Option<Vec<&Vec<u8>>> {
        let mut all: Vec<&Vec<u8>> = Vec::new();
        for tree in &self.trees[from..=to] {
            match tree.nodes.get(file) {
                Some(Node::File { units, .. }) if !all.contains(&units) => all.push(units),
                Some(Node::File { .. }) | None => {}
                Some(_) => return None,
            }
        }
        Some(all)
    }

    /// What was lost that should be there after a cut.
    pub fn lost(&self, moment: Moment, seen: &Seen) -> Vec<LostThing> {
        let mut lost: Vec<LostThing> = Vec::new();
        for basis in [Basis::Posix, Basis::Linux] {
            let found = self.judged(basis, moment, seen);
            for thing in found {
                let known = |l: &LostThing| l.path == thing.path && l.kind == thing.kind;
                if !lost.iter().any(known) {
                    lost.push(thing);
                }
            }
        }
        lost
    }

    /// How what is there differs from what the steps made, where no power was cut.
    pub fn differs(&self, seen: &Seen) -> Option<LostThing> {
        let now = self.trees.len() - 1;
        let exact = Self {
            trees: vec![self.trees[now].clone()],
            durable: vec![Durable::new()],
            ops: Vec::new(),
        };
        let uncut = Moment {
            acknowledged: 0,
            begun: 0,
        };
        exact.lost(uncut, seen).into_iter().next()
    }

    fn judged(&self, basis: Basis, moment: Moment, seen: &Seen) -> Vec<LostThing> {
        let mut lost = Vec::new();
        for name in Name::ALL {
            lost.extend(self.judge_name(name, basis, moment, seen));
        }
        if basis == Basis::Linux {
            lost.extend(self.nameless(moment, seen));
        }
        lost
    }

    fn judge_name(
        &self,
        name: Name,
        basis: Basis,
        moment: Moment,
        seen: &Seen,
    ) -> Option<LostThing> {
        let from = self.from(Atom::Entry(name), basis, moment.acknowledged);
        let versions = self.trees[from..=moment.begun].iter();
        let allowed: BTreeSet<Option<usize>> = versions
            .map(|tree| tree.names.get(&name).copied())
            .collect();
        let path = name.to_string();
        let thing = |kind, expected, found| LostThing {
            path: path.clone(),
            kind,
            basis,
            expected,
            found,
        };
        // POSIX says nothing of a name that is being changed: it may be old, new, or absent.
        let may_be_absent = allowed.contains(&None) || basis == Basis::Posix && allowed.len() > 1;
        let absent = || "absent".to_owned();
        let Some(entry) = seen.names.get(&path) else {
            let what = || self.words(*allowed.last()?, basis, moment);
            return (!may_be_absent)
                .then(|| thing(LossKind::Name, what().unwrap_or_default(), absent()));
        };
        let nodes: Vec<usize> = allowed.into_iter().flatten().collect();
        let wrong = nodes
            .iter()
            .map(|node| self.unlike(*node, entry, basis, moment));
        let wrong: Vec<Option<LossKind>> = wrong.collect();
        if wrong.contains(&None) && !nodes.is_empty() {
            return None;
        }
        // Of the last one that it may be.
        match nodes.last().copied().zip(wrong.last().copied().flatten()) {
            None => Some(thing(LossKind::OldName, absent(), entry.words())),
            Some((node, kind)) => {
                let expected = self.words(Some(node), basis, moment);
                Some(thing(kind, expected.unwrap_or_default(), entry.words()))
            }
        }
    }

    /// What had one name at a time and was only renamed, and has none of the names: a rename is to leave one of the two.
    fn nameless(&self, moment: Moment, seen: &Seen) -> Vec<LostThing> {
        let mut lost = Vec::new();
        for (node, names) in self.renamed(moment.begun) {
            let mut names = names.iter();
            if names
                .clone()
                .any(|name| self.has(*name, node, moment, seen))
            {
                continue;
            }
            let first = names.next().map(Name::to_string).unwrap_or_default();
            let path = names.fold(first, |all, name| format!("{all} or {name}"));
            lost.push(LostThing {
                path,
                kind: LossKind::File,
                basis: Basis::Linux,
                expected: "one of the names".into(),
                found: "absent".into(),
            });
        }
        lost
    }

    /// What was there at the start and got other names only by renames, with all names that it had until `begun`.
    /// Whoever links and unlinks is promised nothing of the kind.
    fn renamed(&self, begun: usize) -> Vec<(usize, BTreeSet<Name>)> {
        let of = |node: usize| {
            let names = |tree: &Tree| -> BTreeSet<Name> {
                let own = tree.names.iter().filter(|(_, at)| **at == node);
                own.map(|(name, _)| *name).collect()
            };
            let sets: Vec<BTreeSet<Name>> = self.trees[..=begun].iter().map(names).collect();
            let always = sets.iter().all(|names| !names.is_empty());
            let mut changes = sets.windows(2).zip(&self.ops);
            let moved = changes.all(|(two, op)| two[0] == two[1] || matches!(op, Op::Rename(..)));
            let all: BTreeSet<Name> = sets.into_iter().flatten().collect();
            (always && moved && all.len() > 1).then_some((node, all))
        };
        self.trees[0]
            .names
            .values()
            .copied()
            .filter_map(of)
            .collect()
    }

    /// Whether what has this name may be this, and is not rather something else that had the name.
    fn has(&self, name: Name, node: usize, moment: Moment, seen: &Seen) -> bool {
        let Some(entry) = seen.names.get(&name.to_string()) else {
            return false;
        };
        let is = |node| self.unlike(node, entry, Basis::Linux, moment).is_none();
        let versions = self.trees[..=moment.begun].iter();
        let mut others = versions.filter_map(|tree| tree.names.get(&name));
        is(node) || !others.any(|other| *other != node && is(*other))
    }

    /// How what has a name differs from all that this may be after a cut.
    fn unlike(
        &self,
        node: usize,
        entry: &SeenEntry,
        basis: Basis,
        moment: Moment,
    ) -> Option<LossKind> {
        let kind = self.trees[..=moment.begun]
            .iter()
            .find_map(|t| t.nodes.get(node));
        match (kind?, entry) {
            (Node::Directory, SeenEntry::Directory) => None,
            (Node::Link, SeenEntry::Link(to)) if to == TARGET => None,
            (Node::File { .. }, SeenEntry::Unreadable(_)) => Some(LossKind::Content),
            (Node::File { .. }, SeenEntry::File { runs, attribute }) => {
                let from = self.from(Atom::Content(node), basis, moment.acknowledged);
                let contents = self.contents(node, from, moment.begun)?;
                if !may_hold(&contents, runs) {
                    return Some(LossKind::Content);
                }
                // POSIX knows no attributes.
                let attributes = (basis == Basis::Linux).then(|| self.attributes(node, moment))?;
                let seen = attribute.as_deref();
                let is = |a: &Option<u8>| a.map(|b| char::from(b).to_string()).as_deref() == seen;
                (!attributes.iter().any(is)).then_some(LossKind::Attribute)
            }
            // Another kind of thing has the name.
            _ => Some(LossKind::OldName),
        }
    }

    fn attributes(&self, node: usize, moment: Moment) -> BTreeSet<Option<u8>> {
        let from = self.from(Atom::Attribute(node), Basis::Linux, moment.acknowledged);
        let nodes = self.trees[from..=moment.begun].iter();
        let nodes = nodes.filter_map(|t| t.nodes.get(node));
        let values = nodes.map(|node| match node {
            Node::File { attribute, .. } => *attribute,
            _ => None,
        });
        values.collect()
    }

    /// What a name should be of, in words.
    fn words(&self, node: Option<usize>, basis: Basis, moment: Moment) -> Option<String> {
        let Some(node) = node else {
            return Some("absent".into());
        };
        let kind = self.trees[moment.begun].nodes.get(node)?;
        Some(match kind {
            Node::Directory => "a directory".into(),
            Node::Link => "a symbolic link".into(),
            Node::File { .. } => {
                let from = self.from(Atom::Content(node), basis, moment.acknowledged);
                let contents = self.contents(node, from, moment.begun)?;
                let all = contents.iter().map(|units| in_words(&runs_of(units)));
                let mut text = all.collect::<Vec<_>>().join(", or a mixture with ");
                let attributes = self.attributes(node, moment);
                if let [Some(value)] = attributes.into_iter().collect::<Vec<_>>()[..] {
                    text += ", user.lm=";
                    text.push(char::from(value));
                }
                text
            }
        })
    }
}

/// Where symbolic links point.
pub const TARGET: &str = "f";

impl SeenEntry {
    fn words(&self) -> String {
        match self {
            Self::File { runs, attribute } => match attribute {
                Some(value) => format!("{}, user.lm={value}", in_words(runs)),
                None => in_words(runs),
            },
            Self::Directory => "a directory".into(),
            Self::Link(to) => format!("a symbolic link to {to}"),
            Self::Unreadable(why) => format!("it cannot be read: {why}"),
        }
    }
}
