use layermark_testkit::wait_for;

use super::*;
use crate::marker::{MARKER, MARKER_TEXT};

#[test]
fn makes_a_fresh_directory_and_removes_it() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("precious"), b"user's").unwrap();
    let work = WorkDir::create(home.path()).unwrap();
    let path = work.path().to_path_buf();
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("sub/file"), b"ours").unwrap();
    let again = WorkDir::create(home.path()).unwrap_err();
    assert!(matches!(again, LayerError::Busy { .. }), "{again}");
    assert!(again.hint().unwrap().contains("--dir"));
    drop(work);
    assert!(!path.exists());
    assert_eq!(fs::read(home.path().join("precious")).unwrap(), b"user's");
    WorkDir::create(home.path()).unwrap();
}

#[test]
fn refuses_what_is_not_a_directory_to_write_in() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, b"x").unwrap();
    for (path, why) in [
        (file.as_path(), "not a directory"),
        (&home.path().join("absent"), "does not exist"),
        (Path::new("/proc"), "cannot work in /proc"),
    ] {
        let e = WorkDir::create(path).unwrap_err();
        assert!(e.to_string().contains(why), "{e}");
        assert!(e.hint().is_some() && e.is_usage());
    }
}

/// Side by side, in `dir:PATH` or in a container, they would share the inodes that earlier trials have deleted. Creating
/// a file took five times as long as natively there.
#[test]
fn directories_of_trials_are_spread_over_an_ext4() {
    let home = tempfile::tempdir().unwrap();
    let work = WorkDir::shared(home.path()).unwrap();
    if rustix::fs::statfs(home.path()).unwrap().f_type as i64 != spread::EXT4 {
        return eprintln!("skipped: {} is not on ext4", home.path().display());
    }
    let flags = rustix::fs::ioctl_getflags(fd::open_dir(CWD, work.path()).unwrap());
    assert!(flags.unwrap().contains(rustix::fs::IFlags::TOPDIR));
}

#[test]
fn reaps_the_dead_and_spares_the_living_and_strangers() {
    let home = tempfile::tempdir().unwrap();
    let parent = || fd::open_dir(rustix::fs::CWD, home.path()).unwrap();
    let made = || Fresh::make(parent(), PREFIX).unwrap();
    let (dead, living) = (made(), made());
    drop(dead.mark().unwrap());
    let _lock = living.mark().unwrap();
    let stranger = home.path().join("layermark-results");
    fs::create_dir(&stranger).unwrap();
    fs::write(stranger.join(MARKER), b"something else").unwrap();
    // A process that another test is starting has a copy of the lock until it runs its program.
    let names = [
        dead.name().to_owned(),
        living.name().to_owned(),
        "layermark-results".into(),
    ];
    let reaped = wait_for("the dead one's lock", || {
        Some(reap(parent(), &names)).filter(|reaped| !reaped.is_empty())
    });
    assert_eq!(reaped, [dead.name().to_owned()]);
    assert!(!dead.is_there() && living.is_there() && stranger.exists());
}

/// Whoever owns the directory above can rename anything to the name of a work directory, and write into what
/// everybody may write to.
#[test]
fn what_others_could_have_made_is_not_reaped() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let home = tempfile::tempdir().unwrap();
    let parent = || fd::open_dir(rustix::fs::CWD, home.path()).unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let us = rustix::process::geteuid();
    let owner = |path: &Path, uid| us.is_root() && chown(path, Some(uid), None).is_ok();
    let dead = Fresh::make(parent(), PREFIX).unwrap();
    drop(dead.mark().unwrap());
    let dir = home.path().join(dead.name());
    let marker = dir.join(MARKER);
    fs::write(dir.join("precious"), b"x").unwrap();
    let reaped = |known: &[OsString]| {
        let reaped = !reap(parent(), known).is_empty();
        assert_eq!(reaped, !dir.join("precious").exists());
        reaped
    };
    let known = [dead.name().to_owned()];
    assert!(!reaped(&[]), "the journal does not know it");
    mode(&dir, 0o1777);
    assert!(!reaped(&known), "others may write there");
    mode(&dir, 0o700);
    mode(&marker, 0o620);
    assert!(!reaped(&known), "others may write to the marker");
    mode(&marker, 0o600);
    fs::hard_link(&marker, home.path().join("other")).unwrap();
    assert!(
        !reaped(&known),
        "the marker may be that of another directory"
    );
    fs::remove_file(home.path().join("other")).unwrap();
    for path in [&dir, &marker] {
        if owner(path, 65534) {
            assert!(
                !reaped(&known),
                "{} belongs to another user",
                path.display()
            );
            owner(path, 0);
        }
    }
    let link = home.path().join("layermark-link");
    std::os::unix::fs::symlink(&dir, link).unwrap();
    assert!(!reaped(&["layermark-link".into()]));
    // A process that another test is starting has a copy of the lock until it runs its program.
    wait_for("its own lock", || reaped(&known).then_some(()));
}

/// Another user who owns the directory above could do this. The test does it itself.
#[test]
fn a_directory_that_was_moved_away_is_removed_and_what_replaced_it_is_not() {
    let home = tempfile::tempdir().unwrap();
    let victim = home.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), b"user's").unwrap();
    fs::write(victim.join(MARKER), MARKER_TEXT).unwrap();
    let work = WorkDir::create(home.path()).unwrap();
    let (path, moved) = (work.named().to_owned(), home.path().join("moved"));
    fs::write(path.join("ours"), b"x").unwrap();
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    drop(work);
    assert!(!moved.exists() && path.is_symlink());
    assert_eq!(fs::read(victim.join("precious")).unwrap(), b"user's");
    // A link is not removed either, wherever it leads.
    let work = WorkDir::create(home.path()).unwrap();
    fs::rename(work.named(), &moved).unwrap();
    fs::rename(&victim, work.named()).unwrap();
    let put = work.named().to_owned();
    drop(work);
    assert!(path.is_symlink() && !moved.exists() && put.join("precious").exists());
}

#[test]
fn a_path_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let (open, dir) = (home.path().join("open"), home.path().join("open/dir"));
    fs::create_dir_all(&dir).unwrap();
    let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    let e = WorkDir::create(&dir).unwrap_err();
    assert!(
        e.to_string().contains("open can be changed by other users"),
        "{e}"
    );
    assert!(e.is_usage() && e.hint().unwrap().contains("chmod go-w"));
    // As in /tmp.
    mode(0o1777);
    WorkDir::create(&dir).unwrap();
}

#[test]
fn a_work_directory_is_for_us_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let work = WorkDir::create(home.path()).unwrap();
    let mode = fs::metadata(work.named()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}
