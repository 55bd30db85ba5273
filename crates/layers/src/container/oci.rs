//! crun, runc and gVisor's runsc as podman, Docker and Kubernetes start them, with a bundle whose root is a
//! directory.

use std::{ffi::OsString, fs, path::Path, process};

use serde_json::{Value, json};

use super::{At, Bundle, Overlay, Runtime, contained};
use crate::{About, LayerError};

pub(super) const CRUN: Runtime = Runtime {
    name: "crun",
    program: ("crun", "crun"),
    about: About::of(
        "a container of crun",
        ": its root is a directory, so it should cost nothing",
    ),
    command: Some(|bundle| {
        describe(bundle, None)?;
        let mut words = contained(["crun", "--cgroup-manager=disabled", "run"]);
        words.extend(["--bundle=/mnt".into(), name(bundle)]);
        Ok(words)
    }),
    kernel: None,
    rootless: true,
};

pub(super) const RUNC: Runtime = Runtime {
    name: "runc",
    program: ("runc", "runc"),
    about: About::of(
        "a container of runc",
        ": its root is a directory, so it should cost nothing",
    ),
    command: Some(|bundle| {
        remove_groups();
        describe(bundle, Some(format!("/{GROUP}{}", process::id())))?;
        let mut words = contained(["runc", "run", "--bundle", "/mnt"]);
        words.push(name(bundle));
        Ok(words)
    }),
    kernel: None,
    rootless: false,
};

/// With runsc's own defaults, as `docker run --runtime=runsc`, except for `overlay`. Its state is in the runtime's own
/// `/run`.
pub(super) const GVISOR: Runtime = Runtime {
    name: "gvisor",
    program: ("runsc", "runsc"),
    about: About::of(
        "a container of gVisor",
        ": a kernel in user space answers its system calls, and reads from its memory",
    ),
    command: Some(|bundle| {
        describe(bundle, None)?;
        let mut words = contained([
            "runsc",
            "--root=/run/runsc",
            "--network=none",
            "--ignore-cgroups",
        ]);
        words.extend(match bundle.overlay {
            Overlay::Default => None,
            Overlay::None => Some("--overlay2=none".into()),
            Overlay::Memory => Some("--overlay2=root:memory".into()),
        });
        words.extend(["run".into(), "--bundle=/mnt".into(), name(bundle)]);
        Ok(words)
    }),
    kernel: Some(
        "cold reads, except by the bytes that the disk has read: its kernel keeps files in memory of its own, which this host cannot empty",
    ),
    rootless: false,
};

/// Prefix of the names of runc's control groups. The process id of layermark follows.
const GROUP: &str = "layermark-";

/// Removes the control groups of layermarks that have ended: a runc that is killed leaves its own. Only empty
/// ones can be removed.
fn remove_groups() {
    for dir in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        for group in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = group.file_name().to_string_lossy().into_owned();
            let id = name
                .strip_prefix(GROUP)
                .and_then(|id| id.parse::<u32>().ok());
            if id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
                let _ = fs::remove_dir(group.path());
            }
        }
    }
}

/// The container's name: the token of its agent.
fn name(bundle: &Bundle) -> OsString {
    bundle.agent[2].into()
}

/// Writes `config.json` (OCI runtime specification 1.0).
fn describe(bundle: &Bundle, group: Option<String>) -> Result<(), LayerError> {
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", "mode=755"]}),
        bind("/mnt/layermark", bundle.agent[0], "ro"),
    ];
    match bundle.at {
        At::Root | At::Named => {}
        At::Volume => mounts.push(bind("/mnt/volume", "/data", "rw")),
        At::Tmpfs => {
            mounts.push(json!({"destination": "/data", "type": "tmpfs", "source": "tmpfs"}));
        }
    }
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|name| json!({"type": name}));
    let mut linux = json!({"namespaces": namespaces});
    if let Some(group) = group {
        linux["cgroupsPath"] = group.into();
    }
    let config = json!({
        "ociVersion": "1.0.0",
        "process": {
            "terminal": false, "user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/"],
            "args": bundle.agent, "noNewPrivileges": true,
        },
        "root": {"path": bundle.root.seen(), "readonly": false},
        "mounts": mounts,
        "linux": linux,
    });
    fs::write(bundle.dir.join("config.json"), config.to_string())
        .map_err(|e| bundle.io("describe a container in", e))
}

fn bind(from: &str, at: &str, access: &str) -> Value {
    json!({"destination": at, "type": "bind", "source": from, "options": ["bind", access]})
}
