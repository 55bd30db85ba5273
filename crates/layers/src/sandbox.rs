//! A private mount namespace, so that no mount outlives the run or is visible to others.
#![allow(unsafe_code)]

use std::{fmt, fs, io, path::Path, sync::OnceLock};

use layermark_model::Missing;
use layermark_sys::users::UidMap;
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};

use crate::{LayerError, janitor};

/// Which mounts the run may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Root of this machine with the right to mount: every layer can be built.
    Root,
    /// Root in a user namespace, ours or the one in which layermark was started: overlay, tmpfs and
    /// fuse can be built.
    UserNamespace,
    /// No mounts at all: only `native`, `dir` and most kinds of `vm` can be built.
    None,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::UserNamespace => "user namespace",
            Self::None => "none",
        })
    }
}

static PRIVILEGE: OnceLock<Privilege> = OnceLock::new();

/// Enters a private mount namespace. Call it first in `main`, while there is only one thread: a
/// process with threads cannot enter a user namespace.
///
/// A second call changes nothing.
pub fn enter() -> Result<Privilege, LayerError> {
    if let Some(known) = PRIVILEGE.get() {
        return Ok(*known);
    }
    let kind = [NamespaceKind::Mount, NamespaceKind::User]
        .into_iter()
        .find(|kind| works(*kind));
    let privilege = match kind {
        None => Privilege::None,
        Some(kind) => {
            go(kind).map_err(|(what, source)| LayerError::Sandbox {
                what: what.into(),
                source,
            })?;
            janitor::entered();
            match kind {
                NamespaceKind::Mount if is_root() => Privilege::Root,
                NamespaceKind::Mount | NamespaceKind::User => Privilege::UserNamespace,
            }
        }
    };
    Ok(*PRIVILEGE.get_or_init(|| privilege))
}

/// The privilege that [`enter`] obtained; [`Privilege::None`] before it was called.
pub fn privilege() -> Privilege {
    PRIVILEGE.get().copied().unwrap_or(Privilege::None)
}

/// Whether we are root of this machine. In a user namespace every user may have the id 0.
pub(crate) fn is_root() -> bool {
    // A kernel without user namespaces has no map.
    let of_machine = UidMap::own().is_ok_and(|map| map.is_of_machine());
    rustix::process::geteuid().is_root()
        && (of_machine || !Path::new("/proc/self/ns/user").exists())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamespaceKind {
    Mount,
    User,
}

/// Tries it in a child first: a partial entry (no uid map, no right to mount) cannot be undone, and
/// containers, seccomp and `AppArmor` may forbid any of the steps.
fn works(kind: NamespaceKind) -> bool {
    // SAFETY: the process has one thread (see `enter`), so the child may do what it likes; it
    // ends with `_exit` and runs nothing of the parent's.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let ok = go(kind).is_ok() && mount("none", "/", "tmpfs", MountFlags::empty(), None).is_ok();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!ok)) }
    }
    if pid < 0 {
        return false;
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            return status == 0;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

fn go(kind: NamespaceKind) -> Result<(), (&'static str, io::Error)> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let mut flags = UnshareFlags::NEWNS;
    if kind == NamespaceKind::User {
        flags |= UnshareFlags::NEWUSER;
    }
    // SAFETY: neither flag touches the table of file descriptors, the one thing that could
    // invalidate what Rust holds.
    unsafe { unshare_unsafe(flags) }.map_err(|e| ("unshare", e.into()))?;
    if kind == NamespaceKind::User {
        // Without this an unprivileged process may not write a gid map (user_namespaces(7)).
        fs::write("/proc/self/setgroups", "deny").map_err(|e| ("setgroups", e))?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(|e| ("uid_map", e))?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(|e| ("gid_map", e))?;
    }
    // Slave and not private. In both cases no mount of ours reaches the host. But with slave, a
    // disk that the user unmounts meanwhile is released, and one that is mounted meanwhile can be
    // used.
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
    .map_err(|e| ("make / a slave mount", e.into()))
}

/// A file of `/proc/sys`, the value that forbids something, and one that allows it.
type Switch = (&'static str, &'static str, &'static str);

const USER_NAMESPACES: Switch = ("user/max_user_namespaces", "0", "15000");

/// `Some` when the switch forbids `what`.
fn forbids((path, bad, good): Switch, what: &str) -> Option<Missing> {
    let value = fs::read_to_string(Path::new("/proc/sys").join(path)).ok()?;
    let name = path.replace('/', ".");
    (value.trim() == bad).then(|| Missing {
        what: format!("{what} ({name} is {bad})"),
        hint: format!("sudo sysctl -w {name}={good}"),
        installable: false,
    })
}

/// `Some` when no user may make a user namespace, not even root. `what` needs one.
pub(crate) fn no_user_namespaces(what: &str) -> Option<Missing> {
    forbids(USER_NAMESPACES, what)
}

/// What prevents mounting in a user namespace, and the command that removes it.
pub(crate) fn lacking() -> Missing {
    let switches = [
        ("kernel/unprivileged_userns_clone", "0", "1"),
        USER_NAMESPACES,
        ("user/max_mnt_namespaces", "0", "15000"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    for switch in switches {
        if let Some(missing) = forbids(switch, "the right to mount") {
            let hint = format!("{}, or run it as root", missing.hint);
            return Missing { hint, ..missing };
        }
    }
    Missing {
        what: "the right to mount (user namespaces are forbidden here)".into(),
        hint: "sudo layermark ... (in a container: docker run --privileged ...)".into(),
        installable: false,
    }
}

/// `Some` when nothing can be mounted at all.
pub(crate) fn no_mounts() -> Option<Missing> {
    (privilege() == Privilege::None).then(lacking)
}

/// The error for a host where nothing can be mounted and no network namespace made.
pub(crate) fn no_networks() -> Missing {
    Missing {
        what: "the right to make a network (root or user namespaces)".into(),
        hint: "sudo layermark ...".into(),
        installable: false,
    }
}

/// `Some` when root is required: for block devices and kernel file systems on them.
pub(crate) fn not_root() -> Option<Missing> {
    (privilege() != Privilege::Root).then(|| Missing {
        what: "root".into(),
        hint: "sudo layermark ...".into(),
        installable: false,
    })
}
