//! What the outcome of a call says of the names in it: which were there, and which are there afterwards.

use super::{
    by_path::LONGEST,
    calls::Opening,
    lex::{self, Ended, quoted},
    lookups::lookup,
    names::{EEXIST, ENOENT},
    paths::{below, normal, parent},
    two_names::{TwoNames, symlink_at},
};
use crate::CallKind;

/// Flags of renameat2(2).
const NOREPLACE: i64 = 1;
const EXCHANGE: i64 = 2;

/// Errors of a name that is there: EEXIST, EISDIR, ERANGE, ENOTEMPTY, ENODATA.
const OF_FOUND: [i64; 5] = [EEXIST, -21, -34, -39, -61];
const EINVAL: i64 = -22;

/// What a call does with a name if it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Looks,
    /// Fails if the name is there.
    Makes,
    /// Makes the name if it is not there.
    Creates,
    Removes,
    MovesAway,
    /// Gives the name to what had another one.
    MovesHere,
}

/// A name of a call, below the tree's directory.
#[derive(Debug)]
pub(super) struct Named {
    /// Absolute. Links are not followed.
    path: Vec<u8>,
    role: Role,
}

/// What a call shows of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Found,
    Missing,
    /// It was not there before.
    Made,
    /// It may have been there before.
    Created,
    Removed,
    MovedAway,
    MovedHere,
}

/// What a call shows of one name.
#[derive(Debug)]
pub(super) struct Claim {
    path: Vec<u8>,
    shown: Shown,
}

/// Whether a call of this name may have names of files that are replayed.
pub(super) fn has_names(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    let without_arguments = Ended {
        name,
        args: Vec::new(),
        returned: None,
        error: "",
        shown: "",
    };
    !arguments(&without_arguments).is_empty()
}

/// Arguments that are names: the directory's, the name's, and what is done with it.
fn arguments(e: &Ended<'_>) -> Vec<(Option<usize>, usize, Role)> {
    match e.name {
        "open" | "creat" | "openat" | "openat2" => {
            let Opening { at, flags, .. } = Opening::of(e);
            let has = |flag| flags.split('|').any(|own| own.trim() == flag);
            let role = match (has("O_CREAT"), has("O_EXCL")) {
                (true, true) => Role::Makes,
                (true, false) => Role::Creates,
                (false, _) => Role::Looks,
            };
            vec![(at.checked_sub(1), at, role)]
        }
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            let names = TwoNames::of(e);
            let roles = match (names.renames, names.flags) {
                (false, _) => [Role::Looks, Role::Makes],
                (true, EXCHANGE) => [Role::Looks; 2],
                (true, NOREPLACE) => [Role::MovesAway, Role::Makes],
                (true, _) => [Role::MovesAway, Role::MovesHere],
            };
            let base = |of: usize| names.at.then(|| of - 1);
            vec![
                (base(names.from), names.from, roles[0]),
                (base(names.to), names.to, roles[1]),
            ]
        }
        "symlink" | "symlinkat" => {
            let (base, at) = symlink_at(e);
            vec![(base, at, Role::Makes)]
        }
        _ => lookup(e).map_or_else(Vec::new, |own| {
            let role = match own.kind {
                CallKind::Mkdir => Role::Makes,
                CallKind::Unlink | CallKind::Rmdir => Role::Removes,
                _ => Role::Looks,
            };
            vec![(own.base, own.path, role)]
        }),
    }
}

/// The names of a call in the tree, in the order of its arguments.
pub(super) fn names(e: &Ended<'_>, cwd: Option<&[u8]>, root: &[u8]) -> Vec<Named> {
    let named = |(base, at, role): (Option<usize>, usize, Role)| {
        let name = quoted(e.arg(at)).filter(|name| !name.is_empty())?;
        let base = base.map_or("", |base| e.arg(base));
        let path = match lex::path_of(base) {
            _ if name.starts_with(b"/") => normal(b"/", &name),
            Some(base) => normal(&base, &name),
            None if base.is_empty() || base == "AT_FDCWD" => normal(cwd?, &name),
            None => return None,
        };
        below(root, &path).filter(|_| path.len() <= LONGEST)?;
        Some(Named { path, role })
    };
    arguments(e).into_iter().filter_map(named).collect()
}

/// What a call with these names shows of them. An outcome that may have another reason shows nothing.
pub(super) fn claims_of(e: &Ended<'_>, names: Vec<Named>) -> Vec<Claim> {
    let claim = |path: Vec<u8>, shown| Claim { path, shown };
    let found = |outcome| OF_FOUND.contains(&outcome) || outcome == EINVAL && reads_link(e);
    match e.outcome() {
        Some(0..) => names.into_iter().flat_map(Named::done).collect(),
        // Of two names, it may be the other one. But before the first one was there, ENOENT was sure.
        Some(ENOENT) => names
            .into_iter()
            .take(1)
            .map(|name| match name.role {
                Role::Looks | Role::Removes | Role::MovesAway => claim(name.path, Shown::Missing),
                _ => claim(parent(&name.path).to_vec(), Shown::Missing),
            })
            .collect(),
        // Of two names, the errors are of the second one.
        Some(outcome) if found(outcome) => names
            .into_iter()
            .next_back()
            .map(|name| claim(name.path, Shown::Found))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn reads_link(e: &Ended<'_>) -> bool {
    e.name.starts_with("readlink")
}

impl Named {
    fn done(self) -> impl Iterator<Item = Claim> {
        let shown = match self.role {
            Role::Looks => Shown::Found,
            Role::Makes => Shown::Made,
            Role::Creates => Shown::Created,
            Role::Removes => Shown::Removed,
            Role::MovesAway => Shown::MovedAway,
            Role::MovesHere => Shown::MovedHere,
        };
        let directory =
            matches!(shown, Shown::Made | Shown::Created | Shown::MovedHere).then(|| Claim {
                path: parent(&self.path).to_vec(),
                shown: Shown::Found,
            });
        let own = Claim {
            path: self.path,
            shown,
        };
        std::iter::once(own).chain(directory)
    }

    /// Whether the outcome of a call with this name may depend on what another has done, or the other way round.
    pub fn may_meet(&self, claim: &Claim) -> bool {
        let changes = self.role != Role::Looks;
        claim.changes() && is_at_or_below(&self.path, &claim.path)
            || changes && is_at_or_below(&claim.path, &self.path)
    }
}

impl Claim {
    pub fn bytes(&self) -> usize {
        self.path.len()
    }

    pub fn changes(&self) -> bool {
        !matches!(self.shown, Shown::Found | Shown::Missing)
    }

    /// Whether one of the two changes a name, and the other one is of this name, or of one below it. Who looks at the
    /// directory of a name does not see the name.
    pub fn meets(&self, other: &Claim) -> bool {
        self.decides(other) || other.decides(self)
    }

    /// Whether it changes whether the other name is there.
    pub fn decides(&self, other: &Claim) -> bool {
        self.changes() && is_at_or_below(&other.path, &self.path)
    }

    /// Whether the name had to be there; `None` if it did not matter.
    fn needs(&self) -> Option<bool> {
        match self.shown {
            Shown::Found | Shown::Removed | Shown::MovedAway => Some(true),
            Shown::Missing | Shown::Made => Some(false),
            Shown::Created | Shown::MovedHere => None,
        }
    }

    /// Whether the name is there afterwards.
    fn leaves(&self) -> bool {
        !matches!(
            self.shown,
            Shown::Missing | Shown::Removed | Shown::MovedAway
        )
    }

    /// Whether the other call, after this one, would have had another outcome.
    pub fn contradicts(&self, later: &Claim) -> bool {
        let is_there = if self.path == later.path {
            Some(self.leaves())
        } else if is_at_or_below(&later.path, &self.path) {
            // What is moved has had its files before, and brings them.
            if self.shown == Shown::MovedHere && later.shown == Shown::Missing {
                return true;
            }
            (!self.leaves()).then_some(false)
        } else {
            if self.shown == Shown::Missing && later.shown == Shown::MovedAway {
                return true;
            }
            // Who removes a name leaves the directory.
            (self.shown != Shown::Missing).then_some(true)
        };
        is_there
            .zip(later.needs())
            .is_some_and(|(is_there, needed)| is_there != needed)
    }
}

fn is_at_or_below(path: &[u8], of: &[u8]) -> bool {
    matches!(path.get(of.len()), None | Some(b'/')) && path.starts_with(of)
}
