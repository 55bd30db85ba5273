//! What every workload does with its files: drop caches, flush, refuse `O_DIRECT`.

use std::{fs::File, io, path::Path};

use rustix::fs::Advice;

use crate::ProbeError;

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
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    Ok(())
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
        path.display()
    );
    let refused = ProbeError {
        message,
        hint: None,
        errno: error.raw_os_error(),
        defect: None,
    };
    Some(refused.hint("leave `direct` out for this layer, or move multiples of 4K"))
}
