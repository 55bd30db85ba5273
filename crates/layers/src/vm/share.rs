//! A directory of this host, shared into a guest.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{Missing, Spec};

use crate::{
    Control, LayerError,
    child::{self, Process},
    options::{bad, value},
    vm::{OPTIONS, disk, talk::Mounting},
};

/// Values of the option `share`.
pub(crate) const NAMES: &[&str] = &["none", "virtiofs", "9p"];

/// Directory that is shared, beside the private directory in which QEMU works.
pub(crate) const DIR: &str = "share";
const SOCKET: &str = "virtiofs.sock";
/// The name by which the guest mounts it.
const TAG: &str = "layer";

/// Where distributions put it; it is in nobody's `PATH`.
const VIRTIOFSD: [&str; 3] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/qemu/virtiofsd",
    "/usr/lib/virtiofsd",
];

/// A way of sharing.
struct Kind {
    name: &'static str,
    modules: &'static [&'static str],
    /// What the option `cache` takes; the first is meant by `auto`.
    caches: &'static [&'static str],
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "virtiofs",
        modules: &["virtiofs"],
        caches: &["auto", "none", "always"],
    },
    Kind {
        name: "9p",
        modules: &["9p", "9pnet_virtio"],
        caches: &["none", "loose", "mmap"],
    },
];

/// A shared directory as the user described it.
pub(crate) struct Share<'a> {
    spec: &'a Spec,
    kind: &'static Kind,
}

impl<'a> Share<'a> {
    /// `None`: a disk is meant.
    pub(crate) fn of(spec: &'a Spec) -> Option<Self> {
        let name = value(spec, OPTIONS, "share");
        let kind = KINDS.iter().find(|k| k.name == name)?;
        Some(Self { spec, kind })
    }

    fn cache(&self) -> &'a str {
        match value(self.spec, OPTIONS, "cache") {
            "auto" => self.kind.caches[0],
            cache => cache,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LayerError> {
        for option in disk::ONLY {
            if let Some(given) = self.spec.options.get(*option) {
                let must = "is for disks, and this is a shared folder".into();
                return Err(bad(self.spec, option, given, must));
            }
        }
        let cache = self.cache();
        if self.kind.caches.contains(&cache) {
            return Ok(());
        }
        let known = self.kind.caches.join(", ");
        let must = format!("is not one of {known} for {}", self.kind.name);
        Err(bad(self.spec, "cache", cache, must))
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if self.kind.name == "virtiofs" {
            if virtiofsd().is_none() {
                missing.push(Missing {
                    what: "virtiofsd".into(),
                    hint: "sudo apt-get install qemu-system-common (virtiofsd from Debian 13 on)"
                        .into(),
                    installable: true,
                });
            }
            // QEMU's own virtiofsd locks itself in with namespaces.
            missing.extend(crate::sandbox::not_root());
        }
        missing
    }

    pub(crate) fn modules(&self) -> &'static [&'static str] {
        self.kind.modules
    }

    /// Machine type; any has it.
    pub(crate) fn machine(&self) -> &'a str {
        match value(self.spec, OPTIONS, "machine") {
            "auto" => "q35",
            machine => machine,
        }
    }

    /// QEMU's arguments for a guest with so many MiB.
    pub(crate) fn devices(&self, memory: u64) -> Vec<String> {
        if self.kind.name == "virtiofs" {
            // The daemon reads and writes the guest's memory.
            vec![
                "-object".into(),
                format!("memory-backend-memfd,id=mem,size={memory}M,share=on"),
                "-numa".into(),
                "node,memdev=mem".into(),
                "-chardev".into(),
                format!("socket,id=share,path={SOCKET}"),
                "-device".into(),
                format!("vhost-user-fs-pci,queue-size=1024,chardev=share,tag={TAG}"),
            ]
        } else {
            vec![
                "-fsdev".into(),
                format!("local,id=share,path=../{DIR},security_model=none"),
                "-device".into(),
                format!("virtio-9p-pci,fsdev=share,mount_tag={TAG}"),
            ]
        }
    }

    /// Starts what serves one guest that works in `dir`.
    pub(crate) fn serve(&self, dir: &Path) -> Result<Option<Process>, LayerError> {
        const LIMIT: Duration = Duration::from_secs(10);
        if self.kind.name != "virtiofs" {
            return Ok(None);
        }
        let layer = self.spec.to_string();
        let program = virtiofsd().ok_or_else(|| LayerError::Missing {
            layer: layer.clone(),
            missing: self.missing(),
        })?;
        let socket = dir.join(SOCKET);
        // Left by the daemon of a guest that did not boot.
        let _ = std::fs::remove_file(&socket);
        // It changes its directory before it looks for this one.
        let source = dir.with_file_name(DIR);
        let mut options = OsString::from("source=");
        options.push(OsStr::from_bytes(&escaped(source.as_os_str().as_bytes())));
        options.push(format!(",cache={}", self.cache()));
        let mut command = child::command(&program);
        command
            .current_dir(dir)
            .arg(format!("--socket-path={SOCKET}"))
            .args(["--rlimit-nofile=0", "-o"])
            .arg(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut daemon =
            Process::start_with(&mut command).map_err(LayerError::io(&layer, "start", &program))?;
        let started = Instant::now();
        while !socket.exists() {
            if let Some(status) = daemon.wait(Duration::from_millis(2)) {
                return Err(LayerError::Program {
                    layer,
                    program: "virtiofsd".into(),
                    status,
                    tail: daemon.tail(),
                });
            }
            if started.elapsed() > LIMIT {
                return Err(LayerError::Slow {
                    layer,
                    what: "virtiofsd".into(),
                    after: LIMIT,
                    tail: daemon.tail(),
                });
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(Some(daemon))
    }

    pub(crate) fn mounting(&self) -> Mounting {
        let options = if self.kind.name == "9p" {
            // The most that virtio carries in one request; the kernel's own 128K is far below.
            format!(
                "trans=virtio,version=9p2000.L,msize=524288,cache={}",
                self.cache()
            )
        } else {
            String::new()
        };
        Mounting {
            fs: self.kind.name.into(),
            source: Some(TAG.into()),
            options,
        }
    }

    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("share", self.kind.name.into()),
            ("share_cache", self.cache().into()),
        ]
    }
}

/// As FUSE's options are written: what means something there follows a backslash.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        if matches!(byte, b',' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

fn virtiofsd() -> Option<PathBuf> {
    VIRTIOFSD.iter().map(PathBuf::from).find(|p| p.is_file())
}

/// Processes that `pid` has started, which do its work.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}
