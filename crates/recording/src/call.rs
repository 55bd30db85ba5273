//! One call of a recording.

use serde::{Deserialize, Serialize};

layermark_model::words! {
    /// What a call does. The words are those of strace, without the variants of one call.
    pub enum CallKind {
        /// openat(2); `a`: flags, `b`: permissions.
        Open = "open",
        /// close(2).
        Close = "close",
        /// read(2) of `a` bytes.
        Read = "read",
        /// pread(2) of `a` bytes at `b`.
        Pread = "pread",
        /// write(2) of `a` bytes.
        Write = "write",
        /// pwrite(2) of `a` bytes at `b`.
        Pwrite = "pwrite",
        /// lseek(2) by `a`, from: `b`.
        Seek = "lseek",
        /// stat(2).
        Stat = "stat",
        /// lstat(2).
        Lstat = "lstat",
        /// statx(2); `a`: flags, `b`: mask. Of the open file if it has no name.
        Statx = "statx",
        /// fstat(2).
        Fstat = "fstat",
        /// faccessat(2) for `a`.
        Access = "access",
        /// readlink(2).
        Readlink = "readlink",
        /// getdents64(2) up to the end of the directory, `a` bytes at once.
        List = "getdents64",
        /// mkdir(2) with permissions `a`.
        Mkdir = "mkdir",
        /// unlink(2).
        Unlink = "unlink",
        /// rmdir(2).
        Rmdir = "rmdir",
        /// renameat2(2); `a`: flags.
        Rename = "rename",
        /// linkat(2); `a`: flags.
        Link = "link",
        /// Gives the open file a name, such as one of `O_TMPFILE`.
        LinkFile = "linkat",
        /// symlink(2).
        Symlink = "symlink",
        /// chmod(2) to `a`.
        Chmod = "chmod",
        /// fchmod(2) to `a`.
        Fchmod = "fchmod",
        /// fchownat(2) without a change; `a`: flags.
        Chown = "chown",
        /// fchown(2) without a change.
        Fchown = "fchown",
        /// utimensat(2) to now; `a`: flags.
        Utimens = "utimensat",
        /// futimens(3) to now.
        Futimens = "futimens",
        /// truncate(2) to `a`.
        Truncate = "truncate",
        /// ftruncate(2) to `a`.
        Ftruncate = "ftruncate",
        /// fallocate(2); `a`: mode, `b`: offset, `c`: bytes.
        Fallocate = "fallocate",
        /// fsync(2).
        Fsync = "fsync",
        /// fdatasync(2).
        Fdatasync = "fdatasync",
        /// sync_file_range(2); `a`: offset, `b`: bytes, `c`: flags.
        SyncRange = "sync_file_range",
        /// copy_file_range(2) of `a` bytes from `b` to `c`; -1: from where the files are.
        CopyRange = "copy_file_range",
        /// sendfile(2) of `a` bytes from `b`; -1: from where the file is.
        SendFile = "sendfile",
        /// ioctl(2) FICLONE.
        Clone = "ficlone",
        /// fcntl(2): a lock on `c` bytes at `b`; `a`: 0 shared, 1 exclusive, 2 none.
        Lock = "fcntl",
        /// flock(2); `a`: the operation.
        Flock = "flock",
        /// statfs(2).
        Statfs = "statfs",
        /// fstatfs(2).
        Fstatfs = "fstatfs",
        /// getxattr(2) into `a` bytes.
        Getxattr = "getxattr",
        /// lgetxattr(2) into `a` bytes.
        Lgetxattr = "lgetxattr",
        /// fgetxattr(2) into `a` bytes.
        Fgetxattr = "fgetxattr",
        /// setxattr(2) of `a` bytes; `b`: flags.
        Setxattr = "setxattr",
        /// lsetxattr(2) of `a` bytes; `b`: flags.
        Lsetxattr = "lsetxattr",
        /// fsetxattr(2) of `a` bytes; `b`: flags.
        Fsetxattr = "fsetxattr",
        /// listxattr(2) into `a` bytes.
        Listxattr = "listxattr",
        /// llistxattr(2) into `a` bytes.
        Llistxattr = "llistxattr",
        /// flistxattr(2) into `a` bytes.
        Flistxattr = "flistxattr",
        /// removexattr(2).
        Removexattr = "removexattr",
        /// lremovexattr(2).
        Lremovexattr = "lremovexattr",
        /// fremovexattr(2).
        Fremovexattr = "fremovexattr",
        /// posix_fadvise(2); `a`: offset, `b`: bytes, `c`: the advice.
        Fadvise = "fadvise64",
        /// ioctl(2) `TCGETS`: whether the file is a terminal. A server in user space is asked.
        IsTerminal = "tcgets",
        /// mknod(2) of a socket with permissions `a`: what bind(2) does with the name of one.
        Mknod = "mknod",
        /// mmap(2) of the first `a` bytes of the open file. The mapping is that of the file until [`CallKind::Unmap`], also
        /// when the file is closed.
        Map = "mmap",
        /// A page fault: a byte at `a` of the mapping of the file is read.
        Touch = "touch",
        /// munmap(2) of the mapping of the file.
        Unmap = "munmap",
    }
}

/// Every kind, in the order of the words.
pub const KINDS: [CallKind; CallKind::WORDS.len()] = {
    use CallKind as K;
    [
        K::Open,
        K::Close,
        K::Read,
        K::Pread,
        K::Write,
        K::Pwrite,
        K::Seek,
        K::Stat,
        K::Lstat,
        K::Statx,
        K::Fstat,
        K::Access,
        K::Readlink,
        K::List,
        K::Mkdir,
        K::Unlink,
        K::Rmdir,
        K::Rename,
        K::Link,
        K::LinkFile,
        K::Symlink,
        K::Chmod,
        K::Fchmod,
        K::Chown,
        K::Fchown,
        K::Utimens,
        K::Futimens,
        K::Truncate,
        K::Ftruncate,
        K::Fallocate,
        K::Fsync,
        K::Fdatasync,
        K::SyncRange,
        K::CopyRange,
        K::SendFile,
        K::Clone,
        K::Lock,
        K::Flock,
        K::Statfs,
        K::Fstatfs,
        K::Getxattr,
        K::Lgetxattr,
        K::Fgetxattr,
        K::Setxattr,
        K::Lsetxattr,
        K::Fsetxattr,
        K::Listxattr,
        K::Llistxattr,
        K::Flistxattr,
        K::Removexattr,
        K::Lremovexattr,
        K::Fremovexattr,
        K::Fadvise,
        K::IsTerminal,
        K::Mknod,
        K::Map,
        K::Touch,
        K::Unmap,
    ]
};

/// What a call acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent parts of a call
pub struct Shape {
    /// It has a name.
    pub path: bool,
    /// It has a second name: where to, a link's target, or that of an attribute.
    pub path2: bool,
    /// It has an open file.
    pub file: bool,
    /// It has a second open file.
    pub file2: bool,
}

impl CallKind {
    /// Whether it is one of the calls on extended attributes by a file's name.
    pub fn is_named_xattr(self) -> bool {
        use CallKind as K;
        matches!(
            self,
            K::Getxattr
                | K::Lgetxattr
                | K::Setxattr
                | K::Lsetxattr
                | K::Listxattr
                | K::Llistxattr
                | K::Removexattr
                | K::Lremovexattr
        )
    }

    /// Whether no variant of it takes a descriptor of a directory, so that its name is always relative to the recorded
    /// one.
    pub fn has_no_at(self) -> bool {
        self.is_named_xattr() || matches!(self, Self::Truncate | Self::Statfs)
    }

    /// Whether it is a call on extended attributes.
    pub fn is_xattr(self) -> bool {
        self.id().ends_with("xattr")
    }

    /// Whether it reads an attribute.
    pub fn reads_xattr(self) -> bool {
        matches!(self, Self::Getxattr | Self::Lgetxattr | Self::Fgetxattr)
    }

    /// Whether it lists the names of attributes.
    pub fn lists_xattrs(self) -> bool {
        matches!(self, Self::Listxattr | Self::Llistxattr | Self::Flistxattr)
    }

    /// Whether it is about mappings, which are recorded only where page faults are.
    pub fn is_of_mappings(self) -> bool {
        matches!(self, Self::Map | Self::Touch | Self::Unmap)
    }

    /// Whether its result is a number that says what was moved.
    pub fn moves(self) -> bool {
        use CallKind as K;
        matches!(
            self,
            K::Read | K::Pread | K::Write | K::Pwrite | K::CopyRange | K::SendFile
        )
    }

    /// Whether it changes data or names.
    pub fn changes(self) -> bool {
        use CallKind as K;
        matches!(
            self,
            K::Write
                | K::Pwrite
                | K::Mkdir
                | K::Mknod
                | K::Unlink
                | K::Rmdir
                | K::Rename
                | K::Link
                | K::LinkFile
                | K::Symlink
                | K::Chmod
                | K::Fchmod
                | K::Chown
                | K::Fchown
                | K::Utimens
                | K::Futimens
                | K::Truncate
                | K::Ftruncate
                | K::Fallocate
                | K::CopyRange
                | K::SendFile
                | K::Clone
                | K::Setxattr
                | K::Lsetxattr
                | K::Fsetxattr
                | K::Removexattr
                | K::Lremovexattr
                | K::Fremovexattr
        )
    }

    /// What it acts on. `statx` has a name or an open file, `open` both.
    pub fn shape(self) -> Shape {
        use CallKind as K;
        let two = matches!(self, K::Rename | K::Link | K::Symlink);
        let attribute = self.is_xattr() && !self.lists_xattrs();
        let both = matches!(self, K::CopyRange | K::SendFile | K::Clone);
        let named = two
            || self.is_named_xattr()
            || matches!(
                self,
                K::Open
                    | K::Stat
                    | K::Lstat
                    | K::Access
                    | K::Readlink
                    | K::Mkdir
                    | K::Mknod
                    | K::Unlink
                    | K::Rmdir
                    | K::LinkFile
                    | K::Chmod
                    | K::Chown
                    | K::Utimens
                    | K::Truncate
                    | K::Statfs
            );
        Shape {
            path: named,
            path2: two || attribute,
            file: !named && self != K::Statx || matches!(self, K::Open | K::LinkFile),
            file2: both,
        }
    }
}

/// A flag of open(2): its name, and its bit in a recording. The kernel's own bits differ between architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// As strace writes it.
    pub name: &'static str,
    /// Its bit.
    pub bit: u32,
}

const fn flag(name: &'static str, at: u32) -> Flag {
    Flag { name, bit: 1 << at }
}

/// Flags that a replay knows.
pub const OPEN_FLAGS: [Flag; 15] = [
    flag("O_WRONLY", 0),
    flag("O_RDWR", 1),
    flag("O_CREAT", 2),
    flag("O_EXCL", 3),
    flag("O_TRUNC", 4),
    flag("O_APPEND", 5),
    flag("O_NONBLOCK", 6),
    flag("O_DSYNC", 7),
    flag("O_SYNC", 8),
    flag("O_DIRECT", 9),
    flag("O_DIRECTORY", 10),
    flag("O_NOFOLLOW", 11),
    flag("O_NOATIME", 12),
    flag("O_PATH", 13),
    flag("O_TMPFILE", 14),
];

/// The bit of a flag of [`OPEN_FLAGS`]; 0 for another name.
pub fn open_flag(name: &str) -> u32 {
    let found = OPEN_FLAGS.iter().find(|flag| flag.name == name);
    found.map_or(0, |flag| flag.bit)
}

/// A call of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Number of the task.
    #[serde(rename = "t", default, skip_serializing_if = "is_default")]
    pub task: u32,
    /// What it does.
    #[serde(rename = "k")]
    pub kind: CallKind,
    /// Number of the open directory that `path` is relative to. Without one: to the recorded directory.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<u32>,
    /// Number of its name.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u32>,
    /// Number of the open directory that `path2` is relative to.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub dir2: Option<u32>,
    /// Number of its second name.
    #[serde(rename = "q", default, skip_serializing_if = "Option::is_none")]
    pub path2: Option<u32>,
    /// Number of the open file. Each open has a new one.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u32>,
    /// Number of the second open file.
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub file2: Option<u32>,
    /// See [`CallKind`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub a: i64,
    /// See [`CallKind`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub b: i64,
    /// See [`CallKind`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub c: i64,
    /// What it returned: bytes or 0, or an error number below 0.
    #[serde(rename = "r", default, skip_serializing_if = "is_default")]
    pub outcome: i64,
    /// Tasks that must have ended so many of their calls before.
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<(u32, u32)>,
    /// How much its task computes before it, in parts of the sum of all calls. Nothing, if only the sum is known.
    #[serde(rename = "u", default, skip_serializing_if = "is_default")]
    pub gap: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Call {
    /// A call of task 0 on nothing.
    pub fn new(kind: CallKind) -> Self {
        Self {
            task: 0,
            kind,
            dir: None,
            path: None,
            dir2: None,
            path2: None,
            file: None,
            file2: None,
            a: 0,
            b: 0,
            c: 0,
            outcome: 0,
            waits: Vec::new(),
            gap: 0,
        }
    }

    /// Whether it makes a file, a directory, a symbolic link or a socket that was not there.
    pub fn makes(&self) -> bool {
        let creates = i64::from(open_flag("O_CREAT") | open_flag("O_TMPFILE"));
        matches!(
            self.kind,
            CallKind::Mkdir | CallKind::Mknod | CallKind::Symlink
        ) || self.kind == CallKind::Open && self.a & creates != 0
    }

    /// Whether it may change the tree.
    pub fn changes(&self) -> bool {
        let cuts = i64::from(open_flag("O_TRUNC"));
        let cuts = self.kind == CallKind::Open && self.a & cuts != 0;
        self.kind.changes() || cuts || self.makes()
    }

    /// Bytes of data that it reads or writes at once.
    pub fn buffer(&self) -> u64 {
        use CallKind as K;
        match self.kind {
            K::Read | K::Pread | K::Write | K::Pwrite => self.a.max(0) as u64,
            kind if kind.is_xattr() => self.a.max(0) as u64,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_words() {
        for (at, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn every_call_acts_on_something() {
        for kind in KINDS {
            let shape = kind.shape();
            assert!(
                shape.path || shape.file || kind == CallKind::Statx,
                "{kind:?}"
            );
            assert!(!shape.file2 || shape.file, "{kind:?}");
            assert!(!shape.path2 || shape.path || shape.file, "{kind:?}");
        }
    }

    #[test]
    fn flags_have_bits_of_their_own() {
        let all = OPEN_FLAGS.iter().fold(0, |all, flag| {
            assert_eq!(all & flag.bit, 0, "{}", flag.name);
            all | flag.bit
        });
        assert_eq!(all.count_ones() as usize, OPEN_FLAGS.len());
        assert_eq!((open_flag("O_CREAT"), open_flag("O_NEW")), (4, 0));
    }
}
