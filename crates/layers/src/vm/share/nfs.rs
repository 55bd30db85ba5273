//! NFS: nfs-ganesha on this host, reached over the guest's network card.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use layermark_model::Missing;
use layermark_sys::packages;

use super::{DIR, Serve, ShareProtocol};
use crate::{
    LayerError,
    agent::protocol::Mounting,
    child::{self, Process},
    needs,
    vm::net::{self, server},
};

const PROGRAM: (&str, &str) = ("ganesha.nfsd", "nfs-ganesha");
const PORT: u16 = 2049;
const CONFIG: &str = "ganesha.conf";

/// NFS by nfs-ganesha.
pub(super) struct Nfs;

impl ShareProtocol for Nfs {
    fn name(&self) -> &'static str {
        "nfs"
    }

    fn port(&self) -> Option<u16> {
        Some(PORT)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["nfsv4"]
    }

    fn caches(&self) -> &'static [&'static str] {
        &["cto", "none", "loose"]
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing: Vec<Missing> = needs::program(PROGRAM.0, PROGRAM.1).into_iter().collect();
        // It is in a separate package on which no other depends.
        if !module_there() {
            missing.push(Missing {
                what: "ganesha's module for local file systems".into(),
                hint: packages::sudo_install("nfs-ganesha-vfs"),
                installable: true,
            });
        }
        // It opens files by their handles, which needs root.
        missing.extend(crate::sandbox::not_root());
        missing
    }

    fn serve(&self, at: &Serve<'_>) -> Result<Option<Process>, LayerError> {
        let config = at.dir.join(CONFIG);
        let recovery = at.dir.join("nfs");
        let made = fs::create_dir_all(&recovery).and_then(|()| fs::write(&config, config_text()));
        made.map_err(LayerError::io(at.layer, "write", &config))?;
        let mut command = needs::tool(at.layer, PROGRAM.0, PROGRAM.1)?;
        // Shows its guest in the list of processes.
        command
            .arg0(format!("{} {}", PROGRAM.0, at.dir.display()))
            .args(["-F", "-L", "STDERR"])
            .args([
                "-f",
                &server::seen(CONFIG),
                "-p",
                &server::seen("ganesha.pid"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let server = server::start(at.network, at.dir, &mut command).map_err(LayerError::io(
            at.layer,
            "start",
            PROGRAM.0.as_ref(),
        ))?;
        at.until("nfs-ganesha", server, |s| server::listens(s, PORT))
    }

    fn mounting(&self, cache: &str, port: u16) -> Mounting {
        // Close-to-open consistency is the standard of NFS, and the kernel's default.
        let cache = match cache {
            "none" => ",noac,lookupcache=none",
            "loose" => ",nocto,actimeo=3600",
            _ => "",
        };
        let (host, guest) = (crate::net::HOST, net::GUEST);
        Mounting {
            fs: "nfs4".into(),
            source: Some(format!("{host}:/{DIR}")),
            options: format!(
                "addr={host},clientaddr={guest},vers=4.2,proto=tcp,port={port},sec=sys{cache}"
            ),
        }
    }

    fn server(&self) -> Option<(&'static str, Command)> {
        let mut command = child::command(child::program(PROGRAM.0)?);
        command.arg("-v");
        Some(("nfs-ganesha", command))
    }
}

/// Whether the module that serves local file systems is installed.
fn module_there() -> bool {
    let name = "ganesha/libfsalvfs.so";
    let mut libraries = ["/usr/lib", "/usr/lib64"].map(PathBuf::from).to_vec();
    // Debian has a directory for each architecture.
    let below = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    libraries.extend(below.map(|e| e.path()));
    libraries.iter().any(|dir| dir.join(name).exists())
}

/// The configuration: only version 4, so no portmapper, no D-Bus, and no grace period after the
/// start.
fn config_text() -> String {
    let (host, share) = (crate::net::HOST, server::beside(DIR));
    let recovery = server::seen("nfs");
    format!(
        "NFS_CORE_PARAM {{ NFS_Port = {PORT}; Protocols = 4; Bind_addr = {host}; \
         Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n\
         NFSv4 {{ Graceless = true; Only_Numeric_Owners = true; RecoveryRoot = \"{recovery}\"; }}\n\
         EXPORT_DEFAULTS {{ SecType = sys; Squash = none; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{share}\"; Pseudo = \"/{DIR}\"; Access_Type = RW; \
         Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = WARN; }}\n"
    )
}
