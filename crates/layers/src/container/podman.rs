//! podman with crun, and a store of its own: no image, container or volume of the user's is touched.

use std::ffi::OsString;

use rustix::process::{Resource, getrlimit};

use super::{At, Bundle, Runtime, contained, words};
use crate::{LayerError, child, needs};

/// The storage driver.
pub(super) const DRIVER: &str = "overlay";
const IMAGE: &str = "layermark:run";

pub(super) const PODMAN: Runtime = Runtime {
    program: ("podman", "podman"),
    about: "a container of podman: its root is an overlay",
    command: Some(command),
};

/// podman as it is called for each of its commands.
fn podman() -> Vec<OsString> {
    contained([
        "podman",
        "--root=/mnt/store",
        "--runroot=/run/storage",
        "--tmpdir=/run/libpod",
        "--runtime=crun",
        "--cgroup-manager=cgroupfs",
        "--events-backend=none",
        "--storage-driver",
        DRIVER,
    ])
}

fn command(bundle: &Bundle) -> Result<Vec<OsString>, LayerError> {
    let root = bundle.dir.join("root");
    let image = bundle.dir.join("image.tar");
    let mut tar = needs::tool(bundle.layer, "tar", "tar")?;
    child::run(
        bundle.layer,
        tar.arg("-cf").arg(&image).arg("-C").arg(root).arg("."),
    )?;
    bundle.run(
        &[
            podman(),
            words(["import", "--quiet", "/mnt/image.tar", IMAGE]),
        ]
        .concat(),
    )?;
    // Its output is not logged: this is the probe's.
    let run = words([
        "run",
        "--interactive",
        "--pull=never",
        "--network=none",
        "--cgroups=disabled",
        "--log-driver=none",
        "--volume=/mnt/layermark:/layermark:ro",
    ]);
    let at = match bundle.at {
        At::Root => Vec::new(),
        At::Volume => words(["--volume=/mnt/volume:/data"]),
        At::Named => words(["--volume=layermark:/data"]),
        At::Tmpfs => words(["--tmpfs=/data"]),
    };
    let rm = if bundle.rm {
        words(["--rm"])
    } else {
        Vec::new()
    };
    let last = [words([IMAGE]), words(bundle.agent)].concat();
    Ok([podman(), run, limits(), at, rm, last].concat())
}

/// This process's own limits: podman's defaults are higher than some users, and root without
/// `CAP_SYS_RESOURCE`, may set.
fn limits() -> Vec<OsString> {
    let limit = |name: &str, of: Resource| {
        let now = getrlimit(of);
        let text = |n: Option<u64>| n.map_or("-1".into(), |n| n.to_string());
        OsString::from(format!(
            "--ulimit={name}={}:{}",
            text(now.current),
            text(now.maximum)
        ))
    };
    vec![
        limit("nofile", Resource::Nofile),
        limit("nproc", Resource::Nproc),
    ]
}
