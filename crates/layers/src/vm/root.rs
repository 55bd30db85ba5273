//! `root=`: a tree of files that becomes the probe's root in the guest, so that the user's own
//! programs run there. It is never written to: changes stay in the guest's memory.

use std::{io, path::Path};

use layermark_model::{Missing, Spec};

use crate::{
    LayerError,
    agent::protocol::{Mounting, ROOT_TAG},
    child::Change,
    options::bad,
    sandbox,
    vm::{options::VmOptions, secrets},
};

/// Source of the guest's programs.
pub(crate) enum Root<'a> {
    /// This host, without its private files.
    Host,
    /// A directory of this host.
    Dir(&'a Path),
    /// A disk image.
    Image(&'a Path),
}

impl<'a> Root<'a> {
    /// `None`: the guest has only the probe.
    pub(super) fn of(spec: &Spec, options: &'a VmOptions) -> Result<Option<Self>, LayerError> {
        let wrong = |text: &str, must: &str| Err(bad(spec, "root", text, must.into()));
        let secrets = options.secrets;
        match &*options.root {
            other if secrets && other != "host" => {
                Err(bad(spec, "secrets", "on", "is for root=host".into()))
            }
            "none" => Ok(None),
            "host" if secrets => Ok(Some(Self::Dir(Path::new("/")))),
            "host" => Ok(Some(Self::Host)),
            text => {
                let path = Path::new(text);
                if !path.is_absolute() {
                    wrong(text, "must be none, host or an absolute path")
                } else if path.is_dir() {
                    Ok(Some(Self::Dir(path)))
                } else if path.is_file() {
                    Ok(Some(Self::Image(path)))
                } else {
                    wrong(text, "does not exist")
                }
            }
        }
    }

    /// Modules that the guest needs.
    pub(crate) fn modules(&self) -> &'static [&'static str] {
        match self {
            Self::Host | Self::Dir(_) => &["virtio_pci", "9p", "9pnet_virtio", "overlay"],
            Self::Image(_) => &["virtio_pci", "virtio_blk", "ext4", "xfs", "overlay"],
        }
    }

    /// QEMU's arguments.
    pub(crate) fn devices(&self) -> Vec<String> {
        // A comma in a value must be doubled.
        let plain = |path: &Path| path.to_string_lossy().replace(',', ",,");
        let tree = |path: String| {
            vec![
                "-fsdev".into(),
                format!(
                    "local,id={ROOT_TAG},path={path},security_model=none,readonly=on,multidevs=remap"
                ),
                "-device".into(),
                format!("virtio-9p-pci,fsdev={ROOT_TAG},mount_tag={ROOT_TAG}"),
            ]
        };
        match self {
            Self::Host => tree(secrets::VIEW.into()),
            Self::Dir(path) => tree(plain(path)),
            Self::Image(path) => {
                let qcow2 = path.extension().is_some_and(|e| e == "qcow2");
                let format = if qcow2 { "qcow2" } else { "raw" };
                vec![
                    "-drive".into(),
                    format!(
                        "file={},if=none,id={ROOT_TAG},format={format},readonly=on",
                        plain(path)
                    ),
                    "-device".into(),
                    format!("virtio-blk-pci,drive={ROOT_TAG},serial={ROOT_TAG}"),
                ]
            }
        }
    }

    /// Changes to the files that QEMU sees; its private directory is `dir`.
    pub(crate) fn view(&self, dir: &Path) -> io::Result<Vec<Change>> {
        match self {
            Self::Host => secrets::view(dir),
            Self::Dir(_) | Self::Image(_) => Ok(Vec::new()),
        }
    }

    /// What this host lacks.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let lacks = matches!(self, Self::Host).then(sandbox::no_mounts)??;
        let hint = format!("{}, or secrets=on, which hides nothing", lacks.hint);
        Some(Missing { hint, ..lacks })
    }

    /// How the guest mounts it; `None`: it is on the disk with that serial number.
    pub(crate) fn mounting(&self) -> Option<Mounting> {
        match self {
            Self::Host | Self::Dir(_) => Some(Mounting {
                fs: "9p".into(),
                source: Some(ROOT_TAG.into()),
                // Only the owner of this host changes it.
                options: "trans=virtio,version=9p2000.L,msize=524288,cache=loose".into(),
            }),
            Self::Image(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    #[test]
    fn a_root_is_a_directory_or_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("a,b.qcow2");
        std::fs::write(&image, b"x").unwrap();
        let spec = |root: &str| -> Spec {
            let mut spec: Spec = "vm".parse().unwrap();
            spec.options.insert("root".into(), root.into());
            spec
        };
        let shown = |spec: &Spec| match Root::of(spec, &VmOptions::read(spec).unwrap()) {
            Ok(Some(root)) => root.devices().join(" "),
            Ok(None) => String::new(),
            Err(e) => e.to_string(),
        };
        let text = |root: &str| shown(&spec(root));
        assert_eq!(text("none"), "");
        assert!(text("host").contains("path=root,"));
        let mut all = spec("host");
        all.options.insert("secrets".into(), "on".into());
        let shared = shown(&all);
        assert!(shared.contains("path=/,"), "{shared}");
        all.options.insert("root".into(), "none".into());
        let refused = shown(&all);
        assert!(refused.contains("is for root=host"), "{refused}");
        assert!(text(dir.path().to_str().unwrap()).contains("readonly=on"));
        let image = text(image.to_str().unwrap());
        assert!(
            image.contains("a,,b.qcow2,") && image.contains("format=qcow2,readonly=on"),
            "{image}"
        );
        assert!(text("usr").contains("absolute"));
        assert!(text("/nonexistent").contains("does not exist"));
    }
}
