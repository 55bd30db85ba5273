//! virtiofs: a daemon that accesses the guest's memory directly.

use std::{os::unix::process::CommandExt, path::PathBuf, process::Stdio};

use layermark_model::Missing;
use layermark_sys::packages;

use super::{DIR, Serve, ShareProtocol, TAG};
use crate::{
    LayerError,
    agent::protocol::Mounting,
    child::{self, Process},
    vm::net::server,
};

const SOCKET: &str = "virtiofs.sock";

/// Paths of the daemon in different distributions. It is not in any `PATH`.
const PROGRAM: [&str; 3] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/qemu/virtiofsd",
    "/usr/lib/virtiofsd",
];

fn program() -> Option<PathBuf> {
    PROGRAM.iter().map(PathBuf::from).find(|p| p.is_file())
}

/// virtiofs by virtiofsd.
pub(super) struct Virtiofs;

impl ShareProtocol for Virtiofs {
    fn name(&self) -> &'static str {
        "virtiofs"
    }

    fn modules(&self) -> &'static [&'static str] {
        &["virtio_pci", "virtiofs"]
    }

    fn caches(&self) -> &'static [&'static str] {
        &["auto", "none", "always"]
    }

    fn missing(&self) -> Vec<Missing> {
        let daemon = program().is_none().then(|| Missing {
            what: "virtiofsd".into(),
            hint: format!(
                "{} (in Debian before 13: qemu-system-common)",
                packages::sudo_install("virtiofsd")
            ),
            installable: true,
        });
        // QEMU's own virtiofsd isolates itself with namespaces.
        daemon
            .into_iter()
            .chain(crate::sandbox::not_root())
            .collect()
    }

    fn devices(&self, memory: u64) -> Vec<String> {
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
    }

    fn serve(&self, at: &Serve<'_>) -> Result<Option<Process>, LayerError> {
        let program = program().ok_or_else(|| LayerError::Missing {
            layer: at.layer.into(),
            missing: self.missing(),
        })?;
        let socket = at.dir.join(SOCKET);
        // Left by the daemon of a guest that failed to boot.
        let _ = std::fs::remove_file(&socket);
        let mut command = child::command(&program);
        command
            .arg(format!("--socket-path={}", server::seen(SOCKET)))
            .args(["--rlimit-nofile=0", "-o"])
            .arg(format!("source={},cache={}", server::beside(DIR), at.cache))
            // Shows its guest in the list of processes.
            .arg0(format!("virtiofsd {}", at.dir.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let daemon = server::start_alone(at.dir, &mut command)
            .map_err(LayerError::io(at.layer, "start", &program))?;
        at.until("virtiofsd", daemon, |_| socket.exists())
    }

    fn mounting(&self, _: &str, _: u16) -> Mounting {
        Mounting {
            fs: "virtiofs".into(),
            source: Some(TAG.into()),
            options: String::new(),
        }
    }
}
