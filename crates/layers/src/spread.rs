//! Directories whose subdirectories ext4 puts in different parts of the disk.

use std::{fs, io, path::Path};

use rustix::fs::{CWD, IFlags, ioctl_getflags, ioctl_setflags};

use crate::fd;

/// `f_type` of statfs(2).
pub(crate) const EXT4: i64 = 0xef53;

/// Creates a directory in which trials create theirs, marked as by `chattr +T` (ext4's `TOPDIR`):
/// each of these then has inodes in another part of the disk. Next to each other they would share
/// those that earlier trials have deleted. Without a journal, ext4 skips an inode for minutes after
/// it was deleted, and creating a file takes longer with every deleted one. Other file systems do
/// not know this mark and do not need it.
///
/// # Errors
///
/// As for `mkdir(2)`. A failure to mark it is ignored.
pub fn create(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)?;
    let made = fd::open_dir(CWD, dir)?;
    if let Ok(flags) = ioctl_getflags(&made) {
        let _ = ioctl_setflags(&made, flags | IFlags::TOPDIR);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_marked_where_that_means_something() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("new");
        create(&dir).unwrap();
        assert!(create(&dir).is_err(), "it is there");
        if rustix::fs::statfs(&dir).unwrap().f_type as i64 != EXT4 {
            return eprintln!("skipped: {} is not on ext4", dir.display());
        }
        let flags = |dir: &Path| ioctl_getflags(fd::open_dir(CWD, dir).unwrap()).unwrap();
        assert!(flags(&dir).contains(IFlags::TOPDIR));
        fs::create_dir(dir.join("below")).unwrap();
        assert!(!flags(&dir.join("below")).contains(IFlags::TOPDIR));
    }
}
