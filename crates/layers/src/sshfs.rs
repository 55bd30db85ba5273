use std::path::Path;

use layermark_model::{FRESHER, Missing, Spec};
use layermark_sys::process;

use crate::{
    About, Base, Group, LayerError, LayerInfo, OtherSide, Place, PowerCut, Undo, fuse_program,
    host::{HostPlace, PACKAGED},
    kind::LayerKind,
    needs,
    net::relay::{Distance, distant_options},
    options::on_off,
    sshd, tree,
};

/// A directory of this host that sshfs mounts, through an SSH server on the loopback.
pub(crate) struct Sshfs;

const PROGRAM: &str = "sshfs";

distant_options! {
    pub(crate) struct SshfsOptions {
        /// sshfs remembers names and attributes for 20 s
        cache: bool = "on" ["on", "off"],
    }
}

impl LayerKind for Sshfs {
    const ID: &'static str = PROGRAM;
    type Options = SshfsOptions;

    fn describe(_: &Spec, _: &SshfsOptions) -> LayerInfo {
        LayerInfo {
            power_cut: PowerCut::MOUNTED,
            other_side: OtherSide::Yes,
            ..LayerInfo::new(
                Group::Network,
                About::of(
                    "a directory over SSH",
                    " (SFTP), client and server on this host",
                ),
            )
        }
    }

    fn check(spec: &Spec, options: &SshfsOptions) -> Result<(), LayerError> {
        Distance::of(spec, &options.delay, &options.rate).map(drop)
    }

    fn missing(_: &Spec, _: &SshfsOptions) -> Vec<Missing> {
        sshd::missing(&[(PROGRAM, PROGRAM), ("ssh", "openssh-client")])
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
        let server = sshd::start(&layer, base, distance, undo)?;
        let mut command = needs::tool(&layer, PROGRAM, PROGRAM)?;
        command
            .arg("-F")
            .arg(&server.client)
            .args(["-f", "-o", "default_permissions"])
            .args(fuse_program::for_all_users());
        if !options.cache {
            command.args(["-o", "dir_cache=no"]);
        }
        command
            .arg(format!("127.0.0.1:{}", sshd::shown(&below)))
            .arg(&at);
        let pid = fuse_program::serve(&layer, &mut command, &at, undo)?;
        // When the client ends, all calls fail. Its ssh, and the server, which has a process for each connection, only
        // use CPU time.
        let others = process::children(pid).into_iter().chain([server.pid]);
        let place = others.fold(
            HostPlace::new(base, spec, at.clone()).helper(pid),
            HostPlace::helper_tree,
        );
        let version = |program, option| fuse_program::version(&layer, program, option);
        let mut place = Distance::notes(spec, &SshfsOptions::ROWS)
            .into_iter()
            .fold(place, |place, (name, value)| place.note(name, value))
            .proof(&at, "fuse")
            .backing_dir(&below)
            .other_side(&below)
            .note("cache", on_off(options.cache))
            .version(PROGRAM, version(PROGRAM, "--version")?)
            .version("ssh", version("ssh", "-V")?);
        if options.cache {
            place = place.note(FRESHER, "cache=off");
        }
        place.package()?;
        let place = fuse_program::observed(place, &at, &tree_of(server.pid))?;
        let refresh = refresher(&layer, base, &at.join(PACKAGED), &below.join(PACKAGED));
        Ok(Box::new(place.refresher(refresh)))
    }
}

/// A process and its descendants: that of the connection has the files open.
fn tree_of(pid: u32) -> Vec<u32> {
    let below = process::children(pid).into_iter().flat_map(tree_of);
    [pid].into_iter().chain(below).collect()
}

/// Restores packaged files through the mount, by the times of the served files: SFTP has whole seconds.
fn refresher(
    layer: &str,
    base: &Base,
    at: &Path,
    below: &Path,
) -> impl FnMut(&[String]) -> Result<(), LayerError> + Send + use<> {
    let (layer, master) = (layer.to_owned(), base.packaged.clone());
    let (at, below) = (at.to_owned(), below.to_owned());
    let mut seen = tree::Seen::new();
    move |names| {
        let restored = tree::restore_served(&master, &at, &below, names, &seen);
        restored
            .and_then(|()| tree::see_again(&below, names, &mut seen))
            .map_err(LayerError::io(&layer, "put back packaged files in", &at))
    }
}
