//! Disk controllers that QEMU emulates.

use crate::options::option_rows;

/// A disk controller as the guest sees it.
pub(crate) struct Controller {
    pub(super) name: &'static str,
    pub(super) modules: &'static [&'static str],
    /// Machine types that have it; the first is the default.
    pub(super) machines: &'static [&'static str],
    /// QEMU's device for the drive `disk`, and the arguments it depends on.
    pub(super) device: &'static str,
    pub(super) parent: Option<&'static str>,
    pub(super) iothread: bool,
}

const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "virtio-blk",
        modules: &["virtio_pci", "virtio_blk"],
        machines: &["q35", "pc"],
        device: "virtio-blk-pci,drive=disk",
        parent: None,
        iothread: true,
    },
    Controller {
        name: "virtio-scsi",
        modules: &["virtio_pci", "virtio_scsi", "sd_mod"],
        machines: &["q35", "pc"],
        device: "scsi-hd,drive=disk",
        parent: Some("virtio-scsi-pci"),
        iothread: true,
    },
    Controller {
        name: "nvme",
        modules: &["nvme"],
        machines: &["q35", "pc"],
        device: "nvme,drive=disk,serial=layermark",
        parent: None,
        iothread: false,
    },
    Controller {
        name: "ide",
        modules: &["ata_piix", "sd_mod"],
        machines: &["pc"],
        device: "ide-hd,drive=disk,bus=ide.0",
        parent: None,
        iothread: false,
    },
    Controller {
        name: "ahci",
        modules: &["ahci", "sd_mod"],
        machines: &["q35"],
        device: "ide-hd,drive=disk,bus=ide.0",
        parent: None,
        iothread: false,
    },
];

option_rows!(Controller, CONTROLLERS);
