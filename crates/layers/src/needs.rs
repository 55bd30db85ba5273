//! Requirements that a host may lack, each with a command that provides it.

use std::{fs, path::Path, process::Command};

use layermark_model::Missing;
use layermark_sys::packages;

use crate::{LayerError, child};

/// `Some` when the kernel does not have this file system, built in or as a module.
pub(crate) fn kernel_fs(name: &str) -> Option<Missing> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let built_in = known
        .lines()
        .any(|l| l.split_whitespace().last() == Some(name));
    (!built_in && !has_module(name)).then(|| Missing {
        what: format!("the kernel's file system {name}"),
        hint: format!("sudo modprobe {name}, or boot a kernel that has it"),
        installable: false,
    })
}

/// Whether the running kernel could load a module of this name.
fn has_module(name: &str) -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let index = Path::new("/lib/modules").join(release).join("modules.dep");
    let starts = format!("/{name}.ko");
    fs::read_to_string(index).is_ok_and(|text| {
        text.lines()
            .filter_map(|l| l.split(':').next())
            .any(|path| path.contains(&starts))
    })
}

/// `Some` when this binary needs shared libraries, which a guest does not have.
/// `.cargo/config.toml` makes it static; `cargo install --git` does not read that file.
pub(crate) fn static_binary() -> Option<Missing> {
    (!cfg!(target_feature = "crt-static")).then(|| Missing {
        what: "a static layermark: this one was built without crt-static".into(),
        hint: "build it in a checkout: make install".into(),
        installable: false,
    })
}

/// `Some` where a guest cannot run this binary. Its CPU is an x86-64.
pub(crate) fn guest_cpu() -> Option<Missing> {
    let arch = std::env::consts::ARCH;
    (arch != "x86_64").then(|| Missing {
        what: format!(
            "an x86-64 machine: guests are x86-64, and run this program, which is for {arch}"
        ),
        hint: "see what can be set up here: layermark layers".into(),
        installable: false,
    })
}

/// `Some` when the program is not installed.
pub(crate) fn program(name: &str, package: &str) -> Option<Missing> {
    child::program(name).is_none().then(|| Missing {
        what: name.into(),
        hint: packages::sudo_install(package),
        installable: true,
    })
}

/// A command for a program that must be installed.
pub(crate) fn tool(layer: &str, name: &str, package: &str) -> Result<Command, LayerError> {
    match child::program(name) {
        Some(path) => Ok(child::command(path)),
        None => Err(LayerError::Missing {
            layer: layer.into(),
            missing: program(name, package).into_iter().collect(),
        }),
    }
}

/// `Some` when the device cannot be opened for reading and writing.
pub(crate) fn device(path: &str, module: &str) -> Option<Missing> {
    let e = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .err()?;
    let hint = if e.kind() == std::io::ErrorKind::PermissionDenied {
        // For this user alone.
        format!("sudo setfacl -m u:$USER:rw {path}")
    } else {
        format!("sudo modprobe {module}")
    };
    Some(Missing {
        what: format!("{path} ({e})"),
        hint,
        installable: false,
    })
}
