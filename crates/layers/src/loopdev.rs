//! Loop devices that vanish with their last user.
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use layermark_sys::block;

/// linux/loop.h
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

pub(crate) const CONTROL: &str = "/dev/loop-control";

/// `struct loop_info64`
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device over a file. The kernel detaches it when its last user has closed it: keep this
/// until it is mounted.
#[derive(Debug)]
pub(crate) struct Loop {
    _device: File,
    pub(crate) path: PathBuf,
    /// Whether transfers bypass this host's page cache, according to sysfs.
    pub(crate) direct_io: bool,
}

/// There is an image, and no loop device for it.
#[derive(Debug, thiserror::Error)]
#[error("no loop device: {0}")]
pub(crate) struct NoDevice(pub(crate) io::Error);

/// Attaches a loop device to `image`. An error that is not of the image is a [`NoDevice`].
pub(crate) fn attach(image: &Path, read_only: bool, direct_io: bool) -> io::Result<Loop> {
    let backing = File::options().read(true).write(!read_only).open(image)?;
    attached(&backing, read_only, direct_io).map_err(|e| io::Error::new(e.kind(), NoDevice(e)))
}

fn attached(backing: &File, read_only: bool, direct_io: bool) -> io::Result<Loop> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    // Another process may take the free device before we do.
    for attempt in 0..64 {
        let number = free(&control)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open_node(&path, read_only)?;
        match configure(&device, backing, read_only, direct_io) {
            Ok(()) => {
                if !read_only {
                    give_cache(&path)?;
                }
                let dio = format!("/sys/block/loop{number}/loop/dio");
                return Ok(Loop {
                    _device: device,
                    path,
                    direct_io: block::read(Path::new(&dio)).as_deref() == Some("1"),
                });
            }
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                thread::sleep(Duration::from_millis(attempt));
            }
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Path of the switch that tells the kernel whether a device has a volatile cache.
pub(crate) fn cache_switch(device: &Path) -> PathBuf {
    let name = device.file_name().unwrap_or_default();
    Path::new("/sys/block").join(name).join("queue/write_cache")
}

/// Lets the kernel send flushes to the device. What somebody has written to the switch outlives the file
/// that was attached then (Linux 6.18), and a loop device without flushes loses what was synced.
fn give_cache(device: &Path) -> io::Result<()> {
    let switch = cache_switch(device);
    match block::read(&switch).as_deref() {
        Some("write through") => fs::write(&switch, "write back"),
        _ => Ok(()),
    }
}

/// How long a device that a killed run held may take to be free.
const FREED: Duration = Duration::from_secs(2);

/// Gives free devices their caches back after a run that denied one was killed: the next user of such a
/// device would lose what was synced. Waits for devices that are not free yet.
pub(crate) fn give_caches() {
    let until = Instant::now() + FREED;
    loop {
        let (free, held): (Vec<_>, Vec<_>) = denied().partition(|(_, free)| *free);
        for (device, _) in free {
            // As another user than root nothing was denied either.
            let _ = give_cache(&device);
        }
        if held.is_empty() || Instant::now() >= until {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Writable loop devices that have been denied their caches, and whether each is free. One that is only
/// read has no cache by itself.
fn denied() -> impl Iterator<Item = (PathBuf, bool)> {
    block::all().filter_map(|at| {
        let name = at.file_name()?;
        let device = Path::new("/dev").join(name);
        if !name.to_string_lossy().starts_with("loop") {
            return None;
        }
        let writable = block::read(&at.join("ro")).as_deref() == Some("0");
        let denied = block::read(&cache_switch(&device)).as_deref() == Some("write through");
        (writable && denied).then(|| (device, !at.join("loop/backing_file").exists()))
    })
}

fn free(control: &File) -> io::Result<u32> {
    // SAFETY: the request takes no argument.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Opens the device. The kernel creates the node of a new device in devtmpfs a moment after it has
/// assigned the number.
fn open_node(path: &Path, read_only: bool) -> io::Result<File> {
    let open = || File::options().read(true).write(!read_only).open(path);
    for _ in 0..100 {
        match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    open()
}

fn configure(device: &File, backing: &File, read_only: bool, direct_io: bool) -> io::Result<()> {
    let fd = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
    let mut flags = LO_FLAGS_AUTOCLEAR;
    if read_only {
        flags |= LO_FLAGS_READ_ONLY;
    }
    if direct_io {
        flags |= LO_FLAGS_DIRECT_IO;
    }
    let config = Config {
        fd,
        block_size: 0,
        info: Info {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: `config` has the kernel's layout (its size is tested) and outlives the call.
    let failed = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Numbers of the loop devices that are in use.
#[cfg(test)]
fn in_use() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        if entry.path().join("loop/backing_file").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use layermark_testkit::wait_for;

    use super::*;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }

    /// A layer whose image a cut took has lost it.
    #[test]
    fn an_absent_image_is_no_lack_of_devices() {
        let home = tempfile::tempdir().unwrap();
        let e = attach(&home.path().join("image"), false, false).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
        assert!(!crate::of_host::is_of_host(&e), "{e}");
    }

    #[test]
    fn attaches_and_vanishes() {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let image = home.path().join("image");
        File::create(&image).unwrap().set_len(1 << 20).unwrap();
        for direct in [true, false] {
            let device = match attach(&image, true, direct) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    eprintln!("skipped: {CONTROL}: {e}");
                    return;
                }
                other => other.unwrap(),
            };
            let name = device
                .path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .into_owned();
            assert!(in_use().unwrap().contains(&name));
            assert!(direct || !device.direct_io);
            drop(device);
            wait_for("the end of the device", || {
                let file = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
                let stays = file.is_ok_and(|f| f.trim() == image.to_string_lossy());
                (!stays).then_some(())
            });
        }
    }
}
