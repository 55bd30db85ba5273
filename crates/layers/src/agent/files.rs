//! Sends packaged files to an agent.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::SystemTime,
};

use super::{client::AgentClient, protocol::AgentRequest};
use crate::tree;

/// Names of all files, directories and links below `master`; a directory comes before its content.
pub(crate) fn list(master: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    tree::all(master, &mut |path, _| {
        let below = path.strip_prefix(master).map_err(io::Error::other)?;
        let name = below.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        paths.push(name.to_owned());
        Ok(())
    })?;
    paths.sort();
    Ok(paths)
}

/// Sends the file, directory or link `from`. The agent reports a failure in reply to the next
/// [`AgentRequest::Seal`].
pub(crate) fn send(agent: &AgentClient, name: &str, from: &Path) -> io::Result<()> {
    let meta = from.symlink_metadata()?;
    // Times are sent as seconds since 1970.
    let modified = meta.modified()?.max(SystemTime::UNIX_EPOCH);
    let path = name.to_owned();
    if meta.is_file() {
        let put = AgentRequest::Put {
            path,
            size: meta.len(),
            runs: meta.permissions().mode() & 0o111 != 0,
            modified,
        };
        return agent.put(&put, &mut File::open(from)?);
    }
    let text = meta.is_symlink().then(|| fs::read_link(from)).transpose()?;
    let text = text.map(|t| t.into_os_string().into_string()).transpose();
    let link = text.map_err(|_| io::ErrorKind::InvalidFilename)?;
    let make = AgentRequest::Make {
        path,
        link,
        modified,
    };
    agent.put(&make, &mut io::empty())
}
