use super::*;

const TEXT: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
    31 22 0:27 /sub /mnt/a\\040b\\134c rw master:3 shared:4 - overlay overlay rw,lowerdir=/l\\\\,x:/m,upperdir=/u\n\
    not a mount\n\
    33 22 7:0 / /mnt/img ro - squashfs /dev/loop0\n";

#[test]
fn reads_mountinfo_with_odd_names_and_any_number_of_optional_fields() {
    let mounts = parse(TEXT);
    let at: Vec<_> = mounts.iter().map(|m| m.at.to_str().unwrap()).collect();
    assert_eq!(at, ["/", "/mnt/a b\\c", "/mnt/img"]);
    let fs: Vec<_> = mounts.iter().map(|m| m.fs.as_str()).collect();
    assert_eq!(fs, ["ext4", "overlay", "squashfs"]);
    assert_eq!(
        (mounts[1].id, mounts[1].root.as_path()),
        (31, Path::new("/sub"))
    );
    assert_eq!(as_fact(&mounts[0]).options, "rw,relatime,discard");
    assert_eq!(mounts[2].device, "7:0");
}

#[test]
fn finds_the_directories_of_an_overlay() {
    let odd = Path::new("/a,b:c\\d");
    let mut options = b"rw,lowerdir=".to_vec();
    options.extend(overlay_escape(odd));
    options.extend(b":/m,upperdir=/u,workdir=/w");
    assert_eq!(
        overlay_dirs(&options),
        [Path::new("/u"), odd, Path::new("/m")]
    );
    assert_eq!(
        overlay_dirs(b"rw,lowerdir+=/x,lowerdir+=/y"),
        [Path::new("/x"), Path::new("/y")]
    );
}

#[test]
fn knows_what_holds_a_directory_and_what_does_not() {
    let here = std::env::current_dir().unwrap();
    let facts = facts_of(&here).unwrap();
    assert!(here.starts_with(&facts.mounts[0].at), "{facts:?}");
    let e = assert_mounted("x", &here, "squashfs").unwrap_err();
    assert!(matches!(e, LayerError::NotMounted { .. }), "{e}");
    let device = list()
        .unwrap()
        .into_iter()
        .find(|m| m.at == facts.mounts[0].at);
    let told = device.and_then(|m| block::read_ahead_kb(&m.device));
    assert!(facts.mounts[0].fs == "overlay" || facts.read_ahead_kb == told);
    assert_eq!(facts_of(Path::new("/proc")).unwrap().mounts[0].fs, "proc");
    assert!(facts_of(Path::new("/absent")).is_err());
}

#[test]
fn a_fuse_mount_of_a_local_directory_has_its_source_below_it() {
    let of = |fs: &str, source: &str| {
        sources(&MountEntry {
            fs: fs.into(),
            source: source.into(),
            ..parse(TEXT).remove(0)
        })
    };
    assert_eq!(of("fuse.bindfs", "/srv/data"), [Path::new("/srv/data")]);
    assert_eq!(of("fuse", "/srv/data"), [Path::new("/srv/data")]);
    for (fs, source) in [
        ("fuse.sshfs", "box:/srv/data"),
        ("fuse.rclone", "remote:bucket"),
        ("nfs4", "/srv/data"),
        ("virtiofs", "/srv/data"),
    ] {
        assert!(of(fs, source).is_empty(), "{fs} {source}");
    }
}

/// `EINVAL` of a btrfs was all that a report had.
#[test]
fn an_error_has_what_the_kernel_said_unless_it_is_of_this_host() {
    let said = || Some("BTRFS error (device loop6): superblock checksum mismatch".to_owned());
    let e = |errno, said| with_complaint(io::Error::from_raw_os_error(errno), said);
    let invalid = e(libc::EINVAL, said());
    assert_eq!(invalid.kind(), io::ErrorKind::InvalidInput);
    let words = "; the kernel says: BTRFS error (device loop6): superblock checksum mismatch";
    assert!(invalid.to_string().ends_with(words), "{invalid}");
    assert_eq!(e(libc::EINVAL, None).raw_os_error(), Some(libc::EINVAL));
    let ours = e(libc::ENOMEM, said());
    assert!(crate::of_host::is_of_host(&ours), "{ours}");
}
