//! The mounts of this process, as the kernel lists them.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// A line of `/proc/self/mountinfo`, see proc(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Id of the mount, unique while it lasts.
    pub id: u64,
    /// `major:minor` of the files in it.
    pub device: String,
    /// Root of the mount within its file system; `/` unless it is a bind mount.
    pub root: PathBuf,
    /// Mount point.
    pub at: PathBuf,
    /// Options of this mount.
    pub options: String,
    /// Type of file system.
    pub fs: String,
    /// Device, image or server.
    pub source: OsString,
    /// Options of the file system.
    pub fs_options: OsString,
}

/// Parses the text of a `mountinfo`. Lines that proc(5) does not describe are skipped.
pub fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|b| *b == b' ');
    let mut next = || fields.next().map(unescape);
    let id = next()?.to_str()?.parse().ok()?;
    let _parent = next()?;
    let device = next()?.into_string().ok()?;
    let (root, at) = (next()?.into(), next()?.into());
    let options = next()?.into_string().ok()?;
    // Any number of optional fields, then a lone dash.
    while next()? != "-" {}
    Some(MountEntry {
        id,
        device,
        root,
        at,
        options,
        fs: next()?.into_string().ok()?,
        source: next()?,
        fs_options: next().unwrap_or_default(),
    })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes)
}

/// The mounts of this process.
pub fn list() -> io::Result<Vec<MountEntry>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// The mount of this process that holds `path`.
pub(crate) fn own(path: &Path) -> io::Result<MountEntry> {
    fs::metadata(path)?;
    let mounts = list()?;
    let Some(id) = id_of(path) else {
        // Before Linux 5.8 it is the longest path, and the last mount of those.
        let path = fs::canonicalize(path)?;
        let around = mounts.into_iter().filter(|m| path.starts_with(&m.at));
        let longest = around.max_by_key(|m| m.at.as_os_str().len());
        return longest.ok_or_else(|| unseen(&path));
    };
    let found = mounts.into_iter().find(|m| m.id == id);
    found.ok_or_else(|| unseen(path))
}

/// The id of the mount that holds `path`, even if mounts are stacked; `None` before Linux 5.8.
pub(crate) fn id_of(path: &Path) -> Option<u64> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

pub(crate) fn unseen(path: &Path) -> io::Error {
    let text = format!("{} is on no mount that can be seen", path.display());
    io::Error::new(io::ErrorKind::NotFound, text)
}
