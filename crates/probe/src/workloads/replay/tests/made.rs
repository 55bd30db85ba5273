//! Each kind of call is made, and ends as the same call of a program does.

use std::mem::MaybeUninit;

use layermark_recording::KINDS;
use rustix::fs::inotify;

use super::*;

const NAMES: [&str; 13] = [
    "d", "d/a", "d/b", "l", "d/c", "h", "t", ".", "user.k", "none", "e", "d/x", "s",
];

/// The number of a name.
fn at(name: &str) -> u32 {
    NAMES.iter().position(|own| *own == name).expect("a name") as u32
}

fn named(kind: CallKind, name: &str) -> Call {
    call(kind, at(name))
}

fn with(call: Call, a: i64, b: i64, c: i64) -> Call {
    Call { a, b, c, ..call }
}

fn ends(call: Call, outcome: i64) -> Call {
    Call { outcome, ..call }
}

fn two(kind: CallKind, name: &str, second: &str, a: i64) -> Call {
    Call {
        path2: Some(at(second)),
        a,
        ..named(kind, name)
    }
}

fn from_to(kind: CallKind, a: i64, outcome: i64) -> Call {
    Call {
        file2: Some(1),
        outcome,
        ..with(on(kind, 0), a, 0, 0)
    }
}

fn of_data() -> Vec<Call> {
    use CallKind as K;
    vec![
        with(named(K::Mkdir, "d"), 0o755, 0, 0),
        create(at("d/a"), 0),
        create(at("d/b"), 1),
        ends(with(on(K::Write, 0), 5000, 0, 0), 5000),
        ends(with(on(K::Pwrite, 0), 10, 9000, 0), 10),
        on(K::Seek, 0),
        ends(with(on(K::Read, 0), 100, 0, 0), 100),
        ends(with(on(K::Pread, 0), 20_000, 0, 0), 9010),
        from_to(K::CopyRange, 9010, 9010),
        from_to(K::SendFile, 100, 100),
        // It is success where files can share data.
        from_to(K::Clone, 0, -95),
        with(on(K::Fallocate, 1), 1, 0, 16_384),
        with(on(K::Ftruncate, 1), 8000, 0, 0),
        with(named(K::Truncate, "d/b"), 7000, 0, 0),
        ends(named(K::Truncate, "d"), -21),
        ends(named(K::Truncate, "none"), -2),
        on(K::Fsync, 0),
        on(K::Fdatasync, 0),
        with(on(K::SyncRange, 0), 0, 0, 2),
        with(on(K::Fadvise, 0), 0, 0, 2),
        with(on(K::Lock, 0), 1, 0, 10),
        with(on(K::Flock, 0), 6, 0, 0),
        ends(on(K::IsTerminal, 0), -25),
        with(on(K::Map, 0), 9010, 0, 0),
        with(on(K::Touch, 0), 4096, 0, 0),
        on(K::Unmap, 0),
    ]
}

fn of_names() -> Vec<Call> {
    use CallKind as K;
    let open = |name, file, flags: i64, mode| Call {
        file: Some(file),
        ..with(named(K::Open, name), flags, mode, 0)
    };
    let link = Call {
        path: Some(at("t")),
        ..on(K::LinkFile, 3)
    };
    vec![
        open(".", 2, open_flag("O_DIRECTORY").into(), 0),
        with(on(K::List, 2), 32 << 10, 0, 0),
        on(K::Fstat, 0),
        named(K::Stat, "d/a"),
        named(K::Lstat, "d/a"),
        with(named(K::Statx, "d/a"), 0x100, 0x7ff, 0),
        with(on(K::Statx, 0), 0, 0x7ff, 0),
        with(named(K::Access, "d/a"), 4, 0, 0),
        ends(named(K::Access, "none"), -2),
        with(named(K::Chmod, "d/a"), 0o600, 0, 0),
        with(on(K::Fchmod, 0), 0o640, 0, 0),
        named(K::Chown, "d/a"),
        on(K::Fchown, 0),
        named(K::Utimens, "d/a"),
        on(K::Futimens, 0),
        two(K::Symlink, "l", "d/a", 0),
        named(K::Readlink, "l"),
        two(K::Link, "d/a", "h", 0),
        ends(two(K::Link, "d/a", "h", 0), -17),
        named(K::Unlink, "h"),
        two(K::Rename, "d/b", "d/x", 0),
        // Not in place of another one, and in exchange.
        two(K::Rename, "d/x", "d/c", 1),
        ends(two(K::Rename, "d/c", "d/a", 1), -17),
        two(K::Rename, "d/c", "d/a", 2),
        open(".", 3, 2 | i64::from(open_flag("O_TMPFILE")), 0o600),
        link,
        named(K::Statfs, "d/a"),
        ends(named(K::Statfs, "none"), -2),
        on(K::Fstatfs, 0),
        with(named(K::Mkdir, "e"), 0o755, 0, 0),
        named(K::Rmdir, "e"),
        with(named(K::Mknod, "s"), 0o755, 0, 0),
        ends(with(named(K::Mknod, "s"), 0o755, 0, 0), -17),
        named(K::Unlink, "s"),
        on(K::Close, 0),
    ]
}

fn of_attributes() -> Vec<Call> {
    use CallKind as K;
    let name = |kind| two(kind, "d/b", "user.k", 5);
    let file = |kind, a| Call {
        path2: Some(at("user.k")),
        a,
        ..on(kind, 0)
    };
    vec![
        name(K::Setxattr),
        name(K::Getxattr),
        name(K::Lsetxattr),
        name(K::Lgetxattr),
        with(named(K::Listxattr, "d/b"), 100, 0, 0),
        with(named(K::Llistxattr, "d/b"), 100, 0, 0),
        name(K::Removexattr),
        ends(name(K::Lremovexattr), -61),
        file(K::Fsetxattr, 5),
        file(K::Fgetxattr, 5),
        with(on(K::Flistxattr, 0), 100, 0, 0),
        file(K::Fremovexattr, 0),
    ]
}

#[test]
fn every_kind_of_call_is_made() {
    let calls = [of_data(), of_attributes(), of_names()].concat();
    for kind in KINDS {
        assert!(calls.iter().any(|call| call.kind == kind), "{kind:?}");
    }
    let mut it = recording(&NAMES, calls);
    let after = [
        Entry::directory("d".into(), 0),
        Entry::file("d/a".into(), 0, 7000),
        Entry::file("d/c".into(), 0, 9010),
        Entry::link("l".into(), "d/a".into()),
        Entry::file("t".into(), 0, 0),
    ];
    it.head.after = Some(words_of(&after));
    let dir = tempfile::tempdir().unwrap();
    let mut replayer = once::Replayer::new(&it, dir.path().to_owned(), 1, 0).unwrap();
    replayer.renew().unwrap();
    let replay = match replayer.run(&mut || {}) {
        // Of its clone, EOPNOTSUPP is what was recorded.
        Err(e) if e.message.contains("ended with EOPNOTSUPP here") => {
            replayer.remove().unwrap();
            return eprintln!(
                "skipped: this file system does not have every call: {}",
                e.message
            );
        }
        done => done.unwrap(),
    };
    assert_eq!(replayer.after().unwrap(), words_of(&after));
    replayer.remove().unwrap();
    for kind in KINDS {
        assert!(replay.kind_ns[kind as usize] > 0, "{kind:?}");
    }
}

/// truncate(2) opens no file: a server in user space would be asked twice more.
#[test]
fn a_file_is_cut_without_being_opened() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "hello").unwrap();
    let it = recording(&["f"], vec![with(call(CallKind::Truncate, 0), 2, 0, 0)]);
    let trace = trace::Trace::new(&it, 0).unwrap();
    let site = calls::Site::new(open(dir.path()), &trace, crate::buffer::Buffer::new(0));
    let mut buffers = calls::Buffers {
        bytes: crate::buffer::Buffer::new(0),
        entries: Vec::new(),
    };
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let flags = inotify::WatchFlags::OPEN | inotify::WatchFlags::MODIFY;
    inotify::add_watch(&events, dir.path().join("f"), flags).unwrap();
    assert_eq!(site.call(&trace.calls[0], &trace, &mut buffers), 0);
    assert_eq!(fs::metadata(dir.path().join("f")).unwrap().len(), 2);
    let mut room = [MaybeUninit::uninit(); 512];
    let mut reader = inotify::Reader::new(&events, &mut room);
    let mut seen = inotify::ReadFlags::empty();
    while let Ok(event) = reader.next() {
        seen |= event.events();
    }
    assert_eq!(seen, inotify::ReadFlags::MODIFY);
}
