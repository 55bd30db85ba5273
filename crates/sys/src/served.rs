//! File systems that another machine or process serves.

/// Their names in the kernel, and the numbers by which statfs(2) knows them (`linux/magic.h`, and the
/// sources of those that are not there).
const SERVED: [(&str, &[u32]); 12] = [
    ("9p", &[0x0102_1997]),
    ("afs", &[0x5346_414f, 0x6b41_4653]),
    ("autofs", &[0x0187]),
    ("ceph", &[0x00c3_6400]),
    // The second one with SMB 2 and later.
    ("cifs", &[0xff53_4d42, 0xfe53_4d42]),
    ("fuse", &[0x6573_5546]),
    ("fuseblk", &[0x6573_5546]),
    ("lustre", &[0x0bd0_0bd0]),
    ("nfs", &[0x6969]),
    ("nfs4", &[0x6969]),
    ("smb3", &[0xfe53_4d42]),
    ("virtiofs", &[0x6573_5546]),
];

/// Whether another machine or process serves file systems of this name, such as `fuse.sshfs`.
pub fn is_named(fs: &str) -> bool {
    let kind = fs.split('.').next().unwrap_or_default();
    SERVED.iter().any(|(name, _)| *name == kind)
}

/// Whether another machine or process serves file systems of this number (`f_type` of statfs(2)).
pub fn is_numbered(kind: u32) -> bool {
    SERVED.iter().any(|(_, numbers)| numbers.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_served_file_system_is_known_by_name_and_by_number() {
        for (name, numbers) in SERVED {
            assert!(is_named(name) && is_named(&format!("{name}.program")));
            assert!(!numbers.is_empty() && numbers.iter().all(|n| is_numbered(*n)));
        }
        // ext4, tmpfs, overlay, btrfs, XFS.
        for (name, number) in [
            ("ext4", 0xef53),
            ("tmpfs", 0x0102_1994),
            ("overlay", 0x794c_7630),
            ("btrfs", 0x9123_683e),
            ("xfs", 0x5846_5342),
        ] {
            assert!(!is_named(name) && !is_numbered(number), "{name}");
        }
    }
}
