//! What a disk was at the start and what happened to it since, from which every surviving image can be made.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::FileExt},
    path::Path,
};

use rustix::fs::{SeekFrom, seek};

use super::{Choice, Journal, Mark, View, journal::Piece, log};

/// Bytes that are read at once by a copy.
const PART: u64 = 1 << 20;
/// Bytes that are left out of a copy where all of them are zeros.
const ZEROS: usize = 4 << 10;

/// Most bytes of a disk's content that are held in memory: a settled disk is copied hundreds of times.
const MOST_HELD: usize = 64 << 20;

/// A disk's content at the start, and its journal. Holds both files open, so it outlives the disk.
#[derive(Debug)]
pub struct History {
    start: File,
    /// All of `start` that is not zeros, if it is held.
    held: Option<Vec<Part>>,
    log: File,
    journal: Journal,
}

/// A part of a file's data.
#[derive(Debug)]
struct Part {
    at: u64,
    bytes: Vec<u8>,
}

impl History {
    /// Reads the log, up to its last whole record.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the second one is not a log.
    pub fn open(start: &Path, log: &Path) -> io::Result<Self> {
        let (start, log) = (File::open(start)?, File::open(log)?);
        let journal = log::read(&log)?;
        Ok(Self {
            start,
            held: None,
            log,
            journal,
        })
    }

    /// Its writes and flushes.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The disk's size, bytes.
    ///
    /// # Errors
    ///
    /// As for `fstat(2)`.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.start.metadata()?.len())
    }

    /// The disk that a cut leaves, to be read without writing it anywhere. Many thousands of states of one
    /// history can be checked in a minute.
    pub fn view(&self, point: usize, choice: Choice) -> View<'_, File> {
        View {
            start: &self.start,
            log: &self.log,
            pieces: self.journal.survivors(point, choice),
        }
    }

    /// The history from the last moment up to `mark` at which nothing was in the cache: what the disk held then is in
    /// the new file `start`. Images of later moments are made faster from it, since each write before that moment is
    /// looked at once. Marks stay what they are, and points are counted anew.
    ///
    /// # Errors
    ///
    /// The file is there, or cannot be written.
    pub fn settled(&self, mark: Mark, start: &Path) -> io::Result<Self> {
        let point = self.journal.settled(self.journal.point(mark));
        let whole = start.with_extension("whole");
        // Journals are made of zeros, and images would have them.
        let copied = self
            .write_image(point, Choice::None, &whole)
            .and_then(|()| copy_sparse(&whole, start));
        let removed = fs::remove_file(&whole);
        copied?;
        removed?;
        let start = File::open(start)?;
        Ok(Self {
            held: held(&start)?,
            start,
            log: self.log.try_clone()?,
            journal: self.journal.after(point),
        })
    }

    /// Writes the disk that a cut leaves to a new sparse file.
    ///
    /// # Errors
    ///
    /// The file is there, or cannot be written.
    pub fn write_image(&self, point: usize, choice: Choice, to: &Path) -> io::Result<()> {
        let image = match &self.held {
            Some(parts) => write_parts(parts, self.size()?, to)?,
            None => copy_sparse_file(&self.start, to)?,
        };
        let mut buffer = vec![0; PART as usize];
        let pieces = self.journal.survivors(point, choice);
        // What was written again as a whole is copied once: a journal is written round and round.
        let places = pieces.iter().map(|p| (p.offset, p.length));
        let last: HashMap<(u64, u64), usize> = places.zip(0..).collect();
        let is_last = |(at, piece): &(usize, &Piece)| last[&(piece.offset, piece.length)] == *at;
        for (_, piece) in pieces.iter().enumerate().filter(is_last) {
            copy(
                &self.log,
                piece.data,
                &image,
                piece.offset,
                piece.length,
                &mut buffer,
            )?;
        }
        Ok(())
    }
}

/// Copies a file to a new one with holes where it has holes or zeros.
pub(super) fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    copy_sparse_file(&File::open(from)?, to).map(drop)
}

/// All data of a file, unless it is too much.
fn held(from: &File) -> io::Result<Option<Vec<Part>>> {
    let places = data(from)?;
    let length: u64 = places.iter().map(|(at, end)| end - at).sum();
    if length > MOST_HELD as u64 {
        return Ok(None);
    }
    let part = |(at, end): (u64, u64)| {
        let mut bytes = vec![0; (end - at) as usize];
        from.read_exact_at(&mut bytes, at)?;
        Ok(Part { at, bytes })
    };
    places
        .into_iter()
        .map(part)
        .collect::<io::Result<_>>()
        .map(Some)
}

/// Writes parts to a new file of this size.
fn write_parts(parts: &[Part], size: u64, to: &Path) -> io::Result<File> {
    let made = File::create_new(to)?;
    made.set_len(size)?;
    for part in parts {
        made.write_all_at(&part.bytes, part.at)?;
    }
    Ok(made)
}

fn copy_sparse_file(from: &File, to: &Path) -> io::Result<File> {
    let made = File::create_new(to)?;
    made.set_len(from.metadata()?.len())?;
    let mut buffer = vec![0; PART as usize];
    for (mut at, end) in data(from)? {
        while at < end {
            let part = (end - at).min(PART);
            let bytes = &mut buffer[..part as usize];
            from.read_exact_at(bytes, at)?;
            write_data(bytes, &made, at)?;
            at += part;
        }
    }
    Ok(made)
}

/// Writes what is not zeros.
fn write_data(bytes: &[u8], to: &File, start: u64) -> io::Result<()> {
    let mut at = start;
    let blocks: Vec<&[u8]> = bytes.chunks(ZEROS).collect();
    let is_data = |block: &&[u8]| **block != [0; ZEROS][..block.len()];
    for run in blocks.chunk_by(|a, b| is_data(a) == is_data(b)) {
        let length: usize = run.iter().map(|block| block.len()).sum();
        if run.first().is_some_and(is_data) {
            let from = (at - start) as usize;
            to.write_all_at(&bytes[from..from + length], at)?;
        }
        at += length as u64;
    }
    Ok(())
}

fn copy(
    from: &File,
    mut at: u64,
    to: &File,
    mut place: u64,
    mut length: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    while length > 0 {
        let part = length.min(PART);
        let bytes = &mut buffer[..part as usize];
        from.read_exact_at(bytes, at)?;
        to.write_all_at(bytes, place)?;
        (at, place, length) = (at + part, place + part, length - part);
    }
    Ok(())
}

/// Where a sparse file has data: the start and the end of each part.
fn data(file: impl AsFd) -> io::Result<Vec<(u64, u64)>> {
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        match seek(&file, SeekFrom::Data(at)) {
            Ok(start) => {
                at = seek(&file, SeekFrom::Hole(start))?;
                parts.push((start, at));
            }
            // No data after it.
            Err(rustix::io::Errno::NXIO) => return Ok(parts),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volatile::{ReadAt, log::Writer};

    const SIZE: usize = 64 << 10;

    /// A disk of ones, and three writes, the first of which is flushed.
    fn written(dir: &Path) -> History {
        let (start, log) = (dir.join("start"), dir.join("log"));
        fs::write(&start, vec![1; SIZE]).unwrap();
        let mut writer = Writer::new(File::create_new(&log).unwrap());
        writer.write(0, &[2; 5000], false).unwrap();
        writer.flush(writer.writes(), false).unwrap();
        writer.write(4096, &[3; 4096], false).unwrap();
        writer.write(8000, &[4; 512], true).unwrap();
        History::open(&start, &log).unwrap()
    }

    #[test]
    fn an_image_is_what_its_view_shows() {
        let dir = tempfile::tempdir().unwrap();
        let history = written(dir.path());
        for point in 0..=history.journal().events().len() {
            for choice in [Choice::All, Choice::None, Choice::Torn(1), Choice::Torn(2)] {
                let image = dir.path().join(format!("{point} {choice}"));
                history.write_image(point, choice, &image).unwrap();
                let mut seen = vec![0; SIZE];
                history.view(point, choice).read_at(&mut seen, 0).unwrap();
                assert!(fs::read(&image).unwrap() == seen, "{choice} at {point}");
            }
        }
        let mut end = vec![0; SIZE];
        history.view(4, Choice::None).read_at(&mut end, 0).unwrap();
        assert_eq!([end[0], end[4999], end[5000]], [2, 2, 1]);
        assert_eq!([end[7999], end[8000], end[8511], end[8512]], [1, 4, 4, 1]);
    }

    /// What later cuts leave is the same, from fewer writes. A flush that covers no later write, one that failed, and
    /// blocks of zeros are among them.
    #[test]
    fn images_of_a_settled_history_are_those_of_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (start, log) = (dir.path().join("start"), dir.path().join("log"));
        fs::write(&start, vec![1; SIZE]).unwrap();
        let mut writer = Writer::new(File::create_new(&log).unwrap());
        writer.write(0, &[0; 3 * 4096], false).unwrap();
        writer.write(100, &[2; 4096], false).unwrap();
        writer.flush(2, false).unwrap();
        writer.write(4096, &[3; 4096], false).unwrap();
        writer.write(8192, &[4; 4096], false).unwrap();
        writer.flush(3, false).unwrap();
        writer.write(4096, &[5; 2048], true).unwrap();
        writer.flush(writer.writes(), true).unwrap();
        writer.write(4096, &[6; 1024], false).unwrap();
        writer.flush(4, false).unwrap();
        writer.flush(writer.writes(), false).unwrap();
        writer.write(0, &[7; 512], false).unwrap();
        let history = History::open(&start, &log).unwrap();
        let journal = history.journal();
        let settled: Vec<usize> = (0..=12).map(|point| journal.settled(point)).collect();
        assert_eq!(settled, [0, 0, 0, 3, 3, 3, 3, 3, 8, 8, 8, 11, 11]);
        for (point, before) in settled.iter().enumerate() {
            let from = dir.path().join(format!("settled-{point}"));
            let later = history.settled(journal.mark(point), &from).unwrap();
            assert_eq!(later.journal().mark(0), journal.mark(*before));
            assert!(later.held.is_some());
            for at in point..=journal.events().len() {
                let own = later.journal().point(journal.mark(at));
                assert_eq!(later.journal().cached(own), journal.cached(at), "{at}");
                for choice in [
                    Choice::All,
                    Choice::None,
                    Choice::Torn(1),
                    Choice::Subset(2),
                ] {
                    let mut seen = [vec![0; SIZE], vec![0; SIZE]];
                    history.view(at, choice).read_at(&mut seen[0], 0).unwrap();
                    later.view(own, choice).read_at(&mut seen[1], 0).unwrap();
                    assert!(seen[0] == seen[1], "{choice} at {at} from {point}");
                    let image = dir.path().join("image");
                    later.write_image(own, choice, &image).unwrap();
                    let same = fs::read(&image).unwrap() == seen[0];
                    assert!(same, "the image of {choice} at {at} from {point}");
                    fs::remove_file(&image).unwrap();
                }
            }
        }
        // Zeros are no data.
        let blocks = |name: &str| {
            let file = File::open(dir.path().join(name)).unwrap();
            let parts = data(&file).unwrap();
            parts.iter().map(|(from, to)| to - from).sum::<u64>()
        };
        assert!(blocks("settled-3") < SIZE as u64, "{}", blocks("settled-3"));
    }

    #[test]
    fn a_log_ends_with_its_last_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let journal = written(dir.path()).journal().clone();
        let (start, log) = (dir.path().join("start"), dir.path().join("log"));
        let all = fs::read(&log).unwrap();
        assert_eq!(journal.mark(4), Mark(all.len() as u64));
        for (cut, whole) in [
            (1, 3),
            (512, 3),
            (512 + 24, 3),
            (512 + 25, 2),
            (all.len(), 0),
        ] {
            fs::write(&log, &all[..all.len() - cut]).unwrap();
            let history = History::open(&start, &log).unwrap();
            assert_eq!(history.journal().events().len(), whole, "{cut}");
        }
        fs::write(&log, [7; 100]).unwrap();
        let e = History::open(&start, &log).unwrap_err();
        assert!(e.to_string().contains("is not a record"), "{e}");
    }
}
