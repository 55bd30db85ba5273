//! What is one thing after all steps and a cut: for a script.

use std::collections::BTreeSet;

use super::{Atom, Basis, Moment, Oracle, runs_of};
use crate::witness::sequence::{
    Name,
    tree::{Node, Tree},
};

/// What is certain after a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::witness::sequence) enum Certain {
    /// What a name is of.
    Of(Name, Held),
    /// One of these names is there.
    OneOf(Vec<Name>),
}

/// What a name must be of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::witness::sequence) enum Held {
    /// Nothing.
    Absent,
    /// Something.
    Present,
    /// A file of this.
    File {
        runs: Vec<(u8, u64)>,
        attribute: Option<u8>,
    },
}

impl Oracle {
    /// What must be there after all steps and a cut, as far as it is one thing: for a script.
    pub(in crate::witness::sequence) fn certain(&self, basis: Basis) -> Vec<Certain> {
        let named = Name::ALL.into_iter();
        let named = named.filter_map(|name| Some((name, self.certain_of(name, basis)?)));
        let mut all: Vec<Certain> = named.map(|(name, held)| Certain::Of(name, held)).collect();
        if basis == Basis::Linux {
            let renamed = self.renamed(self.trees.len() - 1).into_iter();
            all.extend(renamed.filter_map(|(node, names)| self.certain_renamed(node, names)));
        }
        all
    }

    fn certain_of(&self, name: Name, basis: Basis) -> Option<Held> {
        let acknowledged = self.trees.len() - 1;
        let from = self.from(Atom::Entry(name), basis, acknowledged);
        let versions = self.trees[from..].iter();
        let allowed: BTreeSet<Option<usize>> = versions
            .map(|tree| tree.names.get(&name).copied())
            .collect();
        let some: Vec<usize> = allowed.iter().copied().flatten().collect();
        let node = match (&some[..], allowed.len()) {
            ([], _) => return Some(Held::Absent),
            ([node], 1) => *node,
            _ if allowed.contains(&None) || basis == Basis::Posix => return None,
            _ => return Some(Held::Present),
        };
        let from = self.from(Atom::Content(node), basis, acknowledged);
        let Some(contents) = self.contents(node, from, acknowledged) else {
            return Some(Held::Present);
        };
        let attributes = self.attributes(
            node,
            Moment {
                acknowledged,
                begun: acknowledged,
            },
        );
        let attribute = attributes.first().copied().flatten();
        Some(match contents[..] {
            [units] => Held::File {
                runs: runs_of(units),
                attribute: attribute.filter(|_| basis == Basis::Linux && attributes.len() == 1),
            },
            _ => Held::Present,
        })
    }

    /// One of the names, where no name is certain and nothing else had one of them.
    fn certain_renamed(&self, node: usize, names: BTreeSet<Name>) -> Option<Certain> {
        let other = |name: &Name| {
            let mut versions = self.trees.iter();
            versions.any(|tree| tree.names.get(name).is_some_and(|at| *at != node))
        };
        let certain = |name: &Name| {
            let held = self.certain_of(*name, Basis::Linux);
            held.is_some_and(|held| held != Held::Absent)
        };
        let open = !names.iter().any(|name| other(name) || certain(name));
        open.then(|| Certain::OneOf(names.into_iter().collect()))
    }

    /// Whether this could be false after a cut: at some step it was.
    pub(in crate::witness::sequence) fn can_fail(&self, certain: &Certain) -> bool {
        match certain {
            Certain::OneOf(_) => true,
            Certain::Of(name, held) => {
                let is = |tree: &Tree| match (held, tree.node(*name)) {
                    (Held::Absent, node) => node.is_none(),
                    (Held::Present, node) => node.is_some(),
                    (
                        Held::File { runs, attribute },
                        Some(Node::File {
                            units,
                            attribute: a,
                        }),
                    ) => runs_of(units) == *runs && attribute.is_none_or(|b| *a == Some(b)),
                    (Held::File { .. }, _) => false,
                };
                !self.trees.iter().all(is)
            }
        }
    }
}
