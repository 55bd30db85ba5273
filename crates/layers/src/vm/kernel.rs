//! The kernel of guests. It is found on this host, and unpacked where its own loader is slow.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use layermark_model::{Missing, hex};
use layermark_sys::packages;
use rustix::fs::CWD;
use sha2::{Digest, Sha256};

use crate::{
    fd::{self, Refused},
    vm::{
        cache,
        modules::{Modules, Packing, unpack, whole},
    },
};

/// Largest kernel, packed or unpacked, bytes.
const MOST: u64 = 512 << 20;

/// A kernel and where its modules lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// A bzImage.
    pub(crate) image: PathBuf,
    /// Its version, such as `6.1.0-56-amd64`.
    pub(crate) release: String,
    /// `lib/modules/RELEASE` on the same root as the image.
    pub(crate) modules: PathBuf,
}

/// Offsets in a bzImage: Documentation/x86/boot.rst of the kernel.
mod offset {
    pub(super) const SETUP_SECTORS: usize = 0x1f1;
    pub(super) const MAGIC: usize = 0x202;
    pub(super) const VERSION: usize = 0x206;
    pub(super) const KERNEL_VERSION: usize = 0x20e;
    pub(super) const PAYLOAD: usize = 0x248;
    pub(super) const PAYLOAD_LENGTH: usize = 0x24c;
    pub(super) const END: usize = 0x250;
}

/// The header of a bzImage.
struct Header(Vec<u8>);

impl Header {
    fn read(file: impl Read) -> io::Result<Self> {
        // The part that runs before the actual kernel: up to 65 sectors, with the version
        // somewhere.
        let mut bytes = Vec::new();
        file.take(66 * 512).read_to_end(&mut bytes)?;
        let is_kernel = bytes.len() >= offset::END && &bytes[offset::MAGIC..][..4] == b"HdrS";
        if is_kernel {
            Ok(Self(bytes))
        } else {
            let text = "it is no Linux kernel (bzImage)";
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
    }

    fn u16(&self, at: usize) -> u64 {
        u64::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn u32(&self, at: usize) -> u64 {
        self.u16(at) | self.u16(at + 2) << 16
    }

    /// The first word of the version text.
    fn release(&self) -> Option<String> {
        let at = self.u16(offset::KERNEL_VERSION) as usize + 0x200;
        let text = self.0.get(at..)?;
        let end = text.iter().position(|b| matches!(b, 0 | b' '))?;
        let release = std::str::from_utf8(&text[..end]).ok()?;
        // It is used as part of a path.
        (!release.is_empty() && !release.contains('/') && release != "..")
            .then(|| release.to_owned())
    }

    /// Offset of the compressed kernel in the file, and its length; from protocol 2.08 on.
    fn payload(&self) -> Option<(u64, u64)> {
        if self.u16(offset::VERSION) < 0x208 {
            return None;
        }
        // 0 means 4, for compatibility with very old loaders.
        let sectors = match self.0[offset::SETUP_SECTORS] {
            0 => 4,
            n => u64::from(n),
        };
        let begin = (sectors + 1) * 512 + self.u32(offset::PAYLOAD);
        Some((begin, self.u32(offset::PAYLOAD_LENGTH)))
    }
}

impl Kernel {
    /// The kernel in the file `image`. Its modules are searched below `root`.
    pub(crate) fn of(image: &Path, root: &Path) -> io::Result<Self> {
        let release = Header::read(fd::open_file(CWD, image)?)?
            .release()
            .ok_or_else(|| io::Error::other("it does not tell its version"))?;
        Ok(Self {
            image: image.into(),
            modules: root.join("lib/modules").join(&release),
            release,
        })
    }

    /// The kernel that the user named. Its modules are below the root whose `boot` holds it, or
    /// else on this host.
    pub(crate) fn named(image: &Path) -> io::Result<Self> {
        let boot = image
            .parent()
            .filter(|p| p.file_name() == Some("boot".as_ref()));
        let root = boot.and_then(Path::parent).unwrap_or(Path::new("/"));
        let kernel = Self::of(image, root)?;
        if kernel.modules.join("modules.dep").exists() {
            return Ok(kernel);
        }
        Self::of(image, Path::new("/"))
    }

    /// Readable kernels of this host that have modules and that no other user can change: the running
    /// one first, then the newest of /boot, then those that `make vm-kernel` fetched.
    pub(crate) fn all() -> Vec<Self> {
        let running = rustix::system::uname();
        let running = running.release().to_string_lossy().into_owned();
        let mut all = Vec::new();
        let mut roots = vec![PathBuf::from("/")];
        roots.extend(cache::kernels());
        for root in roots {
            let mut here: Vec<Self> = fs::read_dir(root.join("boot"))
                .into_iter()
                .flatten()
                .flatten()
                .filter(|e| e.file_name().as_encoded_bytes().starts_with(b"vmlinuz-"))
                .filter_map(|e| Self::of(&e.path(), &root).ok())
                .filter(|k| fd::open_own(&k.image).is_ok())
                .filter(|k| fd::open_own(&k.modules.join("modules.dep")).is_ok())
                .collect();
            here.sort_by_key(|k| (k.release != running, std::cmp::Reverse(version(&k.release))));
            all.extend(here);
        }
        all
    }

    pub(crate) fn modules(&self) -> io::Result<Modules> {
        Modules::read(&self.modules)
    }

    /// The image, and whether no other user can change it.
    fn read(&self) -> io::Result<(Vec<u8>, bool)> {
        let (file, own) = match fd::open_own(&self.image) {
            Ok(file) => (file, true),
            Err(Refused::At(_)) => (fd::open_file(CWD, &self.image)?, false),
            Err(Refused::Io(e)) => return Err(e),
        };
        Ok((whole(file, MOST)?, own))
    }

    /// The name of what is kept about this kernel. `None` if another user can change the kernel: then
    /// nothing is kept, and nothing that is kept is believed.
    pub(crate) fn key(&self) -> Option<String> {
        let (image, own) = self.read().ok()?;
        own.then(|| hex(Sha256::digest(&image)))
    }

    /// The file that QEMU boots: the unpacked kernel if QEMU can start it (PVH) and unpacking would
    /// take the guest seconds, else the image as it is. A kernel that another user can change is
    /// copied into `dir`, which is this guest's own: what was looked at is what is booted.
    pub(crate) fn bootable(&self, dir: &Path) -> io::Result<PathBuf> {
        let (image, own) = self.read()?;
        let name = format!("vmlinux-{}", hex(Sha256::digest(&image)));
        if let Some(kept) = cache::find(&name).filter(|_| own) {
            return Ok(kept);
        }
        let unpacked = unpacked(&image)?;
        match &unpacked {
            Some(elf) if own => {
                if let Ok(kept) = cache::store(&name, elf) {
                    return Ok(kept);
                }
            }
            None if own => return Ok(self.image.clone()),
            _ => {}
        }
        let path = dir.join("kernel");
        fs::write(&path, unpacked.unwrap_or(image))?;
        Ok(path)
    }
}

/// The kernel in an image, unpacked. `None` if QEMU cannot start it, or a guest unpacks it fast.
fn unpacked(image: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some((begin, length)) = Header::read(image)?.payload() else {
        return Ok(None);
    };
    let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(image.len());
    let packed = &image[at(begin)..at(begin + length)];
    // LZ4 and similar formats unpack fast in a guest too.
    let Some(packing) = packing(packed) else {
        return Ok(None);
    };
    let elf = unpack(packing, packed, MOST)?;
    Ok(starts_by_pvh(&elf).then_some(elf))
}

fn packing(bytes: &[u8]) -> Option<Packing> {
    match bytes {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        _ => None,
    }
}

/// An ELF file with the note that names a PVH entry: `XEN_ELFNOTE_PHYS32_ENTRY` (18) of `Xen`.
fn starts_by_pvh(elf: &[u8]) -> bool {
    const NOTE: [u8; 8] = [18, 0, 0, 0, b'X', b'e', b'n', 0];
    elf.starts_with(b"\x7fELF") && elf.windows(NOTE.len()).any(|w| w == NOTE)
}

/// Numbers of a version, for comparing: `6.1.0-56` is newer than `6.1.0-9`.
fn version(release: &str) -> Vec<u64> {
    release
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The first kernel that has all these modules. `named` is the path of the only candidate, or `auto` for all.
pub(crate) fn choose(named: &str, modules: &[&str]) -> Result<Kernel, Missing> {
    let lacks = |what: String| Missing {
        what,
        hint: format!(
            "{}, or fetch it without installing: scripts/fetch-kernel.sh",
            packages::sudo_install("linux-image-amd64")
        ),
        installable: true,
    };
    let kernels = match named {
        "auto" => Kernel::all(),
        path => match Kernel::named(Path::new(path)) {
            Ok(kernel) => vec![kernel],
            Err(e) => {
                return Err(Missing {
                    installable: false,
                    ..lacks(format!("the kernel {path}: {e}"))
                });
            }
        },
    };
    let mut lacking = None;
    for kernel in kernels {
        match kernel
            .modules()
            .map(|m| m.lacking(modules).map(str::to_owned))
        {
            Ok(None) => return Ok(kernel),
            Ok(Some(module)) => {
                lacking.get_or_insert(format!("the module {module} in kernel {}", kernel.release));
            }
            Err(e) => {
                let dir = kernel.modules.display();
                lacking.get_or_insert(format!("modules of the kernel ({dir}: {e})"));
            }
        }
    }
    Err(lacks(
        lacking.unwrap_or_else(|| "a kernel for guests".into()),
    ))
}

/// Puts a file that looks like a kernel, and its list of these modules, below `root`.
#[cfg(test)]
pub(crate) fn pretend(root: &Path, release: &str, modules: &str) -> PathBuf {
    let (boot, dir) = (root.join("boot"), root.join("lib/modules").join(release));
    fs::create_dir_all(&boot).unwrap();
    fs::create_dir_all(&dir).unwrap();
    let list: Vec<String> = modules
        .split(' ')
        .map(|m| format!("kernel/{m}.ko:\n"))
        .collect();
    fs::write(dir.join("modules.dep"), list.concat()).unwrap();
    let mut bytes = vec![0u8; 0x4000];
    bytes[offset::MAGIC..][..4].copy_from_slice(b"HdrS");
    bytes[offset::KERNEL_VERSION..][..2].copy_from_slice(&0x100u16.to_le_bytes());
    bytes[0x300..][..release.len()].copy_from_slice(release.as_bytes());
    let image = boot.join(format!("vmlinuz-{release}"));
    fs::write(&image, bytes).unwrap();
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first() {
        assert!(version("6.1.0-56-amd64") > version("6.1.0-9-amd64"));
        assert!(version("6.12.3") > version("6.9.10"));
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinuz-x");
        for bytes in [&b""[..], b"short", &vec![0x90; 20_000]] {
            fs::write(&path, bytes).unwrap();
            let e = Kernel::of(&path, dir.path()).unwrap_err();
            assert!(e.to_string().contains("no Linux kernel"), "{e}");
        }
        assert!(Kernel::named(&dir.path().join("absent")).is_err());
        // A FIFO, which would be waited for without end.
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let e = Kernel::named(&path).unwrap_err();
        assert_eq!(e.to_string(), "it is not a file");
    }

    #[test]
    fn a_release_cannot_leave_its_directory() {
        let mut bytes = vec![0u8; 0x4000];
        bytes[offset::MAGIC..][..4].copy_from_slice(b"HdrS");
        bytes[offset::KERNEL_VERSION..][..2].copy_from_slice(&0x100u16.to_le_bytes());
        for (text, good) in [
            ("6.1.0-56-amd64 (x)", true),
            ("../../etc x", false),
            (".. x", false),
        ] {
            bytes[0x300..0x320].fill(0);
            bytes[0x300..][..text.len()].copy_from_slice(text.as_bytes());
            assert_eq!(Header(bytes.clone()).release().is_some(), good, "{text}");
        }
    }

    #[test]
    fn a_pvh_note_is_found() {
        let mut elf = b"\x7fELF".to_vec();
        assert!(!starts_by_pvh(&elf));
        elf.extend([4, 0, 0, 0, 8, 0, 0, 0, 18, 0, 0, 0, b'X', b'e', b'n', 0]);
        assert!(starts_by_pvh(&elf));
        assert!(packing(&elf).is_none() && packing(&[0x1f, 0x8b, 8]) == Some(Packing::Gzip));
    }

    /// An image whose payload is this, packed, as an ELF file that starts by PVH.
    fn image(at: &Path, release: &str, payload: &[u8]) -> Kernel {
        use std::io::Write;
        let path = pretend(at, release, "ext4");
        let mut elf = b"\x7fELF".to_vec();
        elf.extend([18, 0, 0, 0, b'X', b'e', b'n', 0]);
        elf.extend(payload);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        packed.write_all(&elf).unwrap();
        let packed = packed.finish().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset::SETUP_SECTORS] = 1;
        bytes[offset::VERSION..][..2].copy_from_slice(&0x208u16.to_le_bytes());
        bytes[offset::PAYLOAD..][..4].copy_from_slice(&0x2000u32.to_le_bytes());
        let length = u32::try_from(packed.len()).unwrap();
        bytes[offset::PAYLOAD_LENGTH..][..4].copy_from_slice(&length.to_le_bytes());
        bytes[2 * 512 + 0x2000..][..packed.len()].copy_from_slice(&packed);
        fs::write(&path, bytes).unwrap();
        Kernel::named(&path).unwrap()
    }

    /// Same release, size and time of change, as another user can set them.
    #[test]
    fn what_is_kept_of_a_kernel_is_known_by_its_content() {
        let homes = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let [ours, theirs] = [(0, b"ours!!"), (1, b"theirs")]
            .map(|(n, text): (usize, &[u8; 6])| image(homes[n].path(), "6.1.0-1-test", text));
        let time = fs::metadata(&ours.image).unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(&theirs.image).unwrap();
        file.set_modified(time).unwrap();
        assert_eq!(
            file.metadata().unwrap().len(),
            fs::metadata(&ours.image).unwrap().len()
        );
        let [a, b] = [&ours, &theirs].map(|kernel| kernel.key().unwrap());
        assert_ne!(a, b);
    }

    /// What another user can change is never kept, and is booted from a copy.
    #[test]
    fn a_kernel_that_others_can_change_is_not_kept() {
        use std::os::unix::fs::PermissionsExt;
        let (home, guest) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kernel = image(home.path(), "6.1.0-1-test", b"another's");
        assert!(kernel.key().is_some());
        let boot = home.path().join("boot");
        fs::set_permissions(&boot, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(kernel.key(), None);
        let booted = kernel.bootable(guest.path()).unwrap();
        assert_eq!(booted, guest.path().join("kernel"));
        let text = fs::read(&booted).unwrap();
        assert!(text.starts_with(b"\x7fELF") && text.ends_with(b"another's"));
    }
}
