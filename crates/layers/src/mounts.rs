//! Mounts: reading, making and ending them, and checks that they exist.

use std::{
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
};

use layermark_model::{ENCRYPTION, Facts, Mount};
use layermark_sys::{block, kernel_log::KernelLog};
use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxFlags, openat, openat2,
        statfs, statvfs, statx,
    },
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount_remount},
};

use crate::{LayerError, devices, fd, foreign::Foreign, mount_table};

pub use crate::mount_table::{MountEntry, list, parse};

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

/// Device number and type of the file system at `dir`, read in some microseconds; `None` if there is none.
pub fn ground(dir: &Path) -> Option<(u64, i64)> {
    let device = rustix::fs::stat(dir).ok()?.st_dev;
    Some((device, statfs(dir).ok()?.f_type))
}

/// A number of the mount that is unique since boot, where the kernel has it (Linux 6.8). Otherwise
/// its mount id, which is unique among current mounts.
pub fn number(dir: &Path) -> Option<u64> {
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
    match mount_table::own(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && fs::metadata(path).is_ok() => {}
        found => return found,
    }
    if let Some(foreign) = Foreign::of(&std::path::absolute(path)?)? {
        return foreign.holding(path);
    }
    // On a mount of another namespace that is equal to one of our own.
    mount_table::own(&fs::canonicalize(path)?)
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

/// Makes a bind mount at `at` read only. The file system itself, and its other mounts, stay as they are.
///
/// The other mount options must be repeated: in a user namespace those of the mount below may not be removed. The kernel
/// keeps those about access times where none is given.
pub(crate) fn make_read_only(at: &Path) -> io::Result<()> {
    // Linux 5.10; rustix has only the flag of mount(2).
    const ST_NOSYMFOLLOW: StatVfsMountFlags = StatVfsMountFlags::from_bits_retain(0x2000);
    let kept = statvfs(at)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (has, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (ST_NOSYMFOLLOW, MountFlags::NOSYMFOLLOW),
    ] {
        flags.set(flag, kept.contains(has));
    }
    mount_remount(at, flags, c"")?;
    if statvfs(at)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    Err(io::Error::other("it can be written to all the same"))
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

/// Ends all calls that wait for the server of the FUSE file system at `at`, and unmounts it. Only root of the machine may do
/// that: for another user it does nothing.
pub(crate) fn abort(at: &Path) {
    let how = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    // If it is not mounted, nobody waits for it.
    let _ = rustix::mount::unmount(at, how);
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

/// An error of mount(2) with what the kernel has logged about the device meanwhile.
fn with_complaint(e: io::Error, said: Option<String>) -> io::Error {
    match said {
        Some(said) if !crate::of_host::is_of_host(&e) => {
            io::Error::new(e.kind(), format!("{e}; the kernel says: {said}"))
        }
        _ => e,
    }
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
    let log = source.starts_with("/dev").then(KernelLog::from_now);
    mount(source, at, fs, read_only, options)
        .map_err(|e| with_complaint(e, log.and_then(|log| log.about(source))))
        .map_err(LayerError::io(layer, &what, at))?;
    let mounted = at.to_path_buf();
    undo.push(format!("unmount {}", at.display()), move || {
        unmount(&mounted)
    });
    assert_mounted(layer, at, fs).map(drop)
}

#[cfg(test)]
mod tests;
