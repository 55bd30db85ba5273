//! Files that are put into a layer: incompressible, seeded, and verifiable without the seed, unless
//! a point asks for other data.

use std::{fs, io, io::Write, path::Path};

use layermark_fd::dated;
use layermark_model::{PACKAGED_AT_ONCE, PackagedFile, Pattern};

use crate::{
    Placed, PlacedKind,
    data::{self, Noise, Stamp},
};

/// Packaged files carry a header ([`data::Stamp`]) every this many bytes.
pub(crate) const BLOCK: usize = 4096;

const CHUNK: usize = 256 * BLOCK;

/// Writes the files below `dir`, including parent directories, without syncing. An existing file of
/// the right size stays, since several points often share one. Fails with [`io::ErrorKind::Interrupted`]
/// once `go_on` is false.
pub fn write(
    dir: &Path,
    files: &[PackagedFile],
    seed: u64,
    go_on: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    for file in files {
        let path = dir.join(&file.path);
        if fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() == file.size) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let seed = data::derive(seed, &file.path);
        write_one(&path, file, seed, &mut buffer, go_on)?;
    }
    Ok(())
}

/// Copies placed files to `dir`, directories before their content. Files and directories keep their
/// modification times, because programs use them to decide whether a compiled or cached file
/// (`.pyc`, fontconfig) is still valid.
pub fn place(dir: &Path, all: &[Placed], go_on: &dyn Fn() -> bool) -> io::Result<()> {
    for placed in all {
        check(go_on)?;
        let path = dir.join(&placed.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let about = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        match &placed.kind {
            PlacedKind::Directory { .. } => fs::create_dir_all(&path),
            PlacedKind::File { source, .. } => copy(source, &path),
            PlacedKind::Link(text) => std::os::unix::fs::symlink(text, &path),
        }
        .map_err(about)?;
    }
    // Done last, because adding files to a directory changes its time.
    for placed in all {
        if let PlacedKind::Directory { modified } = placed.kind {
            let path = dir.join(&placed.path);
            let set = fs::File::open(&path).and_then(|d| dated(&d, modified));
            set.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    dated(&fs::File::open(to)?, from.metadata()?.modified()?)
}

fn check(go_on: &dyn Fn() -> bool) -> io::Result<()> {
    if go_on() {
        Ok(())
    } else {
        Err(io::ErrorKind::Interrupted.into())
    }
}

fn write_one(
    path: &Path,
    file: &PackagedFile,
    seed: u64,
    buffer: &mut [u8],
    go_on: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut out = fs::File::create(path)?;
    let mut noise = Noise::new(seed);
    let (pattern, record) = file.pattern;
    // A part holds whole records.
    let record = record.clamp(1, CHUNK as u64);
    let most = CHUNK as u64 / record * record;
    let mut offset = 0;
    while offset < file.size {
        check(go_on)?;
        let part = &mut buffer[..(file.size - offset).min(most) as usize];
        match pattern {
            Pattern::Random => noise.fill(part),
            other => data::fill(other, part, record as usize, seed ^ offset),
        }
        let stamped = part.chunks_mut(BLOCK).filter(|_| file.stamped);
        for (i, block) in stamped.enumerate() {
            data::stamp(
                block,
                Stamp {
                    seed,
                    offset: offset + (i * BLOCK) as u64,
                    generation: 0,
                },
            );
        }
        for piece in part.chunks(PACKAGED_AT_ONCE) {
            out.write_all(piece)?;
        }
        offset += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_is_placed_keeps_its_times() {
        let dir = tempfile::tempdir().unwrap();
        let (source, to) = (dir.path().join("source"), dir.path().join("to"));
        fs::write(&source, b"x").unwrap();
        let time = |n| SystemTime::UNIX_EPOCH + Duration::from_nanos(n);
        let file = fs::File::open(&source).unwrap();
        file.set_modified(time(1_234_567_890_123_456_789)).unwrap();
        let kinds = [
            ("d", PlacedKind::Directory { modified: time(7) }),
            ("d/e", PlacedKind::Directory { modified: time(8) }),
            ("d/e/f", PlacedKind::File { source, size: 1 }),
            ("d/g", PlacedKind::Link("e".into())),
        ];
        let all = kinds.map(|(path, kind)| Placed {
            path: path.into(),
            kind,
        });
        place(&to, &all, &|| true).unwrap();
        let of = |name: &str| to.join(name).metadata().unwrap().modified().unwrap();
        assert_eq!(of("d/g/f"), time(1_234_567_890_123_456_789));
        assert_eq!((of("d"), of("d/e")), (time(7), time(8)));
    }

    #[test]
    fn files_are_seeded_stamped_and_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            PackagedFile::random("a/b".into(), 10_000),
            PackagedFile::random("empty".into(), 0),
            PackagedFile::random("large".into(), CHUNK as u64 + 5000),
        ];
        write(dir.path(), &files, 7, &|| true).unwrap();
        let bytes = fs::read(dir.path().join("a/b")).unwrap();
        assert_eq!(bytes.len(), 10_000);
        assert_eq!(fs::metadata(dir.path().join("empty")).unwrap().len(), 0);
        for (i, block) in bytes.chunks(BLOCK).enumerate() {
            let stamp = data::read_stamp(block).unwrap();
            assert_eq!((stamp.offset, stamp.generation), ((i * BLOCK) as u64, 0));
        }
        let time = fs::metadata(dir.path().join("a/b"))
            .unwrap()
            .modified()
            .unwrap();
        write(dir.path(), &files, 8, &|| true).unwrap();
        assert_eq!(
            fs::metadata(dir.path().join("a/b"))
                .unwrap()
                .modified()
                .unwrap(),
            time
        );

        let other = tempfile::tempdir().unwrap();
        write(other.path(), &files, 7, &|| true).unwrap();
        assert_eq!(fs::read(other.path().join("a/b")).unwrap(), bytes);
    }

    #[test]
    fn other_data_is_as_asked_in_each_record() {
        let dir = tempfile::tempdir().unwrap();
        let file = |pattern, record, stamped| PackagedFile {
            pattern: (pattern, record),
            stamped,
            ..PackagedFile::random(format!("{pattern:?}-{stamped}"), CHUNK as u64 + 9000)
        };
        let read = |file: &PackagedFile| {
            write(dir.path(), std::slice::from_ref(file), 7, &|| true).unwrap();
            fs::read(dir.path().join(&file.path)).unwrap()
        };
        assert!(
            read(&file(Pattern::Zeros, 4096, false))
                .iter()
                .all(|b| *b == 0)
        );
        let lines = read(&file(Pattern::ACrlf, 3000, false));
        let ends = lines.chunks_exact(3000).all(|r| r.ends_with(b"A\r\n"));
        assert!(ends && lines.split(|b| *b == b'\n').count() == lines.len() / 3000 + 2);
        let checked = read(&file(Pattern::Zeros, 4096, true));
        let zeros: usize = checked.iter().map(|b| usize::from(*b == 0)).sum();
        assert!(zeros > checked.len() * 9 / 10 && data::read_stamp(&checked[4096..8192]).is_some());
    }
}
