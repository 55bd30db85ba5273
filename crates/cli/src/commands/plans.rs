//! Plans that come with layermark.

/// The built-in plans.
pub const PLANS: [(&str, &str); 17] = [
    ("card", include_str!("../../../../plans/card.toml")),
    (
        "fileio-appvirt",
        include_str!("../../../../plans/fileio-appvirt.toml"),
    ),
    (
        "iozone-vm",
        include_str!("../../../../plans/iozone-vm.toml"),
    ),
    (
        "buffer-size",
        include_str!("../../../../plans/buffer-size.toml"),
    ),
    (
        "virtual-io-stack",
        include_str!("../../../../plans/virtual-io-stack.toml"),
    ),
    ("daily", include_str!("../../../../plans/daily.toml")),
    ("share", include_str!("../../../../plans/share.toml")),
    (
        "container-mounts",
        include_str!("../../../../plans/container-mounts.toml"),
    ),
    ("iops", include_str!("../../../../plans/iops.toml")),
    (
        "launch-share",
        include_str!("../../../../plans/launch-share.toml"),
    ),
    (
        "overlay-copy-up",
        include_str!("../../../../plans/overlay-copy-up.toml"),
    ),
    (
        "fuse-fast17",
        include_str!("../../../../plans/fuse-fast17.toml"),
    ),
    (
        "gvisor-rootfs",
        include_str!("../../../../plans/gvisor-rootfs.toml"),
    ),
    (
        "virtiofs-9p",
        include_str!("../../../../plans/virtiofs-9p.toml"),
    ),
    (
        "flush-cost",
        include_str!("../../../../plans/flush-cost.toml"),
    ),
    ("wsl-mnt", include_str!("../../../../plans/wsl-mnt.toml")),
    (
        "sqlite-blobs",
        include_str!("../../../../plans/sqlite-blobs.toml"),
    ),
];

/// Their names, as a list.
pub fn names() -> String {
    PLANS.map(|(name, _)| name).join(", ")
}
