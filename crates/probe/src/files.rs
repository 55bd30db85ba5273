//! What every workload does with its files: drop caches, flush, refuse `O_DIRECT`.

use std::{fs::File, io, path::Path};

use layermark_sys::served;
use rustix::fs::Advice;

use crate::{ProbeError, error::shown, resident};

/// Drops the file from the page cache. It is synced first, since dirty pages stay. Whether the pages left
/// is checked afterwards (`resident`).
///
/// # Errors
/// The sync lost data: the kernel reports that once, so nobody else would learn of it (fsync(2), EIO). A
/// file that cannot be synced, such as one of a read-only file system, has nothing to lose.
pub fn evict(file: &File) -> io::Result<()> {
    if let Err(e) = file.sync_all()
        && matches!(
            e.raw_os_error(),
            Some(libc::EIO | libc::ENOSPC | libc::EDQUOT)
        )
    {
        return Err(e);
    }
    drop_clean_pages(file);
    Ok(())
}

/// The same for a file that should be on the disk already. It is synced only if pages stay: a sync without effect
/// is a flush of the disk, which takes as long as one with data. What another process or machine serves is synced in any
/// case: its server may have data of its own that it has not written.
///
/// # Errors
/// As [`evict`], where it syncs.
pub fn evict_synced(file: &File) -> io::Result<()> {
    if rustix::fs::fstatfs(file).is_ok_and(|s| served::is_numbered(s.f_type as u32)) {
        return evict(file);
    }
    drop_clean_pages(file);
    if resident::share_of(file) == Some(0.0) {
        return Ok(());
    }
    evict(file)
}

fn drop_clean_pages(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

pub fn sync_file_system(dir: &Path) -> Result<(), ProbeError> {
    let sync = || -> io::Result<()> { Ok(rustix::fs::syncfs(File::open(dir)?)?) };
    sync().map_err(|e| ProbeError::io("sync the file system of", dir, &e))
}

/// The error for a refused `O_DIRECT`, which a file system reports as `EINVAL`.
pub fn direct_refused(path: &Path, what: &str, error: &io::Error) -> Option<ProbeError> {
    if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) {
        return None;
    }
    let message = format!(
        "O_DIRECT refused at {what} by the file system of {}",
        shown(path)
    );
    let refused = ProbeError {
        message,
        hint: None,
        errno: error.raw_os_error(),
        defect: None,
    };
    Some(refused.hint("leave `direct` out for this layer, or move multiples of 4K"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_leaves_the_cache_whether_it_is_on_the_disk_or_not() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        let mut evicted = |evict: fn(&File) -> io::Result<()>| {
            file.write_all(&[1; 1 << 14]).unwrap();
            evict(&file).unwrap();
            resident::share_of(&file)
        };
        if evicted(evict) != Some(0.0) {
            return eprintln!("skipped: /var/tmp is in memory, or its cache is not seen");
        }
        assert_eq!(evicted(evict_synced), Some(0.0), "dirty pages are synced");
        assert_eq!(
            evicted(|file| file.sync_all().and_then(|()| evict_synced(file))),
            Some(0.0)
        );
    }
}
