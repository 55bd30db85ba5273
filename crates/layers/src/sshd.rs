//! An OpenSSH server on the loopback that serves files over SFTP, as root, to whoever has the key that was made
//! for it. The key is where only root can read it. The server sees the layer's directory at [`SEEN_AT`], and its
//! configuration and keys end with it.

use std::{
    collections::HashSet,
    ffi::CString,
    fs,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_model::Missing;

use crate::{
    Base, Control, LayerError, Undo,
    child::{self, Change, Process, SEEN_AT},
    fuse_program, needs,
    net::relay::{self, Distance},
    removal, sandbox,
};

/// Directory of its keys and files, below the one that it serves.
const OWN: &str = "ssh";
/// The client's key, below the directory that is served.
pub(crate) const KEY: &str = "ssh/key";
/// Programs and their packages.
const SERVER: (&str, &str) = ("sshd", "openssh-server");
const KEYGEN: (&str, &str) = ("ssh-keygen", "openssh-client");
/// Name of the server among the known hosts.
const ALIAS: &str = "layermark";
/// How many times another port is tried, because another program has taken the chosen one.
const TRIES: usize = 5;
/// Least time limit of its start: it takes half a second on a machine that is not busy.
const FLOOR: Duration = Duration::from_secs(10);

/// A server that accepts connections.
pub(crate) struct Sshd {
    pub(crate) pid: u32,
    /// Port at which clients reach it, from the distance that was asked for.
    pub(crate) port: u16,
    /// Configuration of a client, which names the key and the port.
    pub(crate) client: PathBuf,
}

/// What this host lacks for the server, and for a client that mounts by these programs of these packages.
pub(crate) fn missing(client: &[(&str, &str)]) -> Vec<Missing> {
    // The server changes to the user of the connection, which needs root.
    let mut missing: Vec<Missing> = sandbox::not_root().into_iter().collect();
    let programs = [client, &[SERVER, KEYGEN]].concat();
    missing.extend(fuse_program::missing(&programs));
    // A package may have several of the programs.
    let mut hints = HashSet::new();
    missing.retain(|lacks| hints.insert(lacks.hint.clone()));
    missing
}

/// The path of a directory below [`Base::dir`] as the server sees it.
pub(crate) fn shown(below: &Path) -> String {
    let name = below.file_name().unwrap_or_default();
    format!("{SEEN_AT}/{}", name.to_string_lossy())
}

/// Starts a server that sees [`Base::dir`] at [`SEEN_AT`], at this distance. It ends with layermark, or when `undo`
/// runs.
pub(crate) fn start(
    layer: &str,
    base: &Base,
    distance: Option<Distance>,
    undo: &mut Undo,
) -> Result<Sshd, LayerError> {
    let dir = &base.dir;
    let own = dir.join(OWN);
    let failed = |what| LayerError::io(layer, what, &own);
    make_dirs(&own).map_err(failed("make directories in"))?;
    for name in ["host_key", "key"] {
        let mut keygen = needs::tool(layer, KEYGEN.0, KEYGEN.1)?;
        keygen.current_dir(&own);
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name]);
        child::run(layer, &mut keygen)?;
    }
    allow(&own)
        .and_then(|()| know_host(&own))
        .map_err(failed("write the server's configuration in"))?;
    let client = own.join("config");
    for _ in 0..TRIES {
        let port = free_port().map_err(failed("find a port for the server of"))?;
        write(&own.join("sshd_config"), &server_config(port))
            .map_err(failed("write the configuration in"))?;
        let mut command = needs::tool(layer, SERVER.0, SERVER.1)?;
        command.args(["-D", "-e", "-f"]);
        command.arg(format!("{SEEN_AT}/{OWN}/sshd_config"));
        let view = view(dir).map_err(failed("name"))?;
        child::with_view(&mut command, view);
        let server = Process::start(&mut command).map_err(failed("start sshd in"))?;
        let Some(mut server) = listening(layer, server, base.silence.max(FLOOR))? else {
            continue;
        };
        let pid = server.child().id();
        undo.push("end sshd", move || {
            drop(server);
            Ok(())
        });
        let port = match distance {
            Some(distance) => relay::until_undone(layer, distance, port, undo)?,
            None => port,
        };
        write(&client, &client_config(&own, port))
            .map_err(failed("write the client's configuration in"))?;
        return Ok(Sshd { pid, port, client });
    }
    Err(failed("find a port for the server of")(
        io::ErrorKind::AddrInUse.into(),
    ))
}

/// Makes its private directories afresh: keys that a power cut left may be torn.
fn make_dirs(own: &Path) -> io::Result<()> {
    removal::remove(own)?;
    fs::DirBuilder::new().mode(0o700).create(own)?;
    // sshd changes its root to this directory before a client is known.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(own.join("run/sshd"))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::options();
    file.write(true).create(true).truncate(true).mode(0o600);
    file.open(path)?.write_all(text.as_bytes())
}

/// Writes which keys may log in. Root is shown without a password and not locked, whatever it is on this host.
fn allow(own: &Path) -> io::Result<()> {
    let key = fs::read_to_string(own.join("key.pub"))?;
    write(&own.join("authorized_keys"), &format!("restrict {key}"))?;
    write(&own.join("shadow"), "root:*:19000:0:99999:7:::\n")
}

/// Writes the server's key for a client, which may reach it at any port.
fn know_host(own: &Path) -> io::Result<()> {
    let key = fs::read_to_string(own.join("host_key.pub"))?;
    write(&own.join("known_hosts"), &format!("{ALIAS} {key}"))
}

/// Writes the server's key for a client of `port` that knows no alias. Returns the file's path below `dir`, the
/// directory that is served.
pub(crate) fn know_port(dir: &Path, port: u16) -> io::Result<&'static str> {
    const HOSTS: &str = "ssh/known_port";
    let key = fs::read_to_string(dir.join(OWN).join("host_key.pub"))?;
    write(&dir.join(HOSTS), &format!("[127.0.0.1]:{port} {key}"))?;
    Ok(HOSTS)
}

/// A port that nothing listens on. Another program may take it before the server does.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn server_config(port: u16) -> String {
    let own = format!("{SEEN_AT}/{OWN}");
    format!(
        "ListenAddress 127.0.0.1:{port}\n\
         HostKey {own}/host_key\n\
         AuthorizedKeysFile {own}/authorized_keys\n\
         AuthenticationMethods publickey\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         AllowUsers root\n\
         PermitRootLogin prohibit-password\n\
         UsePAM no\n\
         StrictModes no\n\
         DisableForwarding yes\n\
         PermitUserRC no\n\
         PermitTTY no\n\
         PidFile none\n\
         Subsystem sftp internal-sftp\n\
         ForceCommand internal-sftp\n"
    )
}

fn client_config(own: &Path, port: u16) -> String {
    let [key, hosts] = ["key", "known_hosts"].map(|name| quoted(&own.join(name)));
    format!(
        "Host 127.0.0.1\n\
         Port {port}\n\
         User root\n\
         IdentityFile {key}\n\
         IdentitiesOnly yes\n\
         IdentityAgent none\n\
         UserKnownHostsFile {hosts}\n\
         HostKeyAlias {ALIAS}\n\
         GlobalKnownHostsFile /dev/null\n\
         StrictHostKeyChecking yes\n\
         UpdateHostKeys no\n\
         PreferredAuthentications publickey\n\
         BatchMode yes\n"
    )
}

/// A path in the configuration of a client (`ssh_config(5)`).
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let path = path.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", path.replace('%', "%%"))
}

/// What the server sees in place of files of this host.
fn view(dir: &Path) -> io::Result<Vec<Change>> {
    let path = |path: &Path| Change::path(path);
    let shadow = dir.join(OWN).join("shadow");
    let run = dir.join(OWN).join("run");
    Ok(vec![
        Change::Show(Some(path(dir)?), CString::new(SEEN_AT)?),
        Change::Cover(path(&shadow)?, path("/etc/shadow".as_ref())?),
        Change::Show(Some(path(&run)?), path("/run".as_ref())?),
    ])
}

/// Waits until the server listens. `None`: another program has its port.
fn listening(
    layer: &str,
    mut server: Process,
    limit: Duration,
) -> Result<Option<Process>, LayerError> {
    let start = Instant::now();
    let said = |server: &Process, words: &str| server.tail().iter().any(|l| l.contains(words));
    while !said(&server, "Server listening on") {
        if let Some(status) = server.wait(Duration::from_millis(2)) {
            let tail = server.last_lines();
            if tail.iter().any(|line| line.contains("in use")) {
                return Ok(None);
            }
            return Err(LayerError::Program {
                layer: layer.into(),
                program: SERVER.0.into(),
                status,
                tail,
            });
        }
        if start.elapsed() > limit {
            return Err(LayerError::Slow {
                layer: layer.into(),
                what: SERVER.0.into(),
                after: limit,
                tail: server.tail(),
            });
        }
    }
    Ok(Some(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_for_a_client() {
        let path = Path::new("/a b/c%d/\\\"e");
        assert_eq!(quoted(path), "\"/a b/c%%d/\\\\\\\"e\"");
    }

    #[test]
    fn only_the_key_of_the_run_opens_the_server() {
        let text = server_config(1234);
        for line in [
            "ListenAddress 127.0.0.1:1234",
            "AuthenticationMethods publickey",
            "ForceCommand internal-sftp",
            "DisableForwarding yes",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}");
        }
        assert!(client_config(Path::new("/x"), 1).contains("StrictHostKeyChecking yes\n"));
    }
}
