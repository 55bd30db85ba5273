//! Controls where ext4 puts new files: in directories spread over the disk, and in inodes that were
//! deleted.

use std::{fs, io, os::fd::AsFd, path::Path};

use rustix::fs::{CWD, IFlags, ioctl_getflags, ioctl_setflags, syncfs};

use crate::{fd, kernel_caches};

/// `f_type` of statfs(2).
pub(crate) const EXT4: i64 = 0xef53;

/// Creates a directory in which trials create theirs, marked as by `chattr +T` (ext4's `TOPDIR`).
/// The inodes of each directory in it are then in another part of the disk. Close together they
/// would share those that earlier trials have deleted. Without a journal, ext4 skips an inode for
/// minutes after it was deleted, and creating a file takes longer with every deleted one. Other
/// file systems do not know this mark and do not need it.
///
/// # Errors
///
/// As for `mkdir(2)`. A failure to mark it is ignored.
pub fn create(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)?;
    mark(fd::open_dir(CWD, dir)?);
    Ok(())
}

/// Marks a directory as [`create`] does. A failure is ignored.
pub(crate) fn mark(dir: impl AsFd) {
    if let Ok(flags) = ioctl_getflags(&dir) {
        let _ = ioctl_setflags(&dir, flags | IFlags::TOPDIR);
    }
}

/// Makes recently deleted inodes of the file system of `dir` available for new files. Without a
/// journal, ext4 skips those inodes one by one while they are in memory. Creating a file then takes
/// three times as long after a compiler has run. So this writes all data back and drops the page cache.
/// Needs root; does nothing on other file systems.
pub fn reuse_deleted(dir: &Path) {
    if skips_deleted(dir).unwrap_or(false)
        && fd::open_dir(CWD, dir).is_ok_and(|d| syncfs(d).is_ok())
    {
        // Without the right to do this, files are created as they are.
        let _ = kernel_caches::drop_pages();
    }
}

/// Whether `dir` is on an ext4 without a journal.
fn skips_deleted(dir: &Path) -> io::Result<bool> {
    if rustix::fs::statfs(dir)?.f_type as i64 != EXT4 {
        return Ok(false);
    }
    let device = rustix::fs::stat(dir)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let at = fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
    let name = at.file_name().unwrap_or_default().to_string_lossy();
    // The thread that commits a journal has a directory named after the device and the inode.
    let journal = format!("{name}-");
    let mut journals = fs::read_dir("/proc/fs/jbd2")
        .into_iter()
        .flatten()
        .flatten();
    Ok(!journals.any(|j| j.file_name().to_string_lossy().starts_with(&journal)))
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

    #[test]
    fn only_an_ext4_without_a_journal_skips_what_was_deleted() {
        assert!(!skips_deleted(Path::new("/proc")).unwrap());
        assert!(skips_deleted(Path::new("/nowhere")).is_err());
        let here = std::env::current_dir().unwrap();
        if rustix::fs::statfs(&here).unwrap().f_type as i64 != EXT4 {
            return eprintln!("skipped: {} is not on ext4", here.display());
        }
        let device = rustix::fs::stat(&here).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let uevent = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).unwrap();
        let name = uevent.lines().find_map(|l| l.strip_prefix("DEVNAME="));
        // A journal's thread is named after its device as well.
        let thread = format!("jbd2/{}-", name.unwrap());
        let comm = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("comm")).ok();
        let mut all = fs::read_dir("/proc").unwrap().flatten().filter_map(comm);
        let journal = all.any(|comm| comm.starts_with(&thread));
        assert_eq!(skips_deleted(&here).unwrap(), !journal);
    }
}
