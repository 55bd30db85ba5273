//! A store beside other users: what they put into its directory, and what they may open.

use std::{
    ffi::OsString,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::made::{record, run};
use layermark_store::{Store, StoreError};
use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

const NOBODY: u32 = 65534;
/// Times that a store is opened while a journal is put beside it.
const PLANTED: u32 = 200;

fn needs_root() -> bool {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can be attacked by another user here");
    }
    geteuid().is_root()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// A store with a trial.
fn store_in(dir: &Path) -> PathBuf {
    let path = dir.join("s.db");
    let mut store = Store::open(&path).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    store.trial("01RUN", &record(0)).unwrap();
    path
}

#[track_caller]
fn exposed(path: &Path, by: &Path) {
    match Store::open(path).err().expect("it is opened") {
        e @ StoreError::Exposed { .. } => {
            let said = e.to_string();
            assert!(said.contains(&*by.to_string_lossy()), "{said}");
            assert!(e.is_usage() && e.hint().unwrap().contains("--store"));
        }
        e => panic!("{e:?}"),
    }
}

/// A journal that `SQLite` undoes, after which it deletes the file `named`: the format is described in
/// <https://sqlite.org/fileformat2.html#the_rollback_journal>.
fn journal(named: &Path) -> Vec<u8> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let name = named.as_os_str().as_encoded_bytes();
    let mut all = MAGIC.to_vec();
    // Records, nonce, pages before, sector size, page size.
    for number in [0u32, 0, 1, 512, 4096] {
        all.extend(number.to_be_bytes());
    }
    all.resize(512, 0);
    // The page that locks are on is in no database: it begins the name's record.
    all.extend((0x4000_0000u32 / 4096 + 1).to_be_bytes());
    all.extend(name);
    all.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
    let sum = name.iter().map(|b| u32::from(*b)).sum::<u32>();
    all.extend(sum.to_be_bytes());
    all.extend(MAGIC);
    all
}

/// Only this thread becomes another user: to the kernel it is a process of its own.
fn become_nobody() {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(gid, gid, gid).unwrap();
    set_thread_res_uid(uid, uid, uid).unwrap();
}

#[test]
fn a_journal_that_another_user_plants_deletes_nothing() {
    if !needs_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    set_mode(home.path(), 0o755);
    let victim = home.path().join("victim");
    // A directory open to all, and one of the attacker's.
    for attackers in [false, true] {
        let dir = home.path().join(format!("dir-{attackers}"));
        fs::create_dir(&dir).unwrap();
        let store = store_in(&dir);
        set_mode(&dir, 0o1777);
        if attackers {
            chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let (planted, bytes, over) = (
            with(&store, "-journal"),
            journal(&victim),
            AtomicBool::new(false),
        );
        let deleted = thread::scope(|scope| {
            scope.spawn(|| {
                become_nobody();
                let bait = dir.join("bait");
                while !over.load(Ordering::Relaxed) {
                    fs::write(&bait, &bytes).unwrap();
                    let _ = fs::rename(&bait, &planted);
                    let _ = fs::remove_file(&planted);
                }
            });
            let deleted = (0..PLANTED).filter(|_| {
                fs::write(&victim, "precious").unwrap();
                let _ = Store::open(&store);
                let _ = Store::open_read(&store).map(|mut store| store.list(9));
                !victim.exists()
            });
            let deleted = deleted.count();
            over.store(true, Ordering::Relaxed);
            deleted
        });
        assert_eq!(
            deleted, 0,
            "of {PLANTED} with a directory of theirs: {attackers}"
        );
        exposed(&store, &dir);
    }
}

#[test]
fn a_directory_that_others_can_change_keeps_no_store() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().canonicalize().unwrap().join("dir");
    fs::create_dir(&dir).unwrap();
    for open in [0o777, 0o1777] {
        set_mode(&dir, open);
        exposed(&dir.join("s.db"), &dir);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "something was made");
    }
    // In a sticky one a directory of our own is safe, and only ours.
    let path = dir.join("own/s.db");
    Store::open(&path).unwrap().begin(&run("01RUN", 1)).unwrap();
    assert_eq!(mode(&dir.join("own")), 0o700);
    set_mode(&dir, 0o777);
    exposed(&path, &dir);
}

/// A store that was closed is one file: nothing beside it is looked at.
#[test]
fn a_closed_store_can_be_read_wherever_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = store_in(home.path());
    set_mode(home.path(), 0o1777);
    fs::write(
        with(&path, "-journal"),
        journal(&home.path().join("victim")),
    )
    .unwrap();
    assert_eq!(
        Store::open_read(&path).unwrap().load("01").unwrap().1.len(),
        1
    );
    fs::write(with(&path, "-wal"), "planted").unwrap();
    let e = Store::open_read(&path).err().unwrap();
    assert!(
        matches!(&e, StoreError::Log { reason, .. } if reason.contains("other users")),
        "{e:?}"
    );
}

#[test]
fn a_link_of_another_user_leads_to_no_store() {
    if !needs_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let (theirs, ours) = (home.join("theirs"), home.join("ours"));
    fs::create_dir(&ours).unwrap();
    symlink(&ours, &theirs).unwrap();
    Store::open(theirs.join("s.db")).unwrap();
    std::os::unix::fs::lchown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    exposed(&theirs.join("s.db"), &theirs);
}

#[test]
fn files_beside_a_store_that_are_not_of_its_owner_are_refused() {
    for ending in ["-journal", "-wal", "-shm", "-lock"] {
        let home = tempfile::tempdir().unwrap();
        let path = store_in(home.path());
        let (planted, victim) = (with(&path, ending), home.path().join("victim"));
        let _ = fs::remove_file(&planted);
        symlink(&victim, &planted).unwrap();
        let refused = |what: &str| match Store::open(&path).err() {
            Some(e @ StoreError::Planted { .. }) => {
                assert!(e.to_string().contains(&*planted.to_string_lossy()), "{e}");
            }
            other => panic!("{ending} is {what}: {other:?}"),
        };
        refused("a symbolic link");
        assert!(!victim.exists(), "{ending} was followed");
        fs::remove_file(&planted).unwrap();
        if needs_root() {
            fs::write(&planted, "theirs").unwrap();
            chown(&planted, Some(NOBODY), Some(NOBODY)).unwrap();
            refused("another user's");
        }
    }
}

#[test]
fn only_its_owner_can_open_a_store() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("new/dir/s.db");
    let mut store = Store::open(&path).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    for dir in ["new", "new/dir"] {
        assert_eq!(mode(&home.path().join(dir)), 0o700);
    }
    for ending in ["", "-wal", "-shm", "-lock"] {
        assert_eq!(mode(&with(&path, ending)), 0o600, "s.db{ending}");
    }
    drop(store);
    assert!(!Store::open(&path).unwrap().narrowed());
    // As earlier versions made them.
    set_mode(&path, 0o644);
    set_mode(&with(&path, "-lock"), 0o644);
    let store = Store::open(&path).unwrap();
    assert!(store.narrowed());
    for ending in ["", "-wal", "-shm", "-lock"] {
        assert_eq!(mode(&with(&path, ending)), 0o600, "s.db{ending}");
    }
}

/// `SQLite` keeps its files beside the store itself, and so do we.
#[test]
fn a_store_behind_a_link_of_ours_is_one_store() {
    let home = tempfile::tempdir().unwrap();
    let path = store_in(home.path());
    let link = home.path().join("link.db");
    symlink("s.db", &link).unwrap();
    let mut store = Store::open(&link).unwrap();
    store.begin(&run("02RUN", 2)).unwrap();
    let read = |path: &Path| Store::open_read(path).unwrap().list(9).unwrap();
    assert_eq!((read(&link), read(&link).len()), (read(&path), 2));
    assert!(!with(&link, "-lock").exists());
}
