//! The tree of a recording: made, and listed.

use std::{
    cmp::Reverse,
    collections::HashMap,
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use layermark_recording::{Entry, EntryKind, Name, limits};
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, chmodat, fchmod, ftruncate, linkat,
        mkdirat, openat, readlinkat, seek, statat, symlinkat,
    },
    io::{Errno, write},
};

use crate::data::{self, PERIOD};
use layermark_model::Pattern;

/// Bytes of contents from which files take theirs, each from a place of its own.
pub struct Contents(Vec<u8>);

impl Contents {
    pub fn new(seed: u64) -> Self {
        let mut bytes = vec![0; PERIOD];
        data::fill(Pattern::Random, &mut bytes, PERIOD, seed);
        Self(bytes)
    }

    /// Writes the content of file number `number`, except into its holes.
    fn write(&self, file: BorrowedFd<'_>, number: usize, entry: &Entry) -> Result<(), Errno> {
        let mut end = 0;
        for &(hole, length) in &entry.holes {
            self.write_part(file, number, hole - end)?;
            end = hole + length;
            seek(file, SeekFrom::Start(end))?;
        }
        self.write_part(file, number, entry.size - end)?;
        if entry.holes.is_empty() {
            return Ok(());
        }
        // There may be one at its end.
        ftruncate(file, entry.size)
    }

    fn write_part(&self, file: BorrowedFd<'_>, number: usize, size: u64) -> Result<(), Errno> {
        let (mut left, mut at) = (size, number * 4096 % PERIOD);
        while left > 0 {
            let rest = &self.0[at..];
            let part = &rest[..rest.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            let written = write(file, part)?;
            if written == 0 {
                return Err(Errno::NOSPC);
            }
            left -= written as u64;
            at = (at + written) % PERIOD;
        }
        Ok(())
    }
}

/// Makes the entries in an empty directory of ours. Their names only go down, and so do their links.
pub fn make(
    root: BorrowedFd<'_>,
    tree: &[Entry],
    contents: &Contents,
) -> Result<(), (Name, Errno)> {
    let own = Mode::RWXU;
    for (number, entry) in tree.iter().enumerate() {
        let path = entry.path.0.as_slice();
        let permissions = Mode::from_raw_mode(entry.mode);
        let made = match (entry.kind, &entry.target, entry.same) {
            (EntryKind::Directory, ..) => mkdirat(root, path, permissions | own),
            (EntryKind::Link, Some(target), _) => symlinkat(target.0.as_slice(), root, path),
            (EntryKind::Link, None, _) => Err(Errno::INVAL),
            (EntryKind::File, _, Some(same)) => {
                let first = tree[same as usize].path.0.as_slice();
                linkat(root, first, root, path, AtFlags::empty())
            }
            (EntryKind::File, ..) => {
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                openat(root, path, flags, own).and_then(|file| {
                    contents.write(file.as_fd(), number, entry)?;
                    fchmod(&file, permissions)
                })
            }
        };
        made.map_err(|e| (entry.path.clone(), e))?;
    }
    // Last, since nothing can be made in a directory that may not be written to.
    for entry in tree
        .iter()
        .rev()
        .filter(|entry| entry.kind == EntryKind::Directory)
    {
        let permissions = Mode::from_raw_mode(entry.mode);
        let set = chmodat(root, entry.path.0.as_slice(), permissions, AtFlags::empty());
        set.map_err(|e| (entry.path.clone(), e))?;
    }
    Ok(())
}

/// A tree that was found.
#[derive(Debug, Default)]
pub struct Listed {
    /// Its entries, directories before what they have in them.
    pub entries: Vec<Entry>,
    /// Pipes, sockets and devices, which are left out.
    pub others: u64,
}

/// Lists a directory with everything below it.
///
/// # Errors
/// If something cannot be read, or there are more entries than a recording may have.
pub fn list(root: BorrowedFd<'_>) -> io::Result<Listed> {
    let mut found = Listed::default();
    let mut inodes = HashMap::new();
    // Names, not descriptors: there may be more directories than a process may have open.
    let mut directories: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(above) = directories.pop() {
        let dir = layermark_fd::open_below(root, &above)?;
        for name in layermark_fd::names(dir.as_fd(), "")? {
            if found.entries.len() as u64 >= limits::ENTRIES {
                let text = format!("it has more than {} entries", limits::ENTRIES);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            let mut path = above.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            let stat = statat(&dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = stat.st_mode & 0o7777;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    directories.push(path.clone());
                    found.entries.push(Entry::directory(Name(path), mode));
                }
                FileType::Symlink => {
                    let target = readlinkat(&dir, name.as_c_str(), Vec::new())?;
                    found
                        .entries
                        .push(Entry::link(Name(path), Name(target.into_bytes())));
                }
                FileType::RegularFile => {
                    let mut entry = Entry::file(Name(path.clone()), mode, stat.st_size as u64);
                    entry.holes = holes(dir.as_fd(), &name, &stat);
                    if stat.st_nlink > 1 {
                        let first = inodes
                            .entry((stat.st_dev, stat.st_ino))
                            .or_insert_with(|| path.clone());
                        entry.target = (*first != path).then(|| Name(first.clone()));
                    }
                    found.entries.push(entry);
                }
                _ => found.others += 1,
            }
        }
    }
    found.entries.sort_by(|a, b| a.path.cmp(&b.path));
    number_links(&mut found.entries);
    Ok(found)
}

/// Where a file has no data: nowhere, if it cannot be read. Of more holes than a recording may have, the largest.
fn holes(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Vec<(u64, u64)> {
    let mut holes = Vec::new();
    let size = stat.st_size as u64;
    // A file system that compresses has fewer blocks than bytes, too.
    if (stat.st_blocks as u64).saturating_mul(512) >= size {
        return holes;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(dir, name, flags, Mode::empty()) else {
        return holes;
    };
    let mut end = 0;
    while let Ok(hole) = seek(&file, SeekFrom::Hole(end)) {
        if hole >= size {
            break;
        }
        // It fails if there is no data behind the hole.
        end = seek(&file, SeekFrom::Data(hole)).map_or(size, |data| data.min(size));
        // Somebody has written there meanwhile, or a file system says what cannot be.
        if end <= hole {
            break;
        }
        holes.push((hole, end - hole));
        if holes.len() > 2 * limits::HOLES {
            keep_largest(&mut holes);
        }
    }
    keep_largest(&mut holes);
    holes.sort_unstable();
    holes
}

fn keep_largest(holes: &mut Vec<(u64, u64)>) {
    if holes.len() > limits::HOLES {
        holes.sort_by_key(|&(_, length)| Reverse(length));
        holes.truncate(limits::HOLES);
    }
}

/// Gives other names of a file the number of its first one, in the order of the entries. Until here they have the path
/// that was found first.
fn number_links(entries: &mut [Entry]) {
    let mut first: HashMap<Name, u32> = HashMap::new();
    for (number, entry) in (0u32..).zip(entries) {
        if entry.kind != EntryKind::File {
            continue;
        }
        let inode = entry.target.take().unwrap_or_else(|| entry.path.clone());
        let same = *first.entry(inode).or_insert(number);
        entry.same = (same != number).then_some(same);
    }
}
