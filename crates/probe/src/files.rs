//! What every workload does with its files: drop caches, flush, check `O_DIRECT`.

use std::{fs::File, io, path::Path};

use rustix::fs::Advice;

use layermark_model::DirectIo;

use crate::{ProbeError, resident};

/// Share of the application's bytes that must have crossed the device for `O_DIRECT` to be real.
const DIRECT_SHARE: f64 = 0.95;
/// Share of the file that may be cached after `O_DIRECT`, because of tails and readahead by others.
const DIRECT_CACHED: f64 = 0.05;

/// Whether `O_DIRECT` was honoured: nothing of the files at `paths` is cached, and of `bytes` of the application
/// nearly all (`moved`) crossed the device. If no device is known, the cache alone decides; `None` if the kernel does
/// not report that either.
pub fn direct_io<'a>(
    paths: impl Iterator<Item = &'a Path>,
    moved: Option<u64>,
    bytes: u64,
) -> Option<DirectIo> {
    let shares: Vec<f64> = paths.filter_map(resident::share).collect();
    if shares.is_empty() && moved.is_none() {
        return None;
    }
    let cached = shares.iter().any(|share| *share > DIRECT_CACHED);
    let crossed = moved.is_none_or(|moved| moved as f64 >= DIRECT_SHARE * bytes as f64);
    Some(if cached || !crossed {
        DirectIo::Ignored
    } else {
        DirectIo::Honoured
    })
}

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
    };
    Some(refused.hint("leave `direct` out for this layer, or move multiples of 4K"))
}
