//! Short sequences of operations on a few names, each followed by a call that makes it durable, as ACE makes them
//! (Mohan et al., OSDI 2018). Pure: which sequences there are, and their text.
//!
//! Each works on two directories `a` and `b`. In both is a file `f`, in `b` an empty directory `d`, and these are on the
//! disk before it begins. The names `g` (a file) and `a/d` are free.

use std::{fmt, str::FromStr};

mod cut;
mod oracle;
mod script;
mod tree;

pub use cut::{LostSequence, SequenceCut, SequenceState};
pub use oracle::{Basis, LossKind, LostThing, Moment, Oracle, Seen, SeenEntry, TARGET};
pub use script::script;
pub use tree::{FIRST, HOLE, UNIT, UNITS};

use tree::Tree;

/// A directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// `a`
    A,
    /// `b`
    B,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The directory.
    pub dir: Dir,
    /// `f` and `g` are names of files, `d` of a directory.
    pub last: char,
}

impl Dir {
    const ALL: [Self; 2] = [Self::A, Self::B];
}

impl Name {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::new(Dir::A, 'f'),
        Self::new(Dir::A, 'g'),
        Self::new(Dir::A, 'd'),
        Self::new(Dir::B, 'f'),
        Self::new(Dir::B, 'g'),
        Self::new(Dir::B, 'd'),
    ];

    const fn new(dir: Dir, last: char) -> Self {
        Self { dir, last }
    }

    fn is_of_directory(self) -> bool {
        self.last == 'd'
    }
}

/// A change of a file's content or attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edit {
    /// A page is written over.
    Overwrite,
    /// Two halves of pages are.
    Unaligned,
    /// Written at the end.
    Append,
    /// Stored to a shared mapping.
    Mapped,
    /// A page is written over with `O_DIRECT`.
    Direct,
    /// Written at the first page boundary at or after the end with `O_DIRECT`.
    DirectAppend,
    /// `ftruncate` to a size within the first page.
    Shrink,
    /// `ftruncate` to 0.
    Empty,
    /// `ftruncate` to a larger size.
    Grow,
    /// `fallocate` beyond the end.
    Allocate,
    /// `fallocate` beyond the end with `FALLOC_FL_KEEP_SIZE`.
    Keep,
    /// `fallocate` with `FALLOC_FL_PUNCH_HOLE`.
    Punch,
    /// `fsetxattr` of `user.lm`.
    Attribute,
}

impl Edit {
    /// All of them, and their words.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Overwrite, "overwrite"),
        (Self::Unaligned, "overwrite-unaligned"),
        (Self::Append, "append"),
        (Self::Mapped, "mmap-write"),
        (Self::Direct, "direct-write"),
        (Self::DirectAppend, "direct-append"),
        (Self::Shrink, "truncate-down"),
        (Self::Empty, "truncate-to-0"),
        (Self::Grow, "truncate-up"),
        (Self::Allocate, "fallocate"),
        (Self::Keep, "fallocate-keep-size"),
        (Self::Punch, "punch-hole"),
        (Self::Attribute, "setxattr"),
    ];

    fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(edit, _)| *edit == self);
        found.map_or("", |(_, word)| word)
    }
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// An empty file is made.
    Create(Name),
    /// `mkdir`
    Mkdir(Name),
    /// A second name of a file.
    Link(Name, Name),
    /// A symbolic link to `f`.
    Symlink(Name),
    /// `rename`, which may replace what has the second name.
    Rename(Name, Name),
    /// `unlink`
    Unlink(Name),
    /// `rmdir`
    Rmdir(Name),
    /// A file is changed.
    Edit(Edit, Name),
}

impl Op {
    /// All operations on all names, whether they can be done or not.
    fn all() -> Vec<Self> {
        let (dirs, files): (Vec<Name>, Vec<Name>) =
            Name::ALL.iter().partition(|n| n.is_of_directory());
        let pairs = |names: &[Name]| -> Vec<(Name, Name)> {
            let with = |from: &Name| names.iter().map(move |to| (*from, *to)).collect::<Vec<_>>();
            names.iter().copied().flat_map(|from| with(&from)).collect()
        };
        let mut all = Vec::new();
        all.extend(files.iter().map(|n| Self::Create(*n)));
        all.extend(dirs.iter().map(|n| Self::Mkdir(*n)));
        all.extend(pairs(&files).into_iter().map(|(a, b)| Self::Link(a, b)));
        all.extend(files.iter().map(|n| Self::Symlink(*n)));
        all.extend(pairs(&files).into_iter().map(|(a, b)| Self::Rename(a, b)));
        all.extend(pairs(&dirs).into_iter().map(|(a, b)| Self::Rename(a, b)));
        all.extend(files.iter().map(|n| Self::Unlink(*n)));
        all.extend(dirs.iter().map(|n| Self::Rmdir(*n)));
        for (edit, _) in Edit::ALL {
            all.extend(files.iter().map(|n| Self::Edit(edit, *n)));
        }
        all
    }

    /// The names that it is about; the last one has the result.
    fn names(self) -> Vec<Name> {
        match self {
            Self::Create(n)
            | Self::Mkdir(n)
            | Self::Symlink(n)
            | Self::Unlink(n)
            | Self::Rmdir(n)
            | Self::Edit(_, n) => vec![n],
            Self::Link(from, to) | Self::Rename(from, to) => vec![from, to],
        }
    }
}

/// What makes it durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sync {
    /// Nothing.
    None,
    /// `fsync` of a file, or of a directory by its name.
    Fsync(Name),
    /// `fdatasync`
    Fdatasync(Name),
    /// `msync` of a mapping of the whole file with `MS_SYNC`.
    Msync(Name),
    /// `fsync` of a parent.
    Parent(Dir),
    /// `syncfs`, as `sync -f` calls it. Not `sync`, which would flush every disk of this host.
    All,
}

/// An operation and what makes it durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// The call after it.
    pub sync: Sync,
}

/// Steps, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub Vec<Step>);

/// Most steps: each fills with a digit of its own.
const MOST_STEPS: usize = 9;

impl Sequence {
    /// How many sequences of one operation there are.
    pub const OF_ONE: usize = 179;
    /// How many of two there are.
    pub const OF_TWO: usize = 39_908;

    /// All sequences of one operation that can be done.
    pub fn all_of_one() -> Vec<Self> {
        let steps = Tree::prepared().steps();
        let synced = steps.into_iter().filter(|s| s.sync != Sync::None);
        synced.map(|step| Self(vec![step])).collect()
    }

    /// All of two, of which the first may be followed by no call.
    pub fn all_of_two() -> Vec<Self> {
        let start = Tree::prepared();
        let mut all = Vec::new();
        for first in start.steps() {
            let mut tree = start.clone();
            if tree.apply(first.op, tree::fill(0)).is_none() {
                continue;
            }
            let second = tree.steps().into_iter().filter(|s| s.sync != Sync::None);
            all.extend(second.map(|second| Self(vec![first, second])));
        }
        all
    }

    /// Where in the file, and how far, the edit of a step reaches, bytes, and the byte that it fills with.
    ///
    /// # Errors
    ///
    /// There is no such step, or it is not an edit that can be done.
    pub fn extent(&self, at: usize) -> Result<(u64, u64, u8), String> {
        let mut tree = Tree::prepared();
        for (number, step) in self.0.iter().enumerate() {
            if let (Op::Edit(edit, name), true) = (step.op, number == at) {
                let size = tree.units(name).map_or(0, Vec::len);
                let (from, to) = tree::range(edit, size);
                return Ok(((from * UNIT) as u64, (to * UNIT) as u64, tree::fill(at)));
            }
            if tree.apply(step.op, tree::fill(number)).is_none() {
                break;
            }
        }
        Err(format!("step {at} of `{self}` changes no file"))
    }

    /// Its first operations, up to the last of these that is followed by a call. `None` if none is.
    pub fn first(&self, operations: usize) -> Option<Self> {
        let steps = self.0.get(..operations)?;
        let synced = steps.iter().rposition(|step| step.sync != Sync::None)?;
        Some(Self(steps[..=synced].to_vec()))
    }

    /// Sequences with less in them: without a step, or without a call between two steps.
    pub fn smaller(&self) -> Vec<Self> {
        let without = |at: usize| {
            let mut steps = self.0.clone();
            steps.remove(at);
            steps
        };
        let unsynced = |at: usize| {
            let mut steps = self.0.clone();
            steps[at].sync = Sync::None;
            steps
        };
        let last = self.0.len().saturating_sub(1);
        let fewer = (0..self.0.len()).map(without);
        let quieter = (0..last).filter(|at| self.0[*at].sync != Sync::None);
        let all = fewer.chain(quieter.map(unsynced)).map(Self);
        all.filter(|s| !s.0.is_empty() && Oracle::of(s).is_ok())
            .collect()
    }
}

impl Tree {
    /// All steps that can be done.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for op in Op::all() {
            let mut after = self.clone();
            if after.apply(op, tree::fill(0)).is_some() {
                let syncs = after.syncs(op);
                steps.extend(syncs.into_iter().map(|sync| Step { op, sync }));
            }
        }
        steps
    }

    /// Calls that may follow an operation, after which this is there.
    fn syncs(&self, op: Op) -> Vec<Sync> {
        let names = op.names();
        let mut syncs = vec![Sync::None, Sync::All];
        for dir in Dir::ALL {
            if names.iter().any(|n| n.dir == dir) {
                syncs.push(Sync::Parent(dir));
            }
        }
        let result = names.last().copied();
        if let Some(name) = result.filter(|n| self.can_be_opened(*n)) {
            syncs.extend([Sync::Fsync(name), Sync::Fdatasync(name)]);
            if matches!(op, Op::Edit(Edit::Mapped, _)) {
                syncs.push(Sync::Msync(name));
            }
        }
        syncs
    }
}

impl fmt::Display for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "a",
            Self::B => "b",
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dir, self.last)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(n) => write!(f, "create {n}"),
            Self::Mkdir(n) => write!(f, "mkdir {n}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Symlink(n) => write!(f, "symlink {n}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Unlink(n) => write!(f, "unlink {n}"),
            Self::Rmdir(n) => write!(f, "rmdir {n}"),
            Self::Edit(edit, n) => write!(f, "{} {n}", edit.word()),
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Fsync(n) => write!(f, "fsync {n}"),
            Self::Fdatasync(n) => write!(f, "fdatasync {n}"),
            Self::Msync(n) => write!(f, "msync {n}"),
            Self::Parent(dir) => write!(f, "fsync {dir}"),
            Self::All => f.write_str("syncfs"),
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            let between = if at > 0 { "; " } else { "" };
            write!(f, "{between}{}", step.op)?;
            if step.sync != Sync::None {
                write!(f, "; {}", step.sync)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Sequence {
    type Err = String;

    /// Reads what `Display` writes, and checks that it can be done.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut steps: Vec<Step> = Vec::new();
        for command in text.split(';').map(str::trim) {
            if let Some(sync) = parsed_sync(command) {
                let last = steps.last_mut().filter(|s| s.sync == Sync::None);
                let last = last.ok_or_else(|| format!("`{command}` follows no operation"))?;
                last.sync = sync;
                continue;
            }
            let op = Op::all().into_iter().find(|op| op.to_string() == command);
            let op = op.ok_or_else(|| format!("`{command}` is not an operation"))?;
            let sync = Sync::None;
            steps.push(Step { op, sync });
        }
        if steps.len() > MOST_STEPS {
            return Err(format!("it has more than {MOST_STEPS} operations"));
        }
        if steps.last().is_none_or(|s| s.sync == Sync::None) {
            return Err("its last operation is followed by no sync".into());
        }
        let sequence = Self(steps);
        Oracle::of(&sequence).map(|_| sequence)
    }
}

fn parsed_sync(command: &str) -> Option<Sync> {
    let mut all = vec![Sync::All];
    all.extend(Dir::ALL.map(Sync::Parent));
    for name in Name::ALL {
        all.extend([Sync::Fsync(name), Sync::Fdatasync(name), Sync::Msync(name)]);
    }
    all.into_iter().find(|sync| sync.to_string() == command)
}

#[cfg(test)]
mod tests;
