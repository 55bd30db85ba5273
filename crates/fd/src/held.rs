//! Finds a file's directory one component at a time, so that no other user can lead us elsewhere.

use std::{
    collections::VecDeque,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Component, Path, PathBuf},
};

use layermark_sys::users::UidMap;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat},
    io::Errno,
    process::geteuid,
};

use crate::{DIRECTORY, open_dir, open_file};

/// Maximum number of symbolic links in one path, as in the kernel.
const LINKS: u32 = 40;
/// The mode bit of a directory in which only its owner and a file's owner can rename or remove the file.
const STICKY: u32 = 0o1000;
/// The id that represents users without an id in a user namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW: u32 = 65534;

/// An open directory.
#[derive(Debug)]
pub struct HeldDir {
    /// The directory itself.
    pub fd: OwnedFd,
    /// Its absolute path, without symbolic links.
    pub path: PathBuf,
}

/// A file that exists or will be created.
#[derive(Debug)]
pub struct Held {
    /// Its directory.
    pub dir: HeldDir,
    /// Its name there. It is not a symbolic link, unless one appears later.
    pub name: OsString,
    /// Whether the path ended with a symbolic link, which was followed.
    pub linked: bool,
}

/// The reason that a directory cannot be held.
#[derive(Debug)]
pub enum Refused {
    /// This directory or symbolic link on the path was refused.
    At(PathBuf),
    /// The kernel's error.
    Io(io::Error),
}

impl From<Errno> for Refused {
    fn from(e: Errno) -> Self {
        Self::Io(e.into())
    }
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl HeldDir {
    /// Finds the directory at `path`. With `make`, missing directories are created with mode 0700.
    /// `refuse` checks each directory and symbolic link on the path, with an open descriptor of the
    /// directory, before anything is looked up in it.
    pub fn find(
        path: &Path,
        make: bool,
        refuse: &mut impl FnMut(&Path, &Stat) -> bool,
    ) -> Result<Self, Refused> {
        let whole = if path.is_absolute() {
            path.to_owned()
        } else {
            env::current_dir()?.join(path)
        };
        let mut left = parts(&whole);
        let (mut at, mut dir, mut links) = (PathBuf::from("/"), root()?, 0);
        look(refuse, &at, &dir)?;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                dir = openat(&dir, "..", OFlags::PATH | DIRECTORY, Mode::empty())?;
                at.pop();
                continue;
            }
            let next = match open_any(&dir, &part) {
                Err(Errno::NOENT) if make => {
                    match mkdirat(&dir, &part, Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(e) => return Err(e.into()),
                    }
                    open_any(&dir, &part)?
                }
                other => other?,
            };
            let here = at.join(&part);
            if !is_link(&next)? {
                dir = openat(&next, ".", OFlags::PATH | DIRECTORY, Mode::empty())?;
                at = here;
                look(refuse, &at, &dir)?;
                continue;
            }
            look(refuse, &here, &next)?;
            links += 1;
            if links > LINKS {
                return Err(Errno::LOOP.into());
            }
            let to = target(&next)?;
            if to.is_absolute() {
                (at, dir) = ("/".into(), root()?);
            }
            for part in parts(&to).into_iter().rev() {
                left.push_front(part);
            }
        }
        let (fd, path) = (open_dir(&dir, ".")?, at);
        Ok(Self { fd, path })
    }
}

impl Held {
    /// Finds the directory of the file at `path`, as [`HeldDir::find`] does. A symbolic link there is
    /// followed.
    pub fn find(
        path: &Path,
        make: bool,
        mut refuse: impl FnMut(&Path, &Stat) -> bool,
    ) -> Result<Self, Refused> {
        let mut path = path.to_owned();
        for links in 0..=LINKS {
            // `/`, and a path that ends with `..`, are directories.
            let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
            let parent = path.parent().unwrap_or(Path::new("/"));
            let dir = HeldDir::find(parent, make, &mut refuse)?;
            match open_any(&dir.fd, &name) {
                Ok(file) if is_link(&file)? => {
                    look(&mut refuse, &dir.path.join(&name), &file)?;
                    path = dir.path.join(target(&file)?);
                }
                Ok(_) | Err(Errno::NOENT) => {
                    let linked = links > 0;
                    return Ok(Self { dir, name, linked });
                }
                Err(e) => return Err(e.into()),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// The path without symbolic links.
    pub fn file(&self) -> PathBuf {
        self.dir.path.join(&self.name)
    }
}

fn look(
    refuse: &mut impl FnMut(&Path, &Stat) -> bool,
    path: &Path,
    fd: &OwnedFd,
) -> Result<(), Refused> {
    if refuse(path, &fstat(fd)?) {
        return Err(Refused::At(path.into()));
    }
    Ok(())
}

/// Opens the file with this name, even if it is a symbolic link.
fn open_any(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// The target of a symbolic link.
fn target(link: &OwnedFd) -> Result<PathBuf, Errno> {
    let to = readlinkat(link, "", Vec::new())?;
    Ok(OsString::from_vec(to.into_bytes()).into())
}

fn root() -> Result<OwnedFd, Errno> {
    openat(CWD, "/", OFlags::PATH | DIRECTORY, Mode::empty())
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    });
    names.collect()
}

fn is_link(fd: &OwnedFd) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode).is_symlink())
}

/// Whether a file's owner is this user or root. In a user namespace, root and most other users have
/// the same id, so all of them pass.
pub fn is_trusted(stat: &Stat) -> bool {
    let us = geteuid().as_raw();
    [0, us].contains(&stat.st_uid) || (stat.st_uid == OVERFLOW && !is_mapped(OVERFLOW))
}

/// Whether others may create and rename files in a directory. For root, a group counts as others; a
/// user's own group often has only that user.
pub fn is_open_to_others(stat: &Stat) -> bool {
    stat.st_mode & if is_root() { 0o022 } else { 0o002 } != 0
}

/// Whether other users could lead a path elsewhere that has this directory or symbolic link on it.
/// In a sticky directory they cannot replace what is not theirs.
pub fn is_exposed(stat: &Stat) -> bool {
    let link = FileType::from_raw_mode(stat.st_mode).is_symlink();
    let sticky = stat.st_mode & STICKY != 0;
    !is_trusted(stat) || (!link && !sticky && is_open_to_others(stat))
}

/// Opens a regular file that no other user can change, in a directory where no other user can put
/// one, on a path that no other user can lead elsewhere. Never waits.
pub fn open_own(path: &Path) -> Result<File, Refused> {
    let held = Held::find(path, false, |_, stat| is_exposed(stat))?;
    if is_open_to_others(&fstat(&held.dir.fd)?) {
        return Err(Refused::At(held.dir.path));
    }
    let file = open_file(&held.dir.fd, &held.name)?;
    let stat = fstat(&file)?;
    if !is_trusted(&stat) || is_open_to_others(&stat) {
        return Err(Refused::At(held.file()));
    }
    Ok(file)
}

/// Whether this user is root, and other users have different ids.
pub fn is_root() -> bool {
    geteuid().is_root() && is_mapped(OVERFLOW)
}

/// Whether a user has an id here (`user_namespaces(7)`).
fn is_mapped(uid: u32) -> bool {
    // A kernel without user namespaces has no map.
    UidMap::own().map_or(true, |map| map.has(uid))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::*;

    fn never(_: &Path, _: &Stat) -> bool {
        false
    }

    #[test]
    fn directories_are_made_for_us_alone_and_links_are_followed() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        let held = Held::find(&home.join("a/b/file"), true, never).unwrap();
        assert_eq!(
            (held.dir.path.as_path(), held.linked),
            (&*home.join("a/b"), false)
        );
        for made in ["a", "a/b"] {
            assert_eq!(fs::metadata(home.join(made)).unwrap().mode() & 0o777, 0o700);
        }
        symlink("../a/b", home.join("a/to")).unwrap();
        symlink(home.join("a/to/file"), home.join("link")).unwrap();
        let held = Held::find(&home.join("a/../link"), false, never).unwrap();
        assert_eq!((held.file(), held.linked), (home.join("a/b/file"), true));
        symlink("round", home.join("round")).unwrap();
        for bad in ["round", "none/file", "link/file", ".."] {
            assert!(Held::find(&home.join(bad), false, never).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_refused_on_the_way_is_named_and_nothing_is_made_behind_it() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        fs::create_dir(home.join("open")).unwrap();
        fs::set_permissions(home.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Held::find(&home.join("open/new/file"), true, |_, stat| {
            is_open_to_others(stat) && stat.st_mode & 0o1000 == 0
        });
        assert!(matches!(refused, Err(Refused::At(by)) if by == home.join("open")));
        assert!(!home.join("open/new").exists());
    }

    #[test]
    fn a_file_that_others_could_exchange_is_not_own() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        let file = home.join("dir/file");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let refused = || match open_own(&file) {
            Err(Refused::At(by)) => Some(by),
            opened => opened.map(|_| None).unwrap(),
        };
        fs::create_dir(home.join("dir")).unwrap();
        fs::write(&file, b"x").unwrap();
        mode(&file, 0o644);
        assert_eq!(refused(), None);
        for (path, open) in [
            (&file, 0o666),
            (&home.join("dir"), 0o777),
            // Nothing of ours can be replaced there, but the file may not have been there before.
            (&home.join("dir"), 0o1777),
            (&home, 0o777),
        ] {
            let before = fs::metadata(path).unwrap().mode() & 0o7777;
            mode(path, open);
            assert_eq!(refused().as_ref(), Some(path), "{open:o}");
            mode(path, before);
        }
        mode(&home, 0o1777);
        assert_eq!(refused(), None);
        if is_root() {
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            assert_eq!(refused(), Some(file.clone()));
        }
        // A FIFO without a writer is not waited for.
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(CWD, &file, FileType::Fifo, Mode::from(0o600), 0).unwrap();
        let e = open_own(&file).unwrap_err();
        assert!(matches!(e, Refused::Io(e) if e.to_string() == "it is not a file"));
        assert!(crate::open_now(&file).is_ok() && crate::open_now(&home).is_ok());
    }
}
