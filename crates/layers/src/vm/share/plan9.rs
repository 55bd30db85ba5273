//! 9p over virtio, served by QEMU itself.

use layermark_model::Missing;

use super::{DIR, Serve, ShareProtocol, TAG};
use crate::{LayerError, agent::protocol::Mounting, child::Process};

/// 9p, served by QEMU.
pub(super) struct Plan9;

impl ShareProtocol for Plan9 {
    fn name(&self) -> &'static str {
        "9p"
    }

    fn modules(&self) -> &'static [&'static str] {
        &["virtio_pci", "9p", "9pnet_virtio"]
    }

    fn caches(&self) -> &'static [&'static str] {
        &["none", "loose", "mmap"]
    }

    fn missing(&self) -> Vec<Missing> {
        Vec::new()
    }

    fn devices(&self, _: u64) -> Vec<String> {
        vec![
            "-fsdev".into(),
            format!("local,id=share,path=../{DIR},security_model=none"),
            "-device".into(),
            format!("virtio-9p-pci,fsdev=share,mount_tag={TAG}"),
        ]
    }

    fn serve(&self, _: &Serve<'_>) -> Result<Option<Process>, LayerError> {
        Ok(None)
    }

    fn mounting(&self, cache: &str, _: u16) -> Mounting {
        Mounting {
            fs: "9p".into(),
            source: Some(TAG.into()),
            // The maximum of virtio per request; the kernel's default of 128K is far below it.
            options: format!("trans=virtio,version=9p2000.L,msize=524288,cache={cache}"),
        }
    }
}
