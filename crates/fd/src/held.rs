//! Finds a file's directory one component at a time, so that no other user can lead us elsewhere.

use std::{
    collections::VecDeque,
    env,
    ffi::{OsStr, OsString},
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

use crate::{DIRECTORY, open_dir};

/// Maximum number of symbolic links in one path, as in the kernel.
const LINKS: u32 = 40;
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
}
