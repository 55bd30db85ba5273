use std::{
    fs,
    path::{Path, PathBuf},
};

use layermark_model::{Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, OtherSide, Place, PowerCut, Undo, fuse_program,
    host::{self, HostPlace, PACKAGED},
    kind::LayerKind,
    needs,
    net::relay::{Distance, distant_options},
    sshd, tree,
};

/// A directory of this host that rclone mounts, through an SSH server on the loopback.
pub(crate) struct Rclone;

const PROGRAM: &str = "rclone";
/// Name of the server in rclone's configuration, and in the paths of its cache.
const REMOTE: &str = "layermark";
const CONFIG: &str = "rclone.conf";

distant_options! {
    pub(crate) struct RcloneOptions {
        /// --vfs-cache-mode: files that are written are kept on this disk and sent 5 s after they are closed; full:
        /// those that are read are kept, too. rclone's default, off, refuses writes at an offset
        cache: String = "writes" ["writes", "full"],
    }
}

impl LayerKind for Rclone {
    const ID: &'static str = PROGRAM;
    type Options = RcloneOptions;

    fn describe(_: &Spec, _: &RcloneOptions) -> LayerInfo {
        LayerInfo {
            power_cut: PowerCut::MOUNTED,
            other_side: OtherSide::Yes,
            ..LayerInfo::new(
                Group::Network,
                About::of(
                    "a directory of a server that rclone mounts",
                    " (SFTP), with its cache on this disk",
                ),
            )
        }
    }

    fn check(spec: &Spec, options: &RcloneOptions) -> Result<(), LayerError> {
        Distance::of(spec, &options.delay, &options.rate).map(drop)
    }

    fn missing(_: &Spec, _: &RcloneOptions) -> Vec<Missing> {
        // It mounts by fusermount, for root too.
        sshd::missing(&[(PROGRAM, PROGRAM), ("fusermount", "fuse3")])
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let layer = spec.to_string();
        let distance = Distance::of(spec, &options.delay, &options.rate)?;
        base.emptied(undo);
        let [below, at] = fuse_program::directories(base, &layer)?;
        let packaged = below.join(PACKAGED);
        if !base.survived() {
            tree::copy(&base.packaged, &packaged)
                .and_then(|()| host::sync(&below))
                .map_err(LayerError::io(&layer, "copy packaged files to", &packaged))?;
        }
        let server = sshd::start(&layer, base, distance, undo)?;
        let shown = sshd::shown(&below);
        let cache = base.dir.join("cache");
        let mut command = needs::tool(&layer, PROGRAM, PROGRAM)?;
        command.current_dir(&base.dir);
        let configured = sshd::know_port(&base.dir, server.port)
            .and_then(|hosts| fs::write(base.dir.join(CONFIG), config(server.port, hosts)));
        configured.map_err(LayerError::io(
            &layer,
            "write the client's configuration in",
            &base.dir,
        ))?;
        // rclone shows no permissions of its own. With these, packaged programs can be launched.
        command
            .args(["mount", "--config", CONFIG, "--file-perms=0777"])
            .args(["--allow-other", "--default-permissions", "--vfs-cache-mode"])
            .arg(&options.cache)
            .arg("--cache-dir")
            .arg(&cache)
            .arg(format!("{REMOTE}:{shown}"))
            .arg(&at);
        let pid = fuse_program::serve(&layer, &mut command, &at, undo)?;
        let cached = cache.join("vfs").join(REMOTE).join(&shown[1..]);
        let place = HostPlace::new(base, spec, at.clone())
            .proof(&at, "fuse")
            .backing_dir(&below)
            .backing_dir(&cached)
            .other_side(&below)
            .helper(pid)
            .helper_tree(server.pid)
            .note("cache", options.cache)
            .note("cache_dir", cache.to_string_lossy())
            .version(
                PROGRAM,
                fuse_program::version(&layer, PROGRAM, "--version")?,
            );
        let place = Distance::notes(spec, &RcloneOptions::ROWS)
            .into_iter()
            .fold(place, |place, (name, value)| place.note(name, value));
        let place = fuse_program::observed(place, &at, &[pid])?;
        let refresh = refresher(&layer, base, at.join(PACKAGED), packaged);
        Ok(Box::new(place.refresher(refresh)))
    }
}

/// Configuration of rclone for the server at this port. Its paths are below rclone's working directory, since rclone
/// takes a `$` in a path for a variable. The server runs no commands.
fn config(port: u16, hosts: &str) -> String {
    format!(
        "[{REMOTE}]\n\
         type = sftp\n\
         host = 127.0.0.1\n\
         port = {port}\n\
         user = root\n\
         key_file = {key}\n\
         known_hosts_file = {hosts}\n\
         shell_type = none\n\
         disable_hashcheck = true\n",
        key = sshd::KEY
    )
}

/// Restores packaged files through the mount. A file is known to be as it was by its time here and on the server:
/// the mount shows what is not sent yet, and rounds the times of what is sent to seconds.
fn refresher(
    layer: &str,
    base: &Base,
    at: PathBuf,
    below: PathBuf,
) -> impl FnMut(&[String]) -> Result<(), LayerError> + Send + use<> {
    let (layer, master) = (layer.to_owned(), base.packaged.clone());
    // What is not seen is compared. A power cut may have left nothing.
    let mut seen = tree::see(&at).unwrap_or_default();
    let mut served = tree::see(&below).unwrap_or_default();
    move |names| {
        let mut restore = || {
            let now = tree::see(&below)?;
            let is_served = |path: &Path| {
                let path = below.join(path.strip_prefix(&at).unwrap_or(path));
                now.get(&path) == served.get(&path)
            };
            seen.retain(|path, _| is_served(path));
            tree::restore(&master, &at, names, &seen)?;
            // What has changed under another name stays unknown, and is compared when it is named.
            tree::see_again(&at, names, &mut seen)?;
            tree::see_again(&below, names, &mut served)
        };
        restore().map_err(LayerError::io(&layer, "put back packaged files in", &at))
    }
}
