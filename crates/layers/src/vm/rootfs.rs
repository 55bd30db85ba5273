//! In the guest: the root file system of the probe, a tree of files under an overlay in memory.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive};

use crate::{
    agent::protocol::{AT, Mounting, ROOT_TAG},
    mounts,
    net::device,
    vm::initramfs::INIT,
};

/// Mount point. It does not include the guest's own mounts.
pub(crate) const ROOTFS: &str = "/rootfs";
/// Path of our binary in it.
pub(crate) const PROGRAM: &str = "/run/layermark";

/// File systems that an image may have, with the option that mounts each without writing to it.
const ON_IMAGES: [(&str, &str); 2] = [("ext4", "noload"), ("xfs", "norecovery")];

/// Makes it from `from`; `None`: from the disk named [`ROOT_TAG`].
pub(crate) fn make(from: Option<&Mounting>) -> io::Result<()> {
    for dir in ["/lower", "/over", ROOTFS] {
        fs::create_dir_all(dir)?;
    }
    let lower = Path::new("/lower");
    match from {
        Some(what) => {
            let source = PathBuf::from(what.source.as_deref().unwrap_or(ROOT_TAG));
            mounts::mount(&source, lower, &what.fs, true, what.options.as_bytes())?;
        }
        None => mount_image(lower)?,
    }
    mounts::mount(Path::new("over"), Path::new("/over"), "tmpfs", false, b"")?;
    for dir in ["/over/upper", "/over/work"] {
        fs::create_dir(dir)?;
    }
    let options = b"lowerdir=/lower,upperdir=/over/upper,workdir=/over/work";
    let rootfs = Path::new(ROOTFS);
    mounts::mount(Path::new("rootfs"), rootfs, "overlay", false, options)?;
    devices()?;
    count_groups();
    for name in ["proc", "sys", "dev"] {
        let at = rootfs.join(name);
        fs::create_dir_all(&at)?;
        mount_bind_recursive(Path::new("/").join(name), &at)?;
    }
    for name in ["tmp", "run"] {
        let at = rootfs.join(name);
        fs::create_dir_all(&at)?;
        mount(
            "tmpfs",
            &at,
            "tmpfs",
            MountFlags::empty(),
            Some(c"mode=1777"),
        )?;
    }
    let program = below(PROGRAM);
    File::create(&program)?;
    mount_bind(Path::new("/").join(INIT), &program)?;
    // Programs connect to each other on the loopback.
    device::set_up("lo", None)
}

/// Devices that programs expect in /dev in addition to those of the kernel.
fn devices() -> io::Result<()> {
    for (name, fs) in [("pts", "devpts"), ("shm", "tmpfs")] {
        let at = Path::new("/dev").join(name);
        fs::create_dir_all(&at)?;
        mount(fs, &at, fs, MountFlags::NOSUID, None)?;
    }
    Ok(())
}

/// Control groups, by which the probe measures what a program waits for. Without them it measures
/// less.
fn count_groups() {
    let at = Path::new("/sys/fs/cgroup");
    let _ = mounts::mount(Path::new("cgroup2"), at, "cgroup2", false, b"");
}

fn below(path: &str) -> PathBuf {
    Path::new(ROOTFS).join(path.trim_start_matches('/'))
}

/// Shows the layer, which is mounted at [`AT`], there too.
pub(crate) fn show_layer() -> io::Result<()> {
    let at = below(AT);
    fs::create_dir_all(&at)?;
    mounts::unmount(&at)?;
    Ok(mount_bind(AT, &at)?)
}

/// Unmounts the layer there, so that it can be mounted again.
pub(crate) fn hide_layer() -> io::Result<()> {
    mounts::unmount(&below(AT))
}

/// Mounts the first file system on the disk or one of its partitions that looks like that of an
/// operating system.
fn mount_image(at: &Path) -> io::Result<()> {
    let mut tried = Vec::new();
    for device in candidates()? {
        for (fs, options) in ON_IMAGES {
            match mounts::mount(&device, at, fs, true, options.as_bytes()) {
                Ok(()) if at.join("usr").is_dir() || at.join("bin").is_dir() => return Ok(()),
                Ok(()) => {
                    tried.push(format!("{} has no /usr", device.display()));
                    mounts::unmount_now(at)?;
                }
                Err(e) => tried.push(format!("{} as {fs}: {e}", device.display())),
            }
        }
    }
    let text = format!("no system on the image ({})", tried.join("; "));
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

/// The disk's partitions, then the disk itself.
fn candidates() -> io::Result<Vec<PathBuf>> {
    for entry in fs::read_dir("/sys/block")?.flatten() {
        let serial = fs::read_to_string(entry.path().join("serial")).unwrap_or_default();
        if serial.trim() != ROOT_TAG {
            continue;
        }
        let disk = entry.file_name();
        let own = disk.to_string_lossy().into_owned();
        let mut names: Vec<String> = fs::read_dir(entry.path())?
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| name.starts_with(&own))
            .collect();
        names.sort();
        names.push(own);
        return Ok(names.iter().map(|n| Path::new("/dev").join(n)).collect());
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        "the image of the root did not appear as a disk",
    ))
}
