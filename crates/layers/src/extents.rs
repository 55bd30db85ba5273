//! The place of a file's data on its device: FIEMAP, Linux `Documentation/filesystems/fiemap.rst`.
#![allow(unsafe_code)]

use std::{fs::File, os::fd::AsRawFd};

/// linux/fs.h: `_IOWR('f', 11, struct fiemap)`
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
const SYNC: u32 = 1;
const LAST: u32 = 1;
/// Flags of extents that are not plain bytes on the device: unknown, delayed, encoded, unaligned,
/// inline, tail, unwritten.
const ELSEWHERE: u32 = 2 | 4 | 8 | 0x100 | 0x200 | 0x400 | 0x800;
/// Extents requested at once.
const BATCH: usize = 128;

/// `struct fiemap_extent`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for its extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// Byte ranges (offset and length) of `file` on its device. `None` when the file system does not
/// report them, or when some of the data is not stored on the device as it is read.
pub(crate) fn of(file: &File) -> Option<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    loop {
        let map = ask(file, start)?;
        let extents = map.extents.get(..map.mapped as usize)?;
        for extent in extents {
            if extent.flags & ELSEWHERE != 0 {
                return None;
            }
            ranges.push((extent.physical, extent.length));
        }
        let Some(last) = extents.last().filter(|e| e.flags & LAST == 0) else {
            return Some(ranges);
        };
        start = last.logical.checked_add(last.length.max(1))?;
    }
}

fn ask(file: &File, start: u64) -> Option<Map> {
    let mut map = Map {
        start,
        length: u64::MAX - start,
        flags: SYNC,
        mapped: 0,
        count: BATCH as u32,
        reserved: 0,
        extents: [Extent::default(); BATCH],
    };
    // SAFETY: `map` has the kernel's layout (its size is tested) with room for `count` extents.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
    (failed == 0).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!(size_of::<Extent>(), 56);
        assert_eq!(size_of::<Map>(), 32 + BATCH * 56);
    }

    #[test]
    fn the_ranges_are_as_long_as_the_file() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        match of(&file) {
            Some(ranges) => assert_eq!(ranges.iter().map(|r| r.1).sum::<u64>(), 1 << 20),
            None => eprintln!("skipped: the file system of /var/tmp does not tell where files lie"),
        }
        assert_eq!(of(&File::open("/proc/self/status").unwrap()), None);
    }
}
