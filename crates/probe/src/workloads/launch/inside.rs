//! A package as the program's root: every name that it looks up and every byte that it reads comes
//! from the layer.

use std::{
    fs, io,
    os::unix::fs::chown,
    path::{Path, PathBuf},
};

use layermark_model::Environment;
use rustix::mount::{MountFlags, mount, mount_bind_recursive};

use super::{below, display::Display, package, params::LaunchParams, start::LaunchSite};
use crate::ProbeError;
use crate::programs::{sys, user::User};

/// Home of a packaged program, on a file system in memory.
pub const HOME: &str = "/tmp/home";

/// The site of a packaged program. The mounts are made later in the guard's process.
pub fn enter(
    dir: &Path,
    p: LaunchParams,
    env: Environment,
    user: Option<User>,
) -> Result<LaunchSite, ProbeError> {
    let root = dir.join("packaged").join(package::ROOT);
    if !root.is_dir() {
        return Err(ProbeError::new(format!(
            "{} is not there: the layer was set up without the package",
            root.display()
        )));
    }
    Ok(at_home(p, env, Some(root), user))
}

/// A program that is started in [`HOME`].
pub fn at_home(
    p: LaunchParams,
    env: Environment,
    root: Option<PathBuf>,
    user: Option<User>,
) -> LaunchSite {
    LaunchSite {
        p,
        dir: HOME.into(),
        root,
        home: HOME.into(),
        env,
        display: None,
        user,
    }
}

/// Makes mounts below the package's root for what it lacks: processes, devices, writable space, X.
/// Only this process and its children see the mounts.
pub fn mounts(root: &Path, user: Option<User>, windows: bool) -> Result<(), ProbeError> {
    let all = || -> io::Result<()> {
        sys::own_mounts()?;
        for name in ["proc", "dev"] {
            mount_bind_recursive(Path::new("/").join(name), root.join(name))?;
        }
        in_memory(&root.join("run"))?;
        home(root, user)?;
        if windows {
            let at = below(root, Display::sockets());
            fs::create_dir(&at)?;
            mount_bind_recursive(Display::sockets(), at)?;
        }
        Ok(())
    };
    all().map_err(|e| {
        ProbeError::io("make the package the root of the program:", root, &e)
            .hint("a packaged program needs mounts: run it as root, or allow user namespaces")
    })
}

/// The same writable space for a program that is launched natively to find its package: an empty
/// `/tmp` with its home, in memory. Other processes do not see it and could not put anything there.
pub fn room(user: Option<User>) -> Result<(), ProbeError> {
    let made = sys::own_mounts().and_then(|()| home(Path::new("/"), user));
    made.map_err(|e| {
        ProbeError::io("make room for the program in", Path::new(HOME), &e)
            .hint("a package needs mounts: run it as root, or allow user namespaces")
    })
}

fn home(root: &Path, user: Option<User>) -> io::Result<()> {
    in_memory(&root.join("tmp"))?;
    let home = below(root, Path::new(HOME));
    fs::create_dir(&home)?;
    match user {
        Some(User { uid, gid }) => chown(&home, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn in_memory(at: &Path) -> io::Result<()> {
    let all_may_write = Some(c"mode=1777");
    Ok(mount(
        "tmpfs",
        at,
        "tmpfs",
        MountFlags::empty(),
        all_may_write,
    )?)
}
