//! Reads how much of a file is in the page cache: the proof of `cold` and `warm`.
#![allow(unsafe_code)] // cachestat(2), mmap(2) and mincore(2) have no safe wrapper

use std::{
    fs::File,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::Path,
    ptr,
    sync::OnceLock,
};

use rustix::{fs::FsWord, param::page_size};

/// `f_type` of overlayfs. Its pages belong to the file below, so cachestat(2) always says 0 there
/// while mincore(2), which looks through the mapping, is right.
const OVERLAYFS: FsWord = 0x794c_7630;

/// Share of the file at `path` (0 to 1) that is in the page cache; `None` when it is empty or the
/// kernel does not report it. Reading the share brings nothing into the cache.
pub fn share(path: &Path) -> Option<f64> {
    share_of(&File::open(path).ok()?)
}

/// Bytes of the file at `path` that are in the page cache, and the maximum. The maximum is the size
/// of the ranges (offset and length), or without ranges all bytes allocated on disk. `None` if the
/// kernel does not report it.
pub fn cached(path: &Path, ranges: Option<&[(u64, u64)]>) -> Option<(u64, u64)> {
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let page = page_size() as u64;
    let Some(ranges) = ranges else {
        // An image is sparse: bytes that are not allocated cannot be in memory either.
        let held = meta.len().min(meta.blocks() * 512);
        let cached = (share_of(&file)? * meta.len() as f64) as u64;
        return Some((cached.min(held), held));
    };
    let (mut cached, mut all) = (0, 0);
    for (offset, length) in ranges {
        let start = offset / page * page;
        let length = (offset + length).div_ceil(page) * page - start;
        let pages = match cachestat(&file, start, length) {
            Some(counts) => counts[0],
            None => mincore_range(&file, start, length)?,
        };
        cached += pages * page;
        all += length;
    }
    Some((cached, all))
}

/// Like [`share`], for an open file.
pub fn share_of(file: &File) -> Option<f64> {
    let len = file.metadata().ok()?.len();
    if len == 0 {
        return None;
    }
    let pages = len.div_ceil(page_size() as u64);
    let overlay = rustix::fs::fstatfs(file).is_ok_and(|s| s.f_type == OVERLAYFS);
    let cached = if overlay {
        mincore(file, len)
    } else {
        cachestat(file, 0, 0)
            .map(|counts| counts[0])
            .or_else(|| mincore(file, len))
    }?;
    Some((cached as f64 / pages as f64).min(1.0))
}

/// Pages in the cache by cachestat(2), Linux 6.5. A length of 0 goes to the end of the file.
fn cachestat(file: &File, offset: u64, length: u64) -> Option<[u64; 5]> {
    const CACHESTAT: libc::c_long = 451;
    let range = [offset, length];
    let mut counts = [0u64; 5]; // cached, dirty, under write-back, evicted, recently evicted
    // SAFETY: both pointers are to arrays of the sizes that `struct cachestat_range` and
    // `struct cachestat` have; the call writes only to the second.
    let result = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0u32,
        )
    };
    (result == 0).then_some(counts)
}

/// Pages in the cache by mincore(2) over a mapping, in parts, so that a large file needs little
/// address space and memory.
fn mincore(file: &File, len: u64) -> Option<u64> {
    mincore_range(file, 0, len)
}

fn mincore_range(file: &File, start: u64, len: u64) -> Option<u64> {
    const PART: u64 = 1 << 30;
    if !mincore_is_usable() {
        return None;
    }
    let mut cached = 0;
    let mut done = 0;
    while done < len {
        let part = PART.min(len - done);
        let at = libc::off_t::try_from(start + done).ok()?;
        cached += mincore_part(Some((file, at)), part as usize)?;
        done += part;
    }
    Some(cached)
}

/// Whether mincore(2) reports what is in memory. gVisor's reports every page, so also one that nobody has touched.
fn mincore_is_usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| mincore_part(None, page_size()) == Some(0))
}

/// Pages in memory of a file from an offset on; without a file, of new memory.
fn mincore_part(of: Option<(&File, libc::off_t)>, len: usize) -> Option<u64> {
    let mut pages = vec![0u8; len.div_ceil(page_size())];
    let (flags, fd, at) = match of {
        Some((file, at)) => (libc::MAP_SHARED, file.as_raw_fd(), at),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    // SAFETY: a new mapping at an address of the kernel's choice; nothing reads through it.
    let map = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ, flags, fd, at) };
    if map == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is `len` long and `pages` has a byte for each page of it.
    let result = unsafe { libc::mincore(map, len, pages.as_mut_ptr()) };
    // SAFETY: exactly the mapping made above, which nothing refers to any more.
    unsafe { libc::munmap(map, len) };
    (result == 0).then(|| pages.iter().filter(|p| **p & 1 == 1).count() as u64)
}

/// Pages of the file that are not on its disk yet: dirty ones and those being written.
#[cfg(test)]
pub fn unwritten(file: &File) -> Option<u64> {
    cachestat(file, 0, 0).map(|counts| counts[1] + counts[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn mincore_of_linux_is_usable() {
        assert!(mincore_is_usable());
    }

    #[test]
    fn a_file_just_written_is_in_the_cache_by_both_ways() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 100_000]).unwrap();
        assert_eq!(share_of(&file), Some(1.0));
        assert_eq!(mincore(&file, 100_000), Some(25));
        if let Some([pages, ..]) = cachestat(&file, 0, 0) {
            assert_eq!(pages, 25);
        } else {
            eprintln!("skipped: cachestat(2) needs Linux 6.5");
        }
    }

    #[test]
    fn a_sparse_file_is_cached_as_far_as_it_is_there() {
        let mut temp = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        temp.as_file().set_len(1 << 30).unwrap();
        temp.write_all(&vec![1; 1 << 20]).unwrap();
        temp.as_file().sync_all().unwrap();
        assert_eq!(cached(temp.path(), None), Some((1 << 20, 1 << 20)));
        let ranges = [(4096, 8192), (1 << 29, 100)];
        assert_eq!(cached(temp.path(), Some(&ranges)), Some((8192, 12288)));
    }

    #[test]
    fn an_empty_or_missing_file_has_no_share() {
        assert_eq!(share_of(&tempfile::tempfile().unwrap()), None);
        assert_eq!(share(Path::new("/nonexistent")), None);
    }
}
