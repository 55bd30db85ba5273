//! bubblewrap: namespaces and nothing else. The root is a directory.

use super::{At, Bundle, Runtime, words};
use crate::About;

pub(super) const BUBBLEWRAP: Runtime = Runtime {
    name: "bubblewrap",
    program: ("bwrap", "bubblewrap"),
    about: About::of(
        "a container of bubblewrap",
        ": its root is a directory, so it should cost nothing",
    ),
    command: Some(|bundle| Ok(command(bundle))),
    kernel: None,
    rootless: true,
};

fn command(bundle: &Bundle) -> Vec<std::ffi::OsString> {
    let root = words([
        "bwrap",
        "--bind",
        &bundle.root.seen(),
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--ro-bind",
        "/mnt/layermark",
        bundle.agent[0],
        "--unshare-all",
        "--die-with-parent",
    ]);
    let at = match bundle.at {
        At::Root | At::Named => Vec::new(),
        At::Volume => words(["--bind", "/mnt/volume", "/data"]),
        At::Tmpfs => words(["--tmpfs", "/data"]),
    };
    [root, at, words(bundle.agent)].concat()
}
