//! Names that strace writes, as numbers. These are the same on every architecture.

/// Outcomes that show what was there.
pub const ENOENT: i64 = -2;
pub const EEXIST: i64 = -17;
pub const EADDRINUSE: i64 = -98;

/// Error numbers of Linux that calls on files return.
const ERRORS: [(&str, i64); 49] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("ESRCH", 3),
    ("EIO", 5),
    ("ENXIO", 6),
    ("E2BIG", 7),
    ("ENOEXEC", 8),
    ("EBADF", 9),
    ("ECHILD", 10),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("ENOTBLK", 15),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EXDEV", 18),
    ("ENODEV", 19),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("ETXTBSY", 26),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("ESPIPE", 29),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("EPIPE", 32),
    ("EDOM", 33),
    ("ERANGE", 34),
    ("EDEADLK", 35),
    ("ENAMETOOLONG", 36),
    ("ENOLCK", 37),
    ("ENOSYS", 38),
    ("ENOTEMPTY", 39),
    ("ELOOP", 40),
    ("ENODATA", 61),
    ("ETIME", 62),
    ("ENOLINK", 67),
    ("EOVERFLOW", 75),
    ("EILSEQ", 84),
    ("EOPNOTSUPP", 95),
    ("EADDRINUSE", 98),
    ("ETIMEDOUT", 110),
    ("ESTALE", 116),
    ("EDQUOT", 122),
];

/// The number of an error; `None` for one that a replay cannot have, such as `EINTR`.
pub fn errno(name: &str) -> Option<i64> {
    let found = ERRORS.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number)
}

/// The name of an error number, for messages.
pub fn error_name(number: i64) -> Option<&'static str> {
    let found = ERRORS.iter().find(|(_, known)| *known == number);
    found.map(|(name, _)| *name)
}

/// Flags of calls with `AT_`, `STATX_`, `FALLOC_`, `XATTR_`, `SYNC_FILE_RANGE_` and `RENAME_` names.
const BITS: [(&str, i64); 29] = [
    ("AT_SYMLINK_NOFOLLOW", 0x100),
    ("AT_REMOVEDIR", 0x200),
    ("AT_SYMLINK_FOLLOW", 0x400),
    ("AT_NO_AUTOMOUNT", 0x800),
    ("AT_EMPTY_PATH", 0x1000),
    ("AT_STATX_SYNC_AS_STAT", 0),
    ("AT_STATX_FORCE_SYNC", 0x2000),
    ("AT_STATX_DONT_SYNC", 0x4000),
    ("STATX_BASIC_STATS", 0x7ff),
    ("STATX_ALL", 0xfff),
    ("STATX_MNT_ID", 0x1000),
    ("STATX_BTIME", 0x800),
    ("STATX_TYPE", 1),
    ("STATX_MODE", 2),
    ("STATX_NLINK", 4),
    ("STATX_UID", 8),
    ("STATX_GID", 0x10),
    ("STATX_ATIME", 0x20),
    ("STATX_MTIME", 0x40),
    ("STATX_CTIME", 0x80),
    ("STATX_INO", 0x100),
    ("STATX_SIZE", 0x200),
    ("STATX_BLOCKS", 0x400),
    ("FALLOC_FL_KEEP_SIZE", 1),
    ("FALLOC_FL_PUNCH_HOLE", 2),
    ("FALLOC_FL_COLLAPSE_RANGE", 8),
    ("FALLOC_FL_ZERO_RANGE", 0x10),
    ("FALLOC_FL_INSERT_RANGE", 0x20),
    ("FALLOC_FL_UNSHARE_RANGE", 0x40),
];

/// Words that stand alone.
const WORDS: [(&str, i64); 34] = [
    ("XATTR_CREATE", 1),
    ("XATTR_REPLACE", 2),
    ("SYNC_FILE_RANGE_WAIT_BEFORE", 1),
    ("SYNC_FILE_RANGE_WRITE", 2),
    ("SYNC_FILE_RANGE_WAIT_AFTER", 4),
    ("RENAME_NOREPLACE", 1),
    ("RENAME_EXCHANGE", 2),
    ("RENAME_WHITEOUT", 4),
    ("R_OK", 4),
    ("W_OK", 2),
    ("X_OK", 1),
    ("F_OK", 0),
    ("SEEK_SET", 0),
    ("SEEK_CUR", 1),
    ("SEEK_END", 2),
    ("SEEK_DATA", 3),
    ("SEEK_HOLE", 4),
    ("LOCK_SH", 1),
    ("LOCK_EX", 2),
    ("LOCK_NB", 4),
    ("LOCK_UN", 8),
    ("F_RDLCK", 0),
    ("F_WRLCK", 1),
    ("F_UNLCK", 2),
    ("POSIX_FADV_NORMAL", 0),
    ("POSIX_FADV_RANDOM", 1),
    ("POSIX_FADV_SEQUENTIAL", 2),
    ("POSIX_FADV_WILLNEED", 3),
    ("POSIX_FADV_DONTNEED", 4),
    ("POSIX_FADV_NOREUSE", 5),
    ("S_ISUID", 0o4000),
    ("S_ISGID", 0o2000),
    ("S_ISVTX", 0o1000),
    ("NULL", 0),
];

/// The sum of flags such as `AT_REMOVEDIR|0x800`. What is not known counts as 0.
pub fn bits(text: &str) -> i64 {
    let known = |word: &str| {
        let mut all = BITS.iter().chain(&WORDS);
        all.find(|(name, _)| *name == word).map(|(_, bit)| *bit)
    };
    let words = text.split('|').map(str::trim);
    words.fold(0, |all, word| {
        all | known(word)
            .or_else(|| super::number::integer(word))
            .unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_added() {
        assert_eq!(bits("AT_SYMLINK_NOFOLLOW|AT_EMPTY_PATH|0x800"), 0x1900);
        assert_eq!(bits("R_OK|W_OK"), 6);
        assert_eq!(bits("NULL"), 0);
        assert_eq!((errno("ENOENT"), errno("EINTR")), (Some(2), None));
        assert_eq!(error_name(2), Some("ENOENT"));
    }
}
