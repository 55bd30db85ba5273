//! The file operations that a probe does, on any layer.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use layermark_testkit::wait_for;
use rustix::fs::FallocateFlags;

/// Fails (by panicking) where the file system does not behave as one. SFTP does not count links. rclone has
/// no links and no permissions, and cannot read a file that was removed while it was open.
pub fn all(dir: &Path, layer: &str) {
    let home = dir.join("exercise");
    let has_inodes = layer != "rclone";
    fs::create_dir(&home).unwrap();
    data(&home, has_inodes);
    names(&home);
    if has_inodes {
        links(&home, layer != "sshfs");
        unlinked(&home);
    }
    fs::remove_dir_all(&home).unwrap();
    assert!(!home.exists());
}

fn data(home: &Path, has_permissions: bool) {
    let path = home.join("data");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    let again = OpenOptions::new().write(true).create_new(true).open(&path);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let bytes: Vec<u8> = (0..300_000).map(|n| (n % 253) as u8).collect();
    file.write_all(&bytes).unwrap();
    file.write_all_at(b"here", 123_456).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    let mut back = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut back).unwrap();
    assert_eq!(
        (&back[..123_456], &back[123_456..123_460]),
        (&bytes[..123_456], &b"here"[..])
    );
    assert_eq!(back[123_460..], bytes[123_460..]);

    file.set_len(1000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1000);
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20) {
        Ok(()) => assert_eq!(path.metadata().unwrap().len(), 1 << 20),
        Err(e) => assert_eq!(e, rustix::io::Errno::OPNOTSUPP),
    }
    let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
    let before = path.metadata().unwrap().len();
    appended.write_all(b"end").unwrap();
    assert_eq!(path.metadata().unwrap().len(), before + 3);
    let emptied = File::create(&path).unwrap();
    assert_eq!(emptied.metadata().unwrap().len(), 0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    if has_permissions {
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
    }
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(24);
    // Both times: bindfs ignores a change of one.
    let times = fs::FileTimes::new().set_accessed(time).set_modified(time);
    emptied.set_times(times).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
    let space = rustix::fs::statvfs(home).unwrap();
    assert!(space.f_blocks > 0 && space.f_bsize > 0);
}

fn names(home: &Path) {
    let sub = home.join("sub");
    fs::create_dir(&sub).unwrap();
    for n in 0..300 {
        fs::write(
            sub.join(format!("a rather long file name, number {n}")),
            [n as u8],
        )
        .unwrap();
    }
    assert_eq!(fs::read_dir(&sub).unwrap().count(), 300);
    let (old, new) = (
        sub.join("a rather long file name, number 7"),
        home.join("moved"),
    );
    fs::rename(&old, &new).unwrap();
    assert_eq!((old.exists(), fs::read(&new).unwrap()), (false, vec![7]));
    assert!(fs::remove_dir(&sub).is_err());
    fs::remove_dir_all(&sub).unwrap();
    File::open(home).unwrap().sync_all().unwrap();
    assert_eq!(
        File::open(home.join("absent")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

fn links(home: &Path, counts_links: bool) {
    let new = home.join("moved");
    fs::hard_link(&new, home.join("linked")).unwrap();
    let links = if counts_links { 2 } else { 1 };
    // libfuse gives the new name an inode of its own: attributes of the old one may be remembered for a second.
    wait_for("the number of links", || {
        (new.metadata().unwrap().nlink() == links).then_some(())
    });
    symlink("moved", home.join("symbolic")).unwrap();
    assert_eq!(fs::read(home.join("symbolic")).unwrap(), [7]);
    assert_eq!(
        fs::read_link(home.join("symbolic")).unwrap(),
        Path::new("moved")
    );
}

fn unlinked(home: &Path) {
    let path = home.join("gone");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all(b"still there").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 11);
    let mut back = [0; 11];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(&back, b"still there");
}
