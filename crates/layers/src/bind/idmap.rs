//! Idmapped mounts, in which files have other owners than on the disk: `mount_setattr(2)`.
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
};

use layermark_model::Missing;
use rustix::{
    fs::CWD,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
    thread::{UnshareFlags, unshare_unsafe},
};

use crate::{
    child::{self, Process},
    sandbox,
};

/// User id on the disk of the user who is root inside the mount.
pub(super) const FIRST: u32 = 100_000;

/// Format of `user_namespaces(7)`: first id on the disk, first id in the mount, number of ids.
const MAP: &str = "100000 0 65536";

/// `struct mount_attr` (linux/mount.h).
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Changes the mount that `tree` refers to.
fn mount_setattr(tree: BorrowedFd, change: &MountAttr) -> io::Result<()> {
    // SAFETY: the path and `change` outlive the call, and its size is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(change),
            size_of::<MountAttr>(),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Mounts `source` at `at`, idmapped.
pub(super) fn mount(source: &Path, at: &Path) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, source, flags)?;
    let users = user_namespace()?;
    let change = MountAttr {
        attr_set: MOUNT_ATTR_IDMAP,
        userns_fd: users.as_raw_fd() as u64,
        ..MountAttr::default()
    };
    mount_setattr(tree.as_fd(), &change)?;
    let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(&tree, "", CWD, at, here)?)
}

/// A user namespace with [`MAP`]. Making one needs a process: a probe that waits for its job. The
/// namespace lasts while this descriptor, or a mount made with it, exists.
fn user_namespace() -> io::Result<OwnedFd> {
    // Root in the new namespace has no rights over the host's files, so it may not search a home of mode
    // 0700 on the way to the binary. The link leads to the open file instead.
    let mut command = child::command("/proc/self/exe");
    command.arg("probe");
    // SAFETY: the closure makes one system call, which does not touch the table of file descriptors.
    unsafe { command.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?)) };
    let mut process = Process::start(&mut command)?;
    let of_it = Path::new("/proc").join(process.child().id().to_string());
    for map in ["uid_map", "gid_map"] {
        fs::write(of_it.join(map), MAP)?;
    }
    Ok(File::open(of_it.join("ns/user"))?.into())
}

/// `Some` when the kernel has no idmapped mounts, or allows no user namespace for one.
pub(super) fn missing() -> Option<Missing> {
    sandbox::no_user_namespaces("idmapped mounts").or_else(missing_in_kernel)
}

fn missing_in_kernel() -> Option<Missing> {
    // A change without any flags succeeds, or fails for another reason.
    let asked = mount_setattr(CWD, &MountAttr::default());
    let unknown = asked.is_err_and(|e| e.raw_os_error() == Some(libc::ENOSYS));
    unknown.then(|| lacking("idmapped mounts", "boot Linux 5.12 or newer"))
}

/// The error for a file system without idmapped mounts.
pub(super) fn missing_in(fs: &str) -> Missing {
    let what = format!("idmapped mounts of {fs}");
    lacking(&what, "choose a directory on ext4, xfs or btrfs with --dir")
}

fn lacking(what: &str, hint: &str) -> Missing {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy();
    Missing {
        what: format!("{what} (this is Linux {release})"),
        hint: format!("{hint}, or use bind:rw"),
        installable: false,
    }
}
