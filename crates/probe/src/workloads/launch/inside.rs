//! A package as the whole world of a program: every name it looks up and every byte it reads comes
//! from the layer.

use std::{fs, io, os::unix::fs::chown, path::Path};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};

use super::{below, display::Display, package, params::LaunchParams, start::Site, sys, user::User};
use crate::ProbeError;

/// Where a packaged program has its home, on a file system in memory.
pub const HOME: &str = "/tmp/home";

/// The site of a packaged program; the mounts come when the guard is a process of its own.
pub fn enter(dir: &Path, p: LaunchParams, user: Option<User>) -> Result<Site, ProbeError> {
    let root = dir.join("packaged").join(package::ROOT);
    if !root.is_dir() {
        return Err(ProbeError::new(format!(
            "{} is not there: the layer was set up without the package",
            root.display()
        )));
    }
    Ok(Site {
        p,
        dir: HOME.into(),
        root: Some(root),
        home: HOME.into(),
        display: None,
        user,
    })
}

/// Puts what is no file of the package below its root: processes, devices, room to write, X. Seen
/// by this process and its children only.
pub fn mounts(root: &Path, user: Option<User>) -> Result<(), ProbeError> {
    let all = || -> io::Result<()> {
        sys::own_mounts()?;
        mount_change(
            "/",
            MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
        )?;
        for name in ["proc", "dev"] {
            mount_bind_recursive(Path::new("/").join(name), root.join(name))?;
        }
        for name in ["tmp", "run"] {
            mount(
                "tmpfs",
                root.join(name),
                "tmpfs",
                MountFlags::empty(),
                Some(c"mode=1777"),
            )?;
        }
        let home = below(root, Path::new(HOME));
        fs::create_dir(&home)?;
        if let Some(User { uid, gid }) = user {
            chown(&home, Some(uid), Some(gid))?;
        }
        let sockets = Display::sockets();
        if sockets.is_dir() {
            let at = below(root, sockets);
            fs::create_dir(&at)?;
            mount_bind_recursive(sockets, at)?;
        }
        Ok(())
    };
    all().map_err(|e| {
        ProbeError::io("make the package the root of the program:", root, &e)
            .hint("a packaged program needs mounts: run it as root, or allow user namespaces")
    })
}
