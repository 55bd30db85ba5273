//! Files that a point overwrites, made before the clock starts.
//!
//! On a file system with large folios (ext4, xfs, btrfs), the cached pages of a file are as large
//! as the writes that made them, and large pages are faster to overwrite. So the result depends on
//! how the file was made.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{params::FileParams, slot::ThreadSlot};
use crate::{buffer::Buffer, files::evict_synced, resident};

/// Files kept by earlier trials of this process, with the size of the writes that made their pages.
static KEPT: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

/// Makes the file, or prepares a kept one for this point.
pub fn make_ready(p: &FileParams, slot: &ThreadSlot) -> io::Result<()> {
    let Some(record) = p.filled_with() else {
        return Ok(());
    };
    if !p.keep {
        return make(p, slot, record);
    }
    if !is_whole(p, &slot.path) {
        make_kept(p, slot, record)?;
    } else if !p.direct && !has_pages_of(&slot.path, record) {
        renew_pages(p, slot, record)?;
    }
    if p.direct {
        forget(&slot.path);
    } else {
        remember(&slot.path, record);
    }
    Ok(())
}

/// Removes a file from the list. Data that is read back into the cache gets pages of a size that
/// the readahead chooses.
pub fn forget(path: &Path) {
    let mut known = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    known.remove(path);
}

/// Whether an earlier trial has kept the whole file. An interrupted trial may have left a part of
/// it.
fn is_whole(p: &FileParams, path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() == p.file_size)
}

fn has_pages_of(path: &Path, record: u64) -> bool {
    let known = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // Data that has left the cache comes back in pages of a size that the readahead chooses.
    known.get(path) == Some(&record) && resident::share(path) == Some(1.0)
}

fn remember(path: &Path, record: u64) {
    let mut known = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(path.to_owned(), record);
}

/// Makes a new file and flushes it.
fn make(p: &FileParams, slot: &ThreadSlot, record: u64) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&slot.path)?;
    write_all(p, slot, record, &mut file)?;
    file.sync_all()
}

/// Replaces an existing file. If there is no room, the partial file is removed.
fn make_kept(p: &FileParams, slot: &ThreadSlot, record: u64) -> io::Result<()> {
    slot.path.parent().map_or(Ok(()), fs::create_dir_all)?;
    match fs::remove_file(&slot.path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let made = make(p, slot, record);
    if made.is_err() {
        let _ = fs::remove_file(&slot.path);
    }
    made
}

/// Drops an existing file from the cache and overwrites it, so that its pages have the right size.
/// If later writes are counted or flushed, it is on the disk before the clock starts; otherwise the
/// next flush includes it.
fn renew_pages(p: &FileParams, slot: &ThreadSlot, record: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(&slot.path)?;
    // The last trial has flushed it.
    evict_synced(&file)?;
    write_all(p, slot, record, &mut file)?;
    if p.no_debt { Ok(()) } else { file.sync_all() }
}

fn write_all(p: &FileParams, slot: &ThreadSlot, record: u64, file: &mut File) -> io::Result<()> {
    let (pool, record) = (slot.buffer.bytes(), record as usize);
    let own = (pool.len() < record).then(|| {
        let mut own = Buffer::new(record);
        own.fill(p.pattern, p.record as usize, slot.seed);
        own
    });
    let data = own.as_ref().map_or(pool, Buffer::bytes);
    pieces(data, record, p.file_size).try_for_each(|piece| file.write_all(piece))
}

/// `size` bytes in records of `record` bytes, of which `data` holds at least one. The last one may
/// be shorter.
fn pieces(data: &[u8], record: usize, size: u64) -> impl Iterator<Item = &[u8]> {
    let records = data.chunks_exact(record).cycle();
    let starts = (0..size).step_by(record);
    records
        .zip(starts)
        .map(move |(data, at)| &data[..(size - at).min(record as u64) as usize])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        param::read,
        workloads::file::{
            prepare::{FileWork, prepare},
            tests::points,
        },
    };

    #[test]
    fn pieces_are_whole_records_but_for_the_last() {
        let data: Vec<u8> = (0..100).collect();
        let lengths =
            |record, size| -> Vec<usize> { pieces(&data, record, size).map(<[u8]>::len).collect() };
        assert_eq!(lengths(40, 100), [40, 40, 20]);
        assert_eq!(lengths(40, 80), [40, 40]);
        assert_eq!(lengths(100, 250), [100, 100, 50]);
        let starts: Vec<u8> = pieces(&data, 40, 160).map(|piece| piece[0]).collect();
        assert_eq!(starts, [0, 40, 0, 40]);
    }

    fn made(dir: &Path, params: &Value) -> FileWork {
        let p = read(&points(params).unwrap()[0]).unwrap();
        prepare(dir, p, &crate::Context::least()).unwrap()
    }

    #[test]
    fn a_file_is_as_long_as_asked_for_whatever_it_is_made_with() {
        let dir = tempfile::tempdir().unwrap();
        for (record, fill) in [("32", "0"), ("5000", "0"), ("4K", "300000"), ("64K", "4K")] {
            let params = json!({"op": "rewrite", "record": record, "fill_record": fill, "file_size": "300000"});
            let work = made(dir.path(), &params);
            let size = work.slots[0].path.metadata().unwrap().len();
            assert_eq!(size, 300_000, "{params}");
        }
    }

    #[test]
    fn a_kept_file_gets_the_pages_of_the_record_that_goes_over_it() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = dir.path().join("kept/data-1048576-0");
        let params =
            |record| json!({"op": "rewrite", "keep": true, "record": record, "file_size": "1M"});
        for (record, bytes) in [("4K", 4096), ("64K", 65536), ("64K", 65536), ("32", 4096)] {
            drop(made(dir.path(), &params(record)));
            assert!(has_pages_of(&file, bytes), "{record}");
            assert!(!has_pages_of(&file, 2 * bytes), "{record}");
        }
        // After it was dropped from the cache it has no pages, and the readahead would choose
        // another size.
        crate::files::evict(&File::open(&file).unwrap()).unwrap();
        assert!(!has_pages_of(&file, 4096));
        let before = file.metadata().unwrap().modified().unwrap();
        drop(made(dir.path(), &params("4K")));
        assert!(has_pages_of(&file, 4096));
        assert!(file.metadata().unwrap().modified().unwrap() > before);
    }
}
