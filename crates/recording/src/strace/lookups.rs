//! Calls with one name.

use super::{
    lex::{Ended, field, is_cut, quoted},
    names::{EEXIST, ENOENT, bits},
    number::integer,
    paths::{below, ends_in_slash},
    sequence::{CUT, OWNERS, Sequence, Shared, Use},
};
use crate::{Call, CallKind, EntryKind, limits};

const EPERM: i64 = -1;
const ERANGE: i64 = -34;

/// Where the name of a lookup is, and what the lookup becomes.
pub(super) struct Lookup {
    pub base: Option<usize>,
    pub path: usize,
    pub kind: CallKind,
    follows: bool,
}

pub(super) fn lookup(e: &Ended<'_>) -> Option<Lookup> {
    use CallKind as K;
    let at = |kind, follows| Lookup {
        base: Some(0),
        path: 1,
        kind,
        follows,
    };
    let plain = |kind, follows| Lookup {
        base: None,
        path: 0,
        kind,
        follows,
    };
    Some(match e.name {
        "stat" | "stat64" => plain(K::Stat, true),
        "lstat" | "lstat64" => plain(K::Lstat, false),
        "newfstatat" | "fstatat64" if e.arg(3).contains("NOFOLLOW") => at(K::Lstat, false),
        "newfstatat" | "fstatat64" => at(K::Stat, true),
        "statx" => at(K::Statx, !e.arg(2).contains("NOFOLLOW")),
        "access" => plain(K::Access, true),
        "faccessat" | "faccessat2" => at(K::Access, true),
        "readlink" => plain(K::Readlink, false),
        "readlinkat" => at(K::Readlink, false),
        "statfs" => plain(K::Statfs, true),
        "getxattr" => plain(K::Getxattr, true),
        "lgetxattr" => plain(K::Lgetxattr, false),
        "listxattr" => plain(K::Listxattr, true),
        "llistxattr" => plain(K::Llistxattr, false),
        "setxattr" => plain(K::Setxattr, true),
        "lsetxattr" => plain(K::Lsetxattr, false),
        "removexattr" => plain(K::Removexattr, true),
        "lremovexattr" => plain(K::Lremovexattr, false),
        "truncate" => plain(K::Truncate, true),
        "chmod" => plain(K::Chmod, true),
        "fchmodat" | "fchmodat2" => at(K::Chmod, true),
        "chown" => plain(K::Chown, true),
        "lchown" => plain(K::Chown, false),
        "fchownat" => at(K::Chown, !e.arg(4).contains("NOFOLLOW")),
        "utime" | "utimes" => plain(K::Utimens, true),
        "utimensat" => at(K::Utimens, !e.arg(3).contains("NOFOLLOW")),
        "mkdir" => plain(K::Mkdir, false),
        "mkdirat" => at(K::Mkdir, false),
        "unlink" => plain(K::Unlink, false),
        "rmdir" => plain(K::Rmdir, false),
        "unlinkat" if e.arg(2).contains("REMOVEDIR") => at(K::Rmdir, false),
        "unlinkat" => at(K::Unlink, false),
        _ => return None,
    })
}

impl Lookup {
    /// As it is of a name that ends in a slash: a link is followed.
    fn of_directory(self) -> Self {
        use CallKind as K;
        let kind = match self.kind {
            K::Lstat => K::Stat,
            K::Lgetxattr => K::Getxattr,
            K::Lsetxattr => K::Setxattr,
            K::Llistxattr => K::Listxattr,
            K::Lremovexattr => K::Removexattr,
            other => other,
        };
        let makes = matches!(kind, K::Mkdir | K::Unlink | K::Rmdir);
        Self {
            kind,
            follows: !makes,
            ..self
        }
    }
}

impl Sequence {
    pub(super) fn looks_up(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        lookup: Lookup,
        outcome: i64,
    ) -> Result<(), String> {
        use CallKind as K;
        let base = lookup.base.map(|at| e.arg(at));
        let name = quoted(e.arg(lookup.path));
        let in_slash = name.as_ref().is_some_and(|name| ends_in_slash(name));
        let lookup = if in_slash {
            lookup.of_directory()
        } else {
            lookup
        };
        let named = name.is_some_and(|name| !name.is_empty()) || is_cut(e.arg(lookup.path));
        if let (false, Some(base)) = (named, base) {
            return self.looks_at_open(id, e, lookup.kind, base, outcome);
        }
        let Some(place) = self.place(id, base, e.arg(lookup.path), lookup.follows) else {
            return Ok(());
        };
        if self.is_refused_to_user(lookup.kind, outcome) {
            return Ok(());
        }
        self.lookup_seen(&place.path, e, &lookup, outcome);
        let last = |at: usize| e.arg(lookup.path + at);
        let (a, b) = match lookup.kind {
            K::Statx if lookup.follows => (bits(e.arg(2)) & 0x7800, mask(e.arg(3))),
            K::Statx => (bits(e.arg(2)) & 0x7900, mask(e.arg(3))),
            K::Access => (bits(last(1)) & 7, 0),
            K::Mkdir | K::Chmod => (self.mode(last(1)), 0),
            K::Truncate => (integer(last(1)).unwrap_or(0), 0),
            K::Chown | K::Utimens if !lookup.follows => (0x100, 0),
            K::Getxattr | K::Lgetxattr => (integer(last(3)).unwrap_or(0), 0),
            K::Setxattr | K::Lsetxattr => (integer(last(3)).unwrap_or(0), bits(last(4)) & 3),
            K::Listxattr | K::Llistxattr => (integer(last(2)).unwrap_or(0), 0),
            _ => (0, 0),
        };
        if lookup.kind == K::Chown {
            self.leave(OWNERS);
        }
        let exclusive =
            outcome >= 0 && matches!(lookup.kind, K::Mkdir | K::Unlink | K::Rmdir | K::Truncate);
        let mut shared = self.of_name(
            &place.path,
            if exclusive {
                Use::Exclusive
            } else {
                Use::Reads
            },
        );
        if lookup.kind == K::Rmdir {
            shared.push((Shared::Entries(self.path(&place.path)), Use::Exclusive));
        }
        let mut call = Call {
            dir: place.dir,
            path: Some(self.name(&place.name)),
            a: a.clamp(
                0,
                if lookup.kind.is_xattr() {
                    64 << 10
                } else {
                    i64::MAX
                },
            ),
            b,
            outcome: outcome.min(0),
            ..Call::new(lookup.kind)
        };
        if lookup.kind.is_xattr() {
            if !self.attribute(Some(&place.path), e.arg(1), outcome, &mut call) {
                return Ok(());
            }
            if call.dir.take().is_some() {
                let relative = below(&self.root, &place.path).unwrap_or(b".").to_vec();
                call.path = Some(self.name(&relative));
            }
        }
        if matches!(lookup.kind, K::Unlink | K::Rmdir) && outcome >= 0 {
            self.links.remove(&place.path);
            self.attributes.remove(&place.path);
            let real = self.links.real(&place.path, false);
            self.hard_links.removed(&real);
        }
        self.emit(id, call, &shared)
    }

    /// Permissions as they are replayed. Counts bits that are not.
    pub(super) fn mode(&mut self, text: &str) -> i64 {
        let mode = integer(text).unwrap_or(0);
        if mode & 0o6000 != 0 {
            self.leave("set-user-ID and set-group-ID bits");
        }
        mode & i64::from(limits::MODE)
    }

    /// Whether a call was refused because the file is another user's. In a replay all files are the user's own. Counts
    /// it.
    pub(super) fn is_refused_to_user(&mut self, kind: CallKind, outcome: i64) -> bool {
        use CallKind as K;
        let is_refused = outcome == EPERM
            && matches!(
                kind,
                K::Chown | K::Fchown | K::Chmod | K::Fchmod | K::Utimens | K::Futimens
            );
        if is_refused {
            self.leave("owners, permissions and times of files of other users: EPERM");
        }
        is_refused
    }

    /// Sets the name of an attribute of the file at an absolute path. Whether the call is replayed: only a user's
    /// attributes are set, and a recording has none that files had before.
    pub(super) fn attribute(
        &mut self,
        file: Option<&[u8]>,
        text: &str,
        outcome: i64,
        call: &mut Call,
    ) -> bool {
        if !call.kind.shape().path2 {
            return true;
        }
        let Some(name) = quoted(text) else {
            self.leave("attributes whose names strace has cut: it needs -s 255");
            return false;
        };
        let of_user = name.starts_with(b"user.");
        let why = if name.is_empty() || name.contains(&b'/') {
            Some("attributes whose names are empty, or have a slash")
        } else if !of_user && !call.kind.reads_xattr() {
            Some("attributes that are not a user's")
        } else if of_user && self.had_attribute(file, &name, outcome, call) {
            Some("attributes that files had before the recording")
        } else {
            None
        };
        if let Some(why) = why {
            self.leave(why);
            return false;
        }
        call.path2 = Some(self.attribute_name(&name));
        true
    }

    /// Whether a call shows an attribute of a user that the program has not set. Remembers what the program sets.
    fn had_attribute(
        &mut self,
        file: Option<&[u8]>,
        name: &[u8],
        outcome: i64,
        call: &Call,
    ) -> bool {
        use CallKind as K;
        let (creates, replaces) = (call.b == 1, call.b == 2);
        let removes = matches!(
            call.kind,
            K::Removexattr | K::Lremovexattr | K::Fremovexattr
        );
        let shown = if call.kind.reads_xattr() {
            outcome >= 0 || outcome == ERANGE
        } else if removes || replaces {
            outcome == 0
        } else {
            creates && outcome == EEXIST
        };
        let Some(file) = file else {
            // Its path became too long: what the program has set there is not known.
            return shown;
        };
        let own = self.attributes.get(file);
        if shown && !own.is_some_and(|own| own.contains(name)) {
            return true;
        }
        if outcome == 0 && !call.kind.reads_xattr() {
            let own = self.attributes.at(file);
            if removes {
                own.remove(name);
            } else {
                own.insert(name.to_vec());
            }
        }
        false
    }

    fn lookup_seen(&mut self, path: &[u8], e: &Ended<'_>, lookup: &Lookup, outcome: i64) {
        use CallKind as K;
        let Some(inferred) = &mut self.inferred else {
            return;
        };
        match (lookup.kind, outcome) {
            (K::Mkdir, 0) | (_, ENOENT) => inferred.absent(path),
            (K::Mkdir, EEXIST) => inferred.found(path, None),
            (K::Rmdir, 0) => inferred.found(path, Some(EntryKind::Directory)),
            (K::Readlink, 0..) => {
                let target = e.arg(lookup.path + 1);
                inferred.leads(path, quoted(target).unwrap_or_default());
                if is_cut(target) {
                    self.leave(CUT);
                }
            }
            (K::Truncate, 0) => {
                inferred.found(path, Some(EntryKind::File));
                inferred.writes(path);
            }
            (_, 0..) => {
                let (kind, size) = observed(e);
                inferred.found(path, kind);
                inferred.reaches(
                    path,
                    if kind == Some(EntryKind::File) {
                        size
                    } else {
                        0
                    },
                );
            }
            _ => {}
        }
    }

    /// A lookup without a name: of an open file.
    fn looks_at_open(
        &mut self,
        id: u32,
        e: &Ended<'_>,
        kind: CallKind,
        base: &str,
        outcome: i64,
    ) -> Result<(), String> {
        use CallKind as K;
        let Some(file) = self.behind(id, base) else {
            return Ok(());
        };
        let kind = match kind {
            K::Stat | K::Lstat => K::Fstat,
            K::Statx => K::Statx,
            K::Utimens => K::Futimens,
            K::Chown => K::Fchown,
            K::Chmod => K::Fchmod,
            _ => {
                self.leave("lookups of an open file without a name");
                return Ok(());
            }
        };
        if self.is_refused_to_user(kind, outcome) {
            return Ok(());
        }
        self.size_seen(file, e);
        let (a, b) = match kind {
            K::Statx => (bits(e.arg(2)) & 0x7900, mask(e.arg(3))),
            K::Fchmod => (self.mode(e.arg(2)), 0),
            _ => (0, 0),
        };
        if kind == K::Fchown {
            self.leave(OWNERS);
        }
        let call = Call {
            file: Some(file),
            a,
            b,
            outcome: outcome.min(0),
            ..Call::new(kind)
        };
        let shared = self.of_file(file, !matches!(kind, K::Fstat | K::Statx), false);
        self.emit(id, call, &shared)
    }

    /// Learns from what a stat of an open file showed.
    pub(super) fn size_seen(&mut self, file: u32, e: &Ended<'_>) {
        let path = self.file_paths[file as usize].clone();
        if let (Some(inferred), Some(path)) = (&mut self.inferred, path) {
            let (kind, size) = observed(e);
            if kind.is_some() {
                inferred.found(&path, kind);
            }
            if kind == Some(EntryKind::File) {
                inferred.reaches(&path, size);
            }
        }
    }
}

/// The mask of statx(2).
fn mask(text: &str) -> i64 {
    match bits(text) & 0xffff {
        0 => 0x7ff,
        mask => mask,
    }
}

/// Kind and size of a file, as strace shows what stat(2) found.
fn observed(e: &Ended<'_>) -> (Option<EntryKind>, u64) {
    let mut shown = e.args.iter().filter(|arg| arg.contains("S_IF"));
    let Some(shown) = shown.next() else {
        return (None, 0);
    };
    let kind = if shown.contains("S_IFDIR") {
        EntryKind::Directory
    } else if shown.contains("S_IFREG") {
        EntryKind::File
    } else if shown.contains("S_IFLNK") {
        EntryKind::Link
    } else {
        return (None, 0);
    };
    let size = integer(field(shown, "st_size=")).or_else(|| integer(field(shown, "stx_size=")));
    (Some(kind), size.unwrap_or(0).max(0) as u64)
}
