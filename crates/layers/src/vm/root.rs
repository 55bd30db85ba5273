//! `root=`: a tree of files that becomes the probe's world in the guest, so that the user's own
//! programs run there. It is never written to: changes stay in the guest's memory.

use std::path::Path;

use layermark_model::Spec;

use crate::{
    LayerError,
    options::{bad, value},
    vm::{
        OPTIONS,
        talk::{Mounting, ROOT_TAG},
    },
};

/// Where the guest's programs come from.
pub(crate) enum Root<'a> {
    /// A directory of this host.
    Dir(&'a Path),
    /// An image of a disk.
    Image(&'a Path),
}

impl<'a> Root<'a> {
    /// `None`: the guest has nothing but the probe.
    pub(crate) fn of(spec: &'a Spec) -> Result<Option<Self>, LayerError> {
        let wrong = |text: &str, must: &str| Err(bad(spec, "root", text, must.into()));
        match value(spec, OPTIONS, "root") {
            "none" => Ok(None),
            "host" => Ok(Some(Self::Dir(Path::new("/")))),
            text => {
                let path = Path::new(text);
                if !path.is_absolute() {
                    wrong(text, "is neither none, nor host, nor an absolute path")
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

    /// Modules of the guest.
    pub(crate) fn modules(&self) -> &'static [&'static str] {
        match self {
            Self::Dir(_) => &["virtio_pci", "9p", "9pnet_virtio", "overlay"],
            Self::Image(_) => &["virtio_pci", "virtio_blk", "ext4", "xfs", "overlay"],
        }
    }

    /// QEMU's arguments.
    pub(crate) fn devices(&self) -> Vec<String> {
        // A comma in a value is written twice.
        let plain = |path: &Path| path.to_string_lossy().replace(',', ",,");
        match self {
            Self::Dir(path) => vec![
                "-fsdev".into(),
                format!(
                    "local,id={ROOT_TAG},path={},security_model=none,readonly=on,multidevs=remap",
                    plain(path)
                ),
                "-device".into(),
                format!("virtio-9p-pci,fsdev={ROOT_TAG},mount_tag={ROOT_TAG}"),
            ],
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

    /// How the guest mounts it; `None`: it is the disk of that serial number.
    pub(crate) fn mounting(&self) -> Option<Mounting> {
        match self {
            Self::Dir(_) => Some(Mounting {
                fs: "9p".into(),
                source: Some(ROOT_TAG.into()),
                // Nobody changes it meanwhile but this host's owner.
                options: "trans=virtio,version=9p2000.L,msize=524288,cache=loose".into(),
            }),
            Self::Image(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = |root: &str| match Root::of(&spec(root)) {
            Ok(Some(root)) => root.devices().join(" "),
            Ok(None) => String::new(),
            Err(e) => e.to_string(),
        };
        assert_eq!(text("none"), "");
        assert!(text("host").contains("path=/,"));
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
