//! Modules that a kernel needs, in load order.
//!
//! From `modules.dep`, `modules.softdep`, `modules.alias` and `modules.builtin` as depmod(8) writes
//! them; see modules.dep(5).

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read},
    path::{Path, PathBuf},
};

use layermark_model::format_size;
use rustix::fs::CWD;

use crate::fd;

/// Largest module, unpacked, bytes.
const MOST_MODULE: u64 = 256 << 20;
/// Longest list of modules, bytes.
const MOST_LIST: u64 = 64 << 20;

/// The modules of one kernel.
#[derive(Debug)]
pub(crate) struct Modules {
    dir: PathBuf,
    /// By module name: its file and its dependencies, nearest first.
    files: HashMap<String, (String, Vec<String>)>,
    builtin: HashSet<String>,
    /// Soft dependencies: modules to load before a module, if they exist.
    before: HashMap<String, Vec<String>>,
    aliases: HashMap<String, Vec<String>>,
}

/// A module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Whether it may fail to load, for example on a CPU that lacks an instruction. No other module
    /// depends on it.
    pub(crate) optional: bool,
}

impl Modules {
    /// Reads the lists in `dir`, such as `/lib/modules/6.1.0-56-amd64`.
    pub(crate) fn read(dir: &Path) -> io::Result<Self> {
        let list = |name: &str| {
            let bytes = whole(fd::open_file(CWD, dir.join(name))?, MOST_LIST)?;
            String::from_utf8(bytes).map_err(io::Error::other)
        };
        // Only the first one always exists.
        Ok(Self::parse(
            dir,
            &list("modules.dep")?,
            &list("modules.builtin").unwrap_or_default(),
            &list("modules.softdep").unwrap_or_default(),
            &list("modules.alias").unwrap_or_default(),
        ))
    }

    fn parse(dir: &Path, dep: &str, builtin: &str, softdep: &str, alias: &str) -> Self {
        let mut files = HashMap::new();
        for line in dep.lines() {
            let Some((file, needs)) = line.split_once(':') else {
                continue;
            };
            let needs = needs.split_whitespace().map(name_of).collect();
            files.insert(name_of(file), (file.to_owned(), needs));
        }
        let mut before: HashMap<String, Vec<String>> = HashMap::new();
        for line in softdep.lines() {
            let mut words = line.split_whitespace();
            if let (Some("softdep"), Some(module)) = (words.next(), words.next()) {
                // `pre:` is the default; `post:` lists modules to load afterwards.
                let early = words.take_while(|w| *w != "post:").filter(|w| *w != "pre:");
                let early = early.map(plain);
                before.entry(plain(module)).or_default().extend(early);
            }
        }
        let mut aliases: HashMap<String, Vec<String>> = HashMap::new();
        for line in alias.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["alias", name, module] = words[..] {
                aliases.entry(plain(name)).or_default().push(plain(module));
            }
        }
        Self {
            dir: dir.to_owned(),
            files,
            builtin: builtin.lines().map(name_of).collect(),
            before,
            aliases,
        }
    }

    /// The first of these that the kernel has neither as a module nor built in.
    pub(crate) fn lacking<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let has = |n: &&str| self.files.contains_key(&plain(n)) || self.builtin.contains(&plain(n));
        names.iter().find(|n| !has(n)).copied()
    }

    /// Modules to load for these, each once, dependencies first. Those built in are left out.
    pub(crate) fn order(&self, names: &[&str]) -> Vec<Module> {
        let mut order = LoadOrder {
            modules: self,
            begun: HashSet::new(),
            done: Vec::new(),
        };
        for name in names {
            order.add(&plain(name), false);
        }
        order.done
    }

    /// The module for an alias such as `crypto-crc32c`. If there are several, the one that needs no
    /// particular CPU.
    fn resolve(&self, name: &str) -> Option<String> {
        if self.files.contains_key(name) {
            return Some(name.to_owned());
        }
        let known = |n: &str| self.aliases.get(n);
        let modules = known(name).or_else(|| known(&format!("crypto_{name}")))?;
        let generic = modules.iter().find(|m| m.ends_with("_generic"));
        generic.or(modules.first()).cloned()
    }
}

struct LoadOrder<'a> {
    modules: &'a Modules,
    begun: HashSet<String>,
    done: Vec<Module>,
}

impl LoadOrder<'_> {
    fn add(&mut self, name: &str, optional: bool) {
        // Marked before its dependencies, so that a cycle of soft ones ends.
        if !self.begun.insert(name.to_owned()) {
            return;
        }
        let Some((file, needs)) = self.modules.files.get(name) else {
            return;
        };
        for early in self.modules.before.get(name).into_iter().flatten() {
            if let Some(module) = self.modules.resolve(early) {
                self.add(&module, true);
            }
        }
        // The last one listed depends on nothing.
        for need in needs.iter().rev() {
            self.add(need, optional);
        }
        self.done.push(Module {
            path: self.modules.dir.join(file),
            optional,
        });
    }
}

/// `kernel/fs/ext4/ext4.ko.xz` is `ext4`.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    plain(name.split(".ko").next().unwrap_or(name))
}

/// `-` and `_` are the same in a module's name.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// A module's bytes in the form that the kernel accepts.
pub(crate) fn load(path: &Path) -> io::Result<Vec<u8>> {
    let file = fd::open_file(CWD, path)?;
    match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => unpack(Packing::Xz, file, MOST_MODULE),
        Some("zst") => unpack(Packing::Zstd, file, MOST_MODULE),
        Some("gz") => unpack(Packing::Gzip, file, MOST_MODULE),
        _ => whole(file, MOST_MODULE),
    }
}

/// A compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Xz,
    Zstd,
    Gzip,
}

/// One compressed stream of at most `most` bytes when unpacked. Ignores the bytes after it.
pub(crate) fn unpack(packing: Packing, mut from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    match packing {
        Packing::Xz => {
            // The dictionary, whose size the file names, is made before anything is unpacked.
            let kib = u32::try_from(most >> 10).unwrap_or(u32::MAX);
            whole(lzma_rust2::XzReader::new_mem_limit(from, false, kib), most)
        }
        // It refuses a window of more than 128 MiB by itself.
        Packing::Zstd => {
            let decoder = zstd::Decoder::new(&mut from)?;
            whole(decoder.single_frame(), most)
        }
        Packing::Gzip => whole(flate2::read::GzDecoder::new(from), most),
    }
}

/// All bytes of a stream, which may be at most `most`.
pub(crate) fn whole(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= most {
        return Ok(bytes);
    }
    let text = format!("it has more than {}", format_size(most));
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz\n\
        kernel/fs/jbd2/jbd2.ko.xz: kernel/lib/crc16.ko.xz\n\
        kernel/lib/crc16.ko.xz:\n\
        kernel/arch/x86/crypto/crc32c-intel.ko.xz:\n\
        kernel/crypto/crc32c_generic.ko.xz:\n";
    const ALIAS: &str =
        "# comment\nalias crypto-crc32c crc32c_intel\nalias crypto-crc32c crc32c_generic\n";

    fn modules() -> Modules {
        let softdep = "softdep ext4 pre: crypto-crc32c post: nothing\nsoftdep jbd2 pre: ext4\n";
        Modules::parse(
            Path::new("/m"),
            DEP,
            "kernel/drivers/nvme/host/nvme.ko\n",
            softdep,
            ALIAS,
        )
    }

    #[test]
    fn what_is_needed_comes_first_and_once_and_circles_end() {
        let order = modules().order(&["ext4", "nvme", "crc16"]);
        let names: Vec<String> = order
            .iter()
            .map(|m| name_of(&m.path.to_string_lossy()))
            .collect();
        assert_eq!(names, ["crc32c_generic", "crc16", "jbd2", "ext4"]);
        assert!(order[0].optional && !order[1].optional);
        assert_eq!(order[3].path, Path::new("/m/kernel/fs/ext4/ext4.ko.xz"));
    }

    #[test]
    fn says_what_the_kernel_lacks() {
        assert_eq!(modules().lacking(&["ext4", "nvme", "crc32c-intel"]), None);
        assert_eq!(modules().lacking(&["ext4", "9p", "xfs"]), Some("9p"));
    }

    #[test]
    fn compressed_modules_are_unpacked() {
        use std::{
            fs::{self, File},
            io::Write,
        };
        let dir = tempfile::tempdir().unwrap();
        let plain = vec![7u8; 100_000];
        let gz = dir.path().join("a.ko.gz");
        let mut out =
            flate2::write::GzEncoder::new(File::create(&gz).unwrap(), flate2::Compression::fast());
        out.write_all(&plain).unwrap();
        out.finish().unwrap();
        let raw = dir.path().join("a.ko");
        fs::write(&raw, &plain).unwrap();
        assert!(load(&gz).unwrap() == plain && load(&raw).unwrap() == plain);
        fs::write(dir.path().join("b.ko.xz"), b"no xz").unwrap();
        assert!(load(&dir.path().join("b.ko.xz")).is_err());
        assert!(load(&dir.path().join("none.ko")).is_err());
    }

    /// Zeros in each format, as its own program packs them. The unpacked size is the limit, and one more.
    #[test]
    fn a_stream_that_grows_beyond_the_limit_is_refused() {
        use std::{
            io::Write,
            process::{Command, Stdio},
        };
        const SIZE: usize = 3 << 20;
        for (packing, program, level) in [
            (Packing::Gzip, "gzip", "-6"),
            // Its dictionary has 256 KiB, and 8 MiB.
            (Packing::Xz, "xz", "-0"),
            (Packing::Xz, "xz", "-6"),
            (Packing::Zstd, "zstd", "-3"),
        ] {
            let mut pack = Command::new(program);
            let pack = pack
                .args(["-c", level])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let Ok(mut child) = pack.spawn() else {
                eprintln!("skipped: {program} is not installed");
                continue;
            };
            let mut input = child.stdin.take().unwrap();
            let feed = std::thread::spawn(move || input.write_all(&vec![0; SIZE]).unwrap());
            let packed = child.wait_with_output().unwrap().stdout;
            feed.join().unwrap();
            assert!(packed.len() < SIZE / 100, "{program}");
            let most = |most: usize| unpack(packing, &packed[..], most as u64);
            let e = most(SIZE - 1).unwrap_err();
            let says = if level == "-6" && program == "xz" {
                "mem_limit"
            } else {
                "it has more than"
            };
            assert!(e.to_string().contains(says), "{program} {level}: {e}");
            let enough = most(SIZE.max(9 << 20)).unwrap();
            assert_eq!(enough.len(), SIZE, "{program}");
        }
        let e = whole(io::repeat(0), 1000).unwrap_err();
        assert!(e.to_string().contains("it has more than 1000"), "{e}");
    }
}
