//! Mounts: reading, making and ending them, and checks that they exist.

use std::{
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use layermark_model::{ENCRYPTION, Facts, Mount};
use layermark_sys::block;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, openat, openat2, statfs, statx},
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};

use crate::{LayerError, devices, fd, foreign::Foreign, served};

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

/// Opens the directory `name` in `at` as `how` says. A link is refused, and with `XDEV` a directory on which
/// something is mounted: the file system there is asked nothing, because its server may never answer.
pub(crate) fn open_unmounted(at: impl AsFd, name: &OsStr, how: OFlags) -> Result<OwnedFd, Errno> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(&at, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        // Before Linux 5.6, and in containers whose filter does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let path = fd::shown(&at).join(name);
            if list().is_ok_and(|all| all.iter().any(|mount| mount.at == path)) {
                return Err(Errno::XDEV);
            }
            openat(at, name, flags, Mode::empty())
        }
        opened => opened,
    }
}

/// Whether the file system at `dir` answers within `limit`, even with an error. A separate thread
/// makes the call, because it may wait for a dead server for ever. A directory that [`served::lose`]
/// has recorded is not asked again.
pub fn answers(dir: &Path, limit: Duration) -> bool {
    if served::is_silent(dir) {
        return false;
    }
    let (dir, (tell, told)) = (dir.to_owned(), mpsc::channel());
    let asked = thread::Builder::new()
        .name("answers".into())
        .spawn(move || {
            let _ = statfs(&dir);
            // The receiver is gone once the limit has passed.
            let _ = tell.send(());
        });
    let answers =
        asked.is_err() || told.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout);
    if !answers {
        served::give_up();
    }
    answers
}

/// A number of the mount that is unique since boot, where the kernel has it (Linux 6.8). Otherwise
/// its mount id, which is unique among current mounts.
pub(crate) fn number(dir: &Path) -> Option<u64> {
    const MNT_ID_UNIQUE: u32 = 0x4000;
    [MNT_ID_UNIQUE, StatxFlags::MNT_ID.bits()]
        .into_iter()
        .find_map(|which| {
            let wanted = StatxFlags::from_bits_retain(which);
            let found = statx(CWD, dir, AtFlags::empty(), wanted).ok()?;
            (found.stx_mask & which != 0).then_some(found.stx_mnt_id)
        })
}

/// The mount that holds `path`: a mount of this process, or of the one whose `/proc/PID/root` is on
/// the path.
pub fn holding(path: &Path) -> io::Result<MountEntry> {
    fs::metadata(path)?;
    let mounts = list()?;
    let Some(id) = id_of(path) else {
        // Before Linux 5.8 it is the longest path, and the last mount of those.
        let path = fs::canonicalize(path)?;
        let around = mounts.into_iter().filter(|m| path.starts_with(&m.at));
        let longest = around.max_by_key(|m| m.at.as_os_str().len());
        return longest.ok_or_else(|| unseen(&path));
    };
    if let Some(mount) = mounts.iter().find(|m| m.id == id) {
        return Ok(mount.clone());
    }
    if let Some(foreign) = Foreign::of(&std::path::absolute(path)?)? {
        return foreign.holding(path);
    }
    // On a mount of another namespace that is equal to one of our own.
    let ours = id_of(&fs::canonicalize(path)?);
    let found = mounts.into_iter().find(|m| Some(m.id) == ours);
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

/// File systems and their numbers in statfs(2) (linux/magic.h).
const MAGIC: &[(&str, u32)] = &[
    ("btrfs", 0x9123_683e),
    ("erofs", 0xe0f5_e1e2),
    ("ext4", 0xef53),
    ("fuse", 0x6573_5546),
    ("overlay", 0x794c_7630),
    ("squashfs", 0x7371_7368),
    ("tmpfs", 0x0102_1994),
    ("xfs", 0x5846_5342),
];

/// Checks that a file system of type `fs` is mounted at `dir` itself. After a failed mount, the
/// directory below would be measured instead.
pub fn assert_mounted(layer: &str, dir: &Path, fs: &str) -> Result<MountEntry, LayerError> {
    let error = LayerError::io(layer, "look for the mount at", dir);
    let check = || -> io::Result<(MountEntry, bool)> {
        let real = fs::canonicalize(dir)?;
        let entry = holding(&real)?;
        // A sub-type follows a dot: `fuse.squashfuse`.
        let kind = entry.fs.split('.').next().unwrap_or_default();
        let magic = statfs(&real)?.f_type as u32;
        let as_expected = MAGIC.iter().all(|(n, m)| *n != fs || *m == magic);
        let good = entry.at == real && kind == fs && as_expected;
        Ok((entry, good))
    };
    match check().map_err(error)? {
        (entry, true) => Ok(entry),
        (entry, false) => Err(LayerError::NotMounted {
            layer: layer.into(),
            path: dir.into(),
            expected: fs.into(),
            found: format!("on {} mounted at {}", entry.fs, entry.at.display()),
        }),
    }
}

/// Facts about the mount that holds `dir`, the mounts below it in the stack, and the block devices
/// at the bottom.
pub fn facts_of(dir: &Path) -> io::Result<Facts> {
    let mut facts = Facts::default();
    add_facts(dir, &mut facts, 0)?;
    Ok(facts)
}

/// File systems that encrypt what they store.
const ENCRYPTING: [&str; 5] = [
    "ecryptfs",
    "fuse.cryfs",
    "fuse.encfs",
    "fuse.gocryptfs",
    "fuse.securefs",
];

/// Maximum depth of a stack of mounts: the kernel allows two levels of overlay.
const DEEPEST: usize = 8;

/// Appends the facts about the mounts and devices below `path`.
pub(crate) fn add_facts(path: &Path, facts: &mut Facts, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Ok(());
    }
    let entry = holding(path)?;
    let mount = as_fact(&entry);
    if !facts.mounts.contains(&mount) {
        facts.mounts.push(mount);
    }
    // An overlay reads the file of a directory below it, with the read-ahead of that one.
    if facts.read_ahead_kb.is_none() && entry.fs != "overlay" {
        facts.read_ahead_kb = block::read_ahead_kb(&entry.device);
    }
    if ENCRYPTING.contains(&entry.fs.as_str()) {
        let with = entry.fs.trim_start_matches("fuse.");
        facts.notes.insert(ENCRYPTION.into(), with.into());
    }
    let mut devices = Vec::new();
    if entry.device.starts_with("0:") {
        for below in sources(&entry) {
            // An overlay's directories may be outside what this process can see, and a source may
            // be a name that only looks like a directory.
            if below.is_absolute() && below.is_dir() {
                add_facts(&below, facts, depth + 1)?;
            } else if let Some(number) = devices::number_of_node(&below) {
                devices.push(number);
            }
        }
    } else {
        devices.push(entry.device.clone());
    }
    for number in devices {
        for backing in devices::add_chain(&number, facts) {
            if !facts.backing.contains(&backing) {
                facts.backing.push(backing.clone());
            }
            if backing.exists() {
                add_facts(&backing, facts, depth + 1)?;
            }
        }
    }
    Ok(())
}

fn as_fact(entry: &MountEntry) -> Mount {
    let mut options = entry.options.clone();
    let own = entry.fs_options.to_string_lossy();
    for option in own.split(',') {
        if !option.is_empty() && !options.split(',').any(|o| o == option) {
            options = format!("{options},{option}");
        }
    }
    Mount {
        at: entry.at.clone(),
        fs: entry.fs.clone(),
        source: entry.source.to_string_lossy().into_owned(),
        options,
    }
}

/// Where a file system without its own device number keeps its data.
fn sources(entry: &MountEntry) -> Vec<PathBuf> {
    if entry.fs == "overlay" {
        return overlay_dirs(entry.fs_options.as_bytes());
    }
    // bindfs, gocryptfs and others report the directory they show as their source. Sources of
    // servers are names such as `box:/srv`.
    let is_fuse = entry.fs == "fuse" || entry.fs.starts_with("fuse.");
    if is_fuse && Path::new(&entry.source).is_absolute()
        || entry.source.as_bytes().starts_with(b"/dev/")
    {
        return vec![PathBuf::from(&entry.source)];
    }
    Vec::new()
}

/// Upper directory first, then the lower ones.
fn overlay_dirs(options: &[u8]) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for option in split_escaped(options, b',') {
        if let Some(dir) = option.strip_prefix(b"upperdir=") {
            dirs.insert(0, PathBuf::from(OsString::from_vec(plain(dir))));
        } else if let Some(lower) = option.strip_prefix(b"lowerdir+=") {
            dirs.push(PathBuf::from(OsString::from_vec(plain(lower))));
        } else if let Some(lower) = option.strip_prefix(b"lowerdir=") {
            let each = split_escaped(lower, b':');
            dirs.extend(each.map(|d| PathBuf::from(OsString::from_vec(plain(d)))));
        }
    }
    dirs
}

/// Splits at separators that no backslash precedes.
fn split_escaped(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut escaped = false;
    text.split(move |b| {
        let splits = *b == separator && !escaped;
        escaped = *b == b'\\' && !escaped;
        splits
    })
}

fn plain(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut escaped = false;
    for b in text {
        if *b == b'\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        bytes.push(*b);
    }
    bytes
}

/// A directory, escaped for an overlay's options.
pub(crate) fn overlay_escape(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for b in dir.as_os_str().as_bytes() {
        if matches!(b, b':' | b',' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*b);
    }
    bytes
}

/// Calls mount(2) with `nosuid,nodev`: no layer needs set-uid programs or devices.
pub(crate) fn mount(
    source: &Path,
    at: &Path,
    fs: &str,
    read_only: bool,
    options: &[u8],
) -> io::Result<()> {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    let options = CString::new(options)?;
    rustix::mount::mount(source, at, fs, flags, Some(options.as_c_str()))?;
    Ok(())
}

/// Detaches every mount at `at`, even when files are open in it. No error if nothing is mounted.
pub(crate) fn unmount(at: &Path) -> io::Result<()> {
    loop {
        match rustix::mount::unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Unmounts `at` now, so that the directory below can be changed. Waits briefly for processes that
/// still have files open in it.
pub(crate) fn unmount_now(at: &Path) -> io::Result<()> {
    let pauses = [1, 2, 5, 10, 20, 50, 100, 200, 500];
    for pause in pauses {
        match rustix::mount::unmount(at, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(pause));
            }
            other => return Ok(other?),
        }
    }
    Ok(rustix::mount::unmount(at, UnmountFlags::NOFOLLOW)?)
}

/// Mounts, adds the undo step, and proves that it is mounted.
pub(crate) fn mount_undone(
    layer: &str,
    source: &Path,
    at: &Path,
    fs: &str,
    read_only: bool,
    options: &[u8],
    undo: &mut crate::Undo,
) -> Result<(), LayerError> {
    let what = format!("mount {fs} on");
    mount(source, at, fs, read_only, options).map_err(LayerError::io(layer, &what, at))?;
    let mounted = at.to_path_buf();
    undo.push(format!("unmount {}", at.display()), move || {
        unmount(&mounted)
    });
    assert_mounted(layer, at, fs).map(drop)
}

#[cfg(test)]
mod tests;
