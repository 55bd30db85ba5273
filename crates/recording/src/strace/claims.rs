//! What the outcome of a call says of the names in it: which were there, and which are there afterwards.

use super::{
    by_path::LONGEST,
    calls::Opening,
    lex::{self, Ended, quoted},
    lookups::lookup,
    names::{EADDRINUSE, EEXIST, ENOENT},
    paths::{below, normal, parent},
    sockets::socket_name,
    two_names::{TwoNames, symlink_at},
};
use crate::CallKind;

/// Flags of renameat2(2).
const NOREPLACE: i64 = 1;
const EXCHANGE: i64 = 2;

/// Errors of a name that is there: those, EISDIR, ERANGE, ENOTEMPTY, ENODATA.
const OF_FOUND: [i64; 6] = [EEXIST, EADDRINUSE, -21, -34, -39, -61];
const EINVAL: i64 = -22;

/// A name of a call, below the tree's directory.
#[derive(Debug)]
pub(super) struct Named {
    /// Absolute. Links are not followed.
    path: Vec<u8>,
    /// What the call shows if it succeeds.
    success: Shown,
}

/// What a call shows of a name: what it found, or what it did.
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
    /// The name is that of something that had another one. It may have been there before.
    MovedHere,
    /// It and another name have changed places.
    Exchanged,
}

/// What a call shows of one name.
#[derive(Debug)]
pub(super) struct Claim {
    pub path: Vec<u8>,
    shown: Shown,
    /// Whether the name was there after the call before this one in the log, if it is known.
    pub before: Option<bool>,
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

/// Arguments that are names: the directory's, the name's, and what success shows of it.
fn arguments<'a>(e: &Ended<'a>) -> Vec<(&'a str, &'a str, Shown)> {
    let named = |base: Option<usize>, at, success| {
        (base.map_or("", |base| e.arg(base)), e.arg(at), success)
    };
    match e.name {
        "open" | "creat" | "openat" | "openat2" => {
            let Opening { at, flags, .. } = Opening::of(e);
            let has = |flag| flags.split('|').any(|own| own.trim() == flag);
            let success = match (has("O_CREAT"), has("O_EXCL")) {
                (true, true) => Shown::Made,
                (true, false) => Shown::Created,
                (false, _) => Shown::Found,
            };
            vec![named(at.checked_sub(1), at, success)]
        }
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            let both = TwoNames::of(e);
            let [from, to] = match (both.renames, both.flags) {
                (false, _) => [Shown::Found, Shown::Made],
                (true, EXCHANGE) => [Shown::Exchanged; 2],
                (true, NOREPLACE) => [Shown::MovedAway, Shown::Made],
                (true, _) => [Shown::MovedAway, Shown::MovedHere],
            };
            let base = |of: usize| both.at.then(|| of - 1);
            vec![
                named(base(both.from), both.from, from),
                named(base(both.to), both.to, to),
            ]
        }
        "symlink" | "symlinkat" => {
            let (base, at) = symlink_at(e);
            vec![named(base, at, Shown::Made)]
        }
        "bind" => vec![("", socket_name(e).unwrap_or_default(), Shown::Made)],
        _ => lookup(e).map_or_else(Vec::new, |own| {
            let success = match own.kind {
                CallKind::Mkdir => Shown::Made,
                CallKind::Unlink | CallKind::Rmdir => Shown::Removed,
                _ => Shown::Found,
            };
            vec![named(own.base, own.path, success)]
        }),
    }
}

/// The names of a call in the tree, in the order of its arguments.
pub(super) fn names(e: &Ended<'_>, cwd: Option<&[u8]>, root: &[u8]) -> Vec<Named> {
    let named = |(base, name, success): (&str, &str, Shown)| {
        let name = quoted(name).filter(|name| !name.is_empty())?;
        let path = match lex::path_of(base) {
            _ if name.starts_with(b"/") => normal(b"/", &name),
            Some(base) => normal(&base, &name),
            None if base.is_empty() || base == "AT_FDCWD" => normal(cwd?, &name),
            None => return None,
        };
        below(root, &path).filter(|_| path.len() <= LONGEST)?;
        Some(Named { path, success })
    };
    arguments(e).into_iter().filter_map(named).collect()
}

/// What a call with these names shows of them. An outcome that may have another reason shows nothing.
pub(super) fn claims_of(e: &Ended<'_>, names: Vec<Named>) -> Vec<Claim> {
    let found = |outcome| OF_FOUND.contains(&outcome) || outcome == EINVAL && reads_link(e);
    match e.outcome() {
        Some(0..) => names.into_iter().flat_map(Named::done).collect(),
        // Of two names, it may be the other one. But before the first one was there, ENOENT was sure.
        Some(ENOENT) => names
            .into_iter()
            .take(1)
            .map(|name| match name.success {
                Shown::Found | Shown::Removed | Shown::MovedAway | Shown::Exchanged => {
                    Claim::new(name.path, Shown::Missing)
                }
                _ => Claim::new(parent(&name.path).to_vec(), Shown::Missing),
            })
            .collect(),
        // Of two names, the errors are of the second one.
        Some(outcome) if found(outcome) => names
            .into_iter()
            .next_back()
            .map(|name| Claim::new(name.path, Shown::Found))
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
        let directory = matches!(
            self.success,
            Shown::Made | Shown::Created | Shown::MovedHere
        )
        .then(|| Claim::new(parent(&self.path).to_vec(), Shown::Found));
        std::iter::once(Claim::new(self.path, self.success)).chain(directory)
    }

    /// Whether one of two calls may decide the outcome of the other: of that with this name, and of that with the claim.
    pub fn may_meet(&self, claim: &Claim) -> bool {
        let changes = !matches!(self.success, Shown::Found | Shown::Exchanged);
        claim.changes() && is_at_or_below(&self.path, &claim.path)
            || changes && is_at_or_below(&claim.path, &self.path)
    }
}

impl Claim {
    fn new(path: Vec<u8>, shown: Shown) -> Self {
        Self {
            path,
            shown,
            before: None,
        }
    }

    pub fn bytes(&self) -> usize {
        self.path.len()
    }

    pub fn changes(&self) -> bool {
        !matches!(self.shown, Shown::Found | Shown::Missing | Shown::Exchanged)
    }

    /// Whether what is below the name may be something else now.
    pub fn moves(&self) -> bool {
        matches!(
            self.shown,
            Shown::MovedAway | Shown::MovedHere | Shown::Exchanged
        )
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

    /// Whether the other call found what this one has left.
    pub fn leads_to(&self, other: &Claim) -> bool {
        self.decides(other) && !self.contradicts(other)
    }

    /// Whether the name had to be there; `None` if it did not matter.
    fn needs(&self) -> Option<bool> {
        match self.shown {
            Shown::Found | Shown::Removed | Shown::MovedAway | Shown::Exchanged => Some(true),
            Shown::Missing | Shown::Made => Some(false),
            Shown::Created | Shown::MovedHere => None,
        }
    }

    /// Whether the name is there afterwards.
    pub fn leaves(&self) -> bool {
        !matches!(
            self.shown,
            Shown::Missing | Shown::Removed | Shown::MovedAway
        )
    }

    /// Whether it found a name that was not there, say, unless the other call came before it.
    pub fn lacks(&self, other: &Claim) -> bool {
        let needs = self.needs();
        let lacks = needs
            .zip(self.before)
            .is_some_and(|(needs, before)| needs != before);
        lacks && other.changes() && self.path == other.path && needs == Some(other.leaves())
    }

    /// Whether a directory of the other name was not empty then: no other one can be moved there.
    pub fn fills(&self, other: &Claim) -> bool {
        self.leaves() && self.is_in_place_of(other)
    }

    pub fn empties(&self, other: &Claim) -> bool {
        !self.leaves() && self.is_in_place_of(other)
    }

    fn is_in_place_of(&self, other: &Claim) -> bool {
        let is_below = self.path != other.path && is_at_or_below(&self.path, &other.path);
        other.shown == Shown::MovedHere && is_below
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
            // A call that removes a name finds its directory.
            (self.shown != Shown::Missing).then_some(true)
        };
        is_there
            .zip(later.needs())
            .is_some_and(|(is_there, needed)| is_there != needed)
    }
}

/// In which orders two calls may have come.
pub(super) struct Orders {
    pub as_ended: bool,
    pub other: bool,
}

/// The orders of a call that ended first and of one that ended later. `emptied`: a name in a directory was removed between
/// them.
pub(super) fn orders(first: &[Claim], later: &[&Claim], emptied: bool) -> Orders {
    let (mut as_ended, mut other) = (true, true);
    for later in later {
        for first in first.iter().filter(|first| first.meets(later)) {
            let fills = first.fills(later) && !emptied;
            as_ended &= !first.contradicts(later) && !first.lacks(later) && !fills;
            other &= !later.contradicts(first);
        }
    }
    Orders { as_ended, other }
}

fn is_at_or_below(path: &[u8], of: &[u8]) -> bool {
    matches!(path.get(of.len()), None | Some(b'/')) && path.starts_with(of)
}
