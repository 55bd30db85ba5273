//! SMB: samba on this host, reached over the guest's network card.

use std::{
    fs,
    io::Write,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use layermark_model::Missing;

use super::{DIR, Serve, ShareProtocol};
use crate::{
    Control, LayerError,
    agent::protocol::Mounting,
    child::{self, Process},
    needs,
    vm::net::server,
};

const PROGRAM: (&str, &str) = ("smbd", "samba");
const PASSWORDS: (&str, &str) = ("smbpasswd", "samba-common-bin");
const PORT: u16 = 445;
const CONFIG: &str = "smb.conf";
/// Password of a server that only the guest can reach.
const PASSWORD: &str = "layermark";
/// Directories for its own files.
const STATE: [&str; 6] = ["private", "lock", "state", "cache", "pid", "ncalrpc"];

/// SMB by samba.
pub(super) struct Smb;

impl ShareProtocol for Smb {
    fn name(&self) -> &'static str {
        "smb"
    }

    fn port(&self) -> Option<u16> {
        Some(PORT)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["cifs"]
    }

    fn caches(&self) -> &'static [&'static str] {
        &["strict", "none", "loose"]
    }

    fn missing(&self) -> Vec<Missing> {
        needs::program(PROGRAM.0, PROGRAM.1)
            .into_iter()
            .chain(needs::program(PASSWORDS.0, PASSWORDS.1))
            // It changes to the user of the connection, which needs root.
            .chain(crate::sandbox::not_root())
            .collect()
    }

    fn serve(&self, at: &Serve<'_>) -> Result<Option<Process>, LayerError> {
        let config = at.dir.join(CONFIG);
        let state = at.dir.join("smb");
        let io = |what: &str| LayerError::io(at.layer, what, &state);
        for name in STATE {
            fs::create_dir_all(state.join(name)).map_err(io("make directories in"))?;
        }
        fs::write(&config, config_text()).map_err(io("write a configuration for"))?;
        add_user(at)?;
        let mut command = needs::tool(at.layer, PROGRAM.0, PROGRAM.1)?;
        // Shows its guest in the list of processes.
        command
            .arg0(format!("{} {}", PROGRAM.0, at.dir.display()))
            .args(["-F", "--no-process-group", "-s", &server::seen(CONFIG)])
            // Messages before it has read its configuration go to a file there.
            .args(["-l", &server::seen("smb")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let server = server::start(at.network, at.dir, &mut command).map_err(LayerError::io(
            at.layer,
            "start",
            PROGRAM.0.as_ref(),
        ))?;
        at.until("smbd", server, |s| server::listens(s, PORT))
    }

    fn mounting(&self, cache: &str, port: u16) -> Mounting {
        let host = crate::net::HOST;
        Mounting {
            fs: "cifs".into(),
            source: Some(format!("//{host}/{DIR}")),
            // Files that are closed late would keep an earlier mount of it alive and shared.
            options: format!(
                "ip={host},unc=\\\\{host}\\{DIR},port={port},user=root,pass={PASSWORD},\
                 vers=3.1.1,sec=ntlmssp,cache={cache},nosharesock"
            ),
        }
    }

    fn server(&self) -> Option<(&'static str, Command)> {
        let mut command = child::command(child::program(PROGRAM.0)?);
        command.arg("--version");
        Some(("samba", command))
    }

    /// It holds a lease on files that were closed shortly before.
    fn sticky(&self) -> bool {
        true
    }
}

/// Adds a password for root to the server's own database.
fn add_user(at: &Serve<'_>) -> Result<(), LayerError> {
    let io = |e| LayerError::io(at.layer, "run", PASSWORDS.0.as_ref())(e);
    let mut command = needs::tool(at.layer, PASSWORDS.0, PASSWORDS.1)?;
    command
        .args(["-c", &server::seen(CONFIG), "-s", "-a", "root"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = server::start(at.network, at.dir, &mut command).map_err(io)?;
    if let Some(mut stdin) = process.child().stdin.take() {
        write!(stdin, "{PASSWORD}\n{PASSWORD}\n").map_err(io)?;
    }
    match process.wait(at.limit).as_deref() {
        Some("exit code 0") => Ok(()),
        Some(status) => Err(LayerError::Program {
            layer: at.layer.into(),
            program: PASSWORDS.0.into(),
            status: status.into(),
            tail: process.tail(),
        }),
        None => Err(LayerError::Slow {
            layer: at.layer.into(),
            what: PASSWORDS.0.into(),
            after: at.limit,
            tail: process.tail(),
        }),
    }
}

fn config_text() -> String {
    let (host, share) = (crate::net::HOST, server::beside(DIR));
    let state = server::seen("smb");
    // Flushes are carried out when requested, as is samba's default.
    format!(
        "[global]\n\
         server role = standalone server\n\
         smb ports = {PORT}\n\
         interfaces = {host}\n\
         bind interfaces only = yes\n\
         disable netbios = yes\n\
         private dir = {state}/private\n\
         lock directory = {state}/lock\n\
         state directory = {state}/state\n\
         cache directory = {state}/cache\n\
         pid directory = {state}/pid\n\
         ncalrpc dir = {state}/ncalrpc\n\
         log file = /dev/stderr\n\
         max log size = 0\n\
         passdb backend = tdbsam\n\
         disable spoolss = yes\n\
         load printers = no\n\
         printcap name = /dev/null\n\
         server min protocol = SMB3\n\
         strict sync = yes\n\
         [{DIR}]\n\
         path = {share}\n\
         read only = no\n\
         force user = root\n"
    )
}
