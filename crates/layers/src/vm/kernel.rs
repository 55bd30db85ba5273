//! The kernel of guests. It is found on this host, and unpacked where its own loader is slow.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use layermark_model::Missing;

use crate::vm::{
    cache,
    modules::{Modules, Packing, unpack},
};

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
    fn read(file: &mut File) -> io::Result<Self> {
        // The part that runs before the actual kernel: up to 65 sectors, with the version
        // somewhere.
        let mut bytes = vec![0; 66 * 512];
        let mut got = 0;
        while got < bytes.len() {
            match file.read(&mut bytes[got..])? {
                0 => break,
                n => got += n,
            }
        }
        bytes.truncate(got);
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
        let release = Header::read(&mut File::open(image)?)?
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

    /// Readable kernels of this host that have modules: the running one first, then the newest of
    /// /boot, then those that `make vm-kernel` fetched.
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
                .filter(|k| k.modules.join("modules.dep").exists())
                .collect();
            here.sort_by_key(|k| (k.release != running, std::cmp::Reverse(version(&k.release))));
            all.extend(here);
        }
        all
    }

    pub(crate) fn modules(&self) -> io::Result<Modules> {
        Modules::read(&self.modules)
    }

    /// The file that QEMU boots: the unpacked kernel if QEMU can start it (PVH) and unpacking would
    /// take the guest seconds, else the image as it is.
    pub(crate) fn bootable(&self) -> io::Result<PathBuf> {
        let mut file = File::open(&self.image)?;
        let header = Header::read(&mut file)?;
        let Some((begin, length)) = header.payload() else {
            return Ok(self.image.clone());
        };
        file.seek(SeekFrom::Start(begin))?;
        let mut packed = Vec::new();
        (&file).take(length).read_to_end(&mut packed)?;
        let Some(packing) = packing(&packed) else {
            // LZ4 and similar formats unpack fast in a guest too.
            return Ok(self.image.clone());
        };
        let meta = file.metadata()?;
        let name = format!("vmlinux-{}-{}-{}", self.release, meta.len(), meta.mtime());
        let cached = cache::path(&name);
        if let Some(path) = cached.as_ref().filter(|p| p.is_file()) {
            return Ok(path.clone());
        }
        let mut elf = Vec::new();
        unpack(packing, packed.as_slice(), &mut elf)?;
        if !starts_by_pvh(&elf) {
            return Ok(self.image.clone());
        }
        match cached.and_then(|path| cache::store(&path, &elf).ok().map(|()| path)) {
            Some(path) => Ok(path),
            None => Ok(self.image.clone()),
        }
    }
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
        hint: "sudo apt-get install linux-image-amd64, or fetch it without installing: \
               scripts/fetch-kernel.sh"
            .into(),
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
}
