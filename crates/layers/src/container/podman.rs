//! podman with crun, and a store of its own: no image, container or volume of the user's is touched.

use std::{ffi::OsString, fs, path::PathBuf};

use rustix::process::{Resource, getrlimit};

use super::{At, Bundle, Root, Runtime, contained, oci_image, words};
use crate::{
    About, LayerError, child, needs,
    sandbox::{self, Privilege},
};

/// The storage driver.
pub(super) const DRIVER: &str = "overlay";
/// Where the image of empty directories is in the layer's directory.
const IMAGE: &str = "image";
/// Where the store of the user's images is shown in the layer's directory.
pub(super) const IMAGES: &str = "images";
/// What `podman info` says of that store: driver, directory, options.
const STORE: &str = "{{.Store.GraphDriverName}}\n{{.Store.GraphRoot}}\
                     {{range $name, $value := .Store.GraphOptions}}\n{{$name}}={{$value}}{{end}}";

pub(super) const PODMAN: Runtime = Runtime {
    name: "podman",
    program: ("podman", "podman"),
    about: About::of("a container of podman", ": its root is an overlay"),
    command: Some(command),
    kernel: None,
    rootless: true,
};

/// An image of the user's. The container's own store reads it where it is.
pub(super) struct Image {
    pub(super) id: String,
    pub(super) driver: String,
    /// The user's store.
    pub(super) store: PathBuf,
    /// The driver's options there.
    options: Vec<String>,
}

impl Image {
    pub(super) fn find(layer: &str, name: &str) -> Result<Self, LayerError> {
        let ask = |words: &[&str]| {
            let mut podman = needs::tool(layer, PODMAN.program.0, PODMAN.program.1)?;
            child::lines(layer, podman.args(words))
        };
        let id = ask(&["image", "inspect", "--format={{.Id}}", name])?;
        let mut about = ask(&["info", "--format", STORE])?.into_iter();
        let driver = about.next().unwrap_or_default();
        let store = about.next().unwrap_or_default().into();
        let prefix = format!("{driver}.");
        // `podman info` prints a program with its version.
        let option = |line: String| match line.split_once("=map[Executable:") {
            Some((name, program)) => {
                let path = program.split(' ').next().unwrap_or_default();
                format!("{name}={path}")
            }
            None => line,
        };
        Ok(Self {
            id: id.into_iter().next().unwrap_or_default(),
            store,
            options: about
                .filter(|l| l.starts_with(&prefix))
                .map(option)
                .collect(),
            driver,
        })
    }
}

/// podman as it is called for each of its commands.
fn podman(bundle: &Bundle) -> Vec<OsString> {
    // podman sets it in the user namespace that it makes for a user without root. Here it is in ours.
    let rootless = match sandbox::privilege() {
        Privilege::Root => "",
        _ => "done",
    };
    let mut podman = contained([
        "env",
        &format!("_CONTAINERS_USERNS_CONFIGURED={rootless}"),
        "podman",
        "--root=/mnt/store",
        "--runroot=/run/storage",
        "--tmpdir=/run/libpod",
        "--runtime=crun",
        "--cgroup-manager=cgroupfs",
        "--events-backend=none",
        "--storage-driver",
        bundle.root.driver().unwrap_or(DRIVER),
    ]);
    podman.extend(bundle.network.global());
    if let Root::Image(image) = bundle.root {
        let images = format!("{}.imagestore=/mnt/{IMAGES}", image.driver);
        let options = image.options.iter().chain([&images]);
        podman.extend(options.map(|option| format!("--storage-opt={option}").into()));
    }
    podman
}

/// Makes an image of the root's empty directories.
fn make_image(bundle: &Bundle) -> Result<(), LayerError> {
    let root = bundle.dir.join(bundle.root.name());
    let tar = bundle.dir.join("image.tar");
    let mut make = needs::tool(bundle.layer, "tar", "tar")?;
    make.arg("-cf").arg(&tar).arg("-C").arg(&root).arg(".");
    child::run(bundle.layer, &mut make)?;
    fs::read(&tar)
        .and_then(|bytes| oci_image::write(&bundle.dir.join(IMAGE), &bytes))
        .and_then(|()| fs::remove_file(&tar))
        .map_err(|e| bundle.io("make an image in", e))
}

fn command(bundle: &Bundle) -> Result<Vec<OsString>, LayerError> {
    let root = match bundle.root {
        Root::Empty => {
            make_image(bundle)?;
            words([&format!("oci:/mnt/{IMAGE}")])
        }
        // Its own overlay of a directory (`--rootfs DIR:O`) keeps the changes in memory, below /run.
        Root::Over(_) => words(["--rootfs", &bundle.root.seen()]),
        Root::Image(image) => words([&image.id]),
    };
    // Its output is not logged: this is the probe's. An image may say how it is to be run: we do not want that.
    let run = words([
        "run",
        "--quiet",
        "--interactive",
        "--pull=never",
        "--cgroups=disabled",
        "--log-driver=none",
        "--user=0:0",
        "--workdir=/",
        "--entrypoint=",
        "--image-volume=ignore",
        "--no-healthcheck",
        &format!("--volume=/mnt/layermark:{}:ro", bundle.agent[0]),
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
    let last = [root, words(bundle.agent)].concat();
    let network = bundle.network.words();
    Ok([podman(bundle), run, network, limits(), at, rm, last].concat())
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
