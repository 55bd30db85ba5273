//! systemd-nspawn, without the services of systemd. The root is a directory.

use super::{At, Bundle, Runtime, contained, words};
use crate::About;

pub(super) const NSPAWN: Runtime = Runtime {
    name: "nspawn",
    program: ("systemd-nspawn", "systemd-container"),
    about: About::of(
        "a container of systemd-nspawn",
        ": its root is a directory, so it should cost nothing",
    ),
    command: Some(|bundle| Ok(command(bundle))),
    kernel: None,
    rootless: false,
};

fn command(bundle: &Bundle) -> Vec<std::ffi::OsString> {
    let root = contained([
        "systemd-nspawn",
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--pipe",
        "--private-network",
        &format!("--directory={}", bundle.root.seen()),
        &format!("--bind-ro=/mnt/layermark:{}", bundle.agent[0]),
    ]);
    let at = match bundle.at {
        At::Root | At::Named => Vec::new(),
        At::Volume => words(["--bind=/mnt/volume:/data"]),
        At::Tmpfs => words(["--tmpfs=/data"]),
    };
    [root, at, words(bundle.agent)].concat()
}
