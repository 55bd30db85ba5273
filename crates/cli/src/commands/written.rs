//! The record of the files that `-o` wrote: only those are replaced without `--force`.
//!
//! It is the file `written` in the user's data directory, with the size and the SHA-256 of each. So
//! a report is known under any name, whichever store its run is in. One that was changed is not.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

use layermark_fd::{HeldDir, is_open_to_others, is_trusted, path_of};
use layermark_model::hex;
use rustix::fs::{FileType, Mode, OFlags, Stat, openat};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

const NAME: &str = "written";
/// The record's maximum size in bytes, enough for 14,000 files. Then its older half is dropped.
const LONGEST: u64 = 1 << 20;

/// Whether layermark wrote this file and nobody changed it since. An empty file may be replaced too.
pub fn is_own(file: &mut File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(true);
    }
    let known = lines();
    // Otherwise a large file of another program would be read.
    let of_size = format!("{size} ");
    if !known.iter().any(|line| line.starts_with(&of_size)) {
        return Ok(false);
    }
    Ok(known.contains(&line(file)?))
}

/// Records a complete file. Where that is not possible, replacing it will need `--force`.
pub fn add(file: &mut File) {
    let _ = append(file);
}

fn append(file: &mut File) -> io::Result<()> {
    let (new, known) = (line(file)?, lines());
    if known.contains(&new) {
        return Ok(());
    }
    let dir = directory(true)?;
    let mut record = open(&dir, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
    record.write_all(format!("{new}\n").as_bytes())?;
    if record.metadata()?.len() > LONGEST {
        let mut newer = NamedTempFile::new_in(path_of(&dir.fd))?;
        newer.write_all(known[known.len() / 2..].join("\n").as_bytes())?;
        newer.write_all(format!("\n{new}\n").as_bytes())?;
        newer.persist(path_of(&dir.fd).join(NAME))?;
    }
    Ok(())
}

/// The lines of the record; none if it does not exist or is not ours.
fn lines() -> Vec<String> {
    let text = || -> io::Result<String> {
        let mut text = String::new();
        open(&directory(false)?, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = text().unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The line of a file: its size in bytes and its SHA-256.
fn line(file: &mut File) -> io::Result<String> {
    let mut content = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut content)?;
    let hash = hex(Sha256::digest(&content));
    Ok(format!("{} {hash}", content.len()))
}

/// The user's data directory, made with mode 0700 if `make`.
pub fn directory(make: bool) -> io::Result<HeldDir> {
    let store = layermark_store::default_path().map_err(io::Error::other)?;
    let data = store.parent().unwrap_or(Path::new("/"));
    HeldDir::find(data, make, &mut misleads).map_err(|_| io::ErrorKind::NotFound.into())
}

/// Opens the record. As root, the data directory may be another user's, who could put a link to a
/// file of root's there.
fn open(dir: &HeldDir, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let record = File::from(openat(&dir.fd, NAME, flags, Mode::RUSR | Mode::WUSR)?);
    let found = record.metadata()?;
    if found.is_file() && found.nlink() == 1 && is_ours(&found) {
        Ok(record)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Whether another user could redirect root here: through a symbolic link, or in a directory where
/// others can replace files.
pub fn misleads(_: &Path, stat: &Stat) -> bool {
    let link = FileType::from_raw_mode(stat.st_mode).is_symlink();
    let sticky = stat.st_mode & 0o1000 != 0;
    layermark_fd::is_root()
        && if link {
            !is_trusted(stat)
        } else {
            !sticky && is_open_to_others(stat)
        }
}

pub fn is_ours(file: &Metadata) -> bool {
    file.uid() == rustix::process::geteuid().as_raw()
}
