//! Replays in a directory: outcomes, order, trees.

use std::{
    fs::{self, File},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileExt, symlink},
    },
};

use layermark_model::{Settings, Trial};
use layermark_recording::{Call, CallKind, Entry, Head, Name, Recording, open_flag, words_of};
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde_json::json;

mod made;

use super::*;
use crate::{TurnRequest, Workload as _};

/// A recording of these calls in an empty tree.
fn recording(names: &[&str], calls: Vec<Call>) -> Recording {
    let tasks = calls.iter().map(|call| call.task + 1).max().unwrap_or(1);
    let files = calls
        .iter()
        .filter_map(|call| call.file)
        .map(|file| file + 1)
        .max();
    let mut it = Recording {
        head: Head {
            tasks,
            files: files.unwrap_or(0),
            ..Head::default()
        },
        tree: Vec::new(),
        names: names.iter().map(|name| Name::from(*name)).collect(),
        calls,
    };
    it.packed().expect("it is accepted");
    it
}

fn call(kind: CallKind, path: u32) -> Call {
    Call {
        path: Some(path),
        ..Call::new(kind)
    }
}

fn on(kind: CallKind, file: u32) -> Call {
    Call {
        file: Some(file),
        ..Call::new(kind)
    }
}

/// Opens a new file to write.
fn create(path: u32, file: u32) -> Call {
    Call {
        a: 2 | 4 | 8,
        b: 0o644,
        file: Some(file),
        ..call(CallKind::Open, path)
    }
}

fn once(it: &Recording) -> Result<Replayed, ProbeError> {
    let dir = tempfile::tempdir().unwrap();
    let done = replay(it, dir.path(), 0);
    if done.is_ok() {
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left"
        );
    }
    done
}

#[test]
fn the_example_replays() {
    let mut it = example::example();
    it.packed().unwrap();
    let done = once(&it).unwrap();
    assert!(done.elapsed_ns > 0);
    assert_eq!(done.after, words_of(&it.tree), "it changes nothing");
    it.tree.pop();
    let wrong = once(&it).unwrap_err().message;
    assert!(
        wrong.contains("`lstat d9/f9`, ended with ENOENT here and with success"),
        "{wrong}"
    );
    assert!(
        wrong.ends_with("6 of 630 calls ended in another way"),
        "{wrong}"
    );
}

#[test]
fn data_names_and_the_tree_are_as_recorded() {
    let write = |bytes: i64| Call {
        a: bytes,
        outcome: bytes,
        ..on(CallKind::Write, 0)
    };
    let mut it = recording(
        &["d", "d/a", "l", "d/b", "to/f"],
        vec![
            Call {
                a: 0o755,
                ..call(CallKind::Mkdir, 0)
            },
            create(1, 0),
            write(5000),
            Call {
                a: 10,
                b: 9000,
                outcome: 10,
                ..on(CallKind::Pwrite, 0)
            },
            Call {
                a: 20_000,
                b: 0,
                outcome: 9010,
                ..on(CallKind::Pread, 0)
            },
            Call {
                a: -1,
                b: 2,
                ..on(CallKind::Seek, 0)
            },
            Call {
                a: 10,
                outcome: 1,
                ..on(CallKind::Read, 0)
            },
            Call {
                c: 10_000,
                ..on(CallKind::Fallocate, 0)
            },
            Call {
                a: 8000,
                ..on(CallKind::Ftruncate, 0)
            },
            Call {
                a: 2 | 4,
                ..on(CallKind::Flock, 0)
            },
            Call {
                a: 1,
                b: 0,
                c: 10,
                ..on(CallKind::Lock, 0)
            },
            on(CallKind::Fsync, 0),
            on(CallKind::Fstat, 0),
            Call {
                path2: Some(1),
                ..call(CallKind::Symlink, 2)
            },
            call(CallKind::Stat, 2),
            call(CallKind::Readlink, 2),
            Call {
                path2: Some(3),
                ..call(CallKind::Rename, 1)
            },
            Call {
                outcome: -2,
                ..call(CallKind::Stat, 2)
            },
            Call {
                outcome: -39,
                ..call(CallKind::Rmdir, 0)
            },
            Call {
                outcome: -2,
                ..call(CallKind::Statfs, 4)
            },
            on(CallKind::Close, 0),
            Call {
                outcome: -9,
                ..on(CallKind::Close, 0)
            },
        ],
    );
    let after = vec![
        Entry::directory("d".into(), 0),
        Entry::file("d/b".into(), 0, 8000),
        Entry::link("l".into(), "d/a".into()),
    ];
    it.head.after = Some(words_of(&after));
    assert_eq!(once(&it).unwrap().after, words_of(&after));
    it.head.after = Some("2 entries, 0".into());
    let wrong = once(&it).unwrap_err().message;
    assert!(
        wrong.contains("left another tree than the program: 3 entries, "),
        "{wrong}"
    );
}

/// A page of a file that was cut, one behind the mapping, and a file that is not mapped: errors, and no SIGBUS.
#[test]
fn a_page_that_cannot_be_touched_is_an_error() {
    let touch = |at: i64, outcome: i32| Call {
        a: at,
        outcome: outcome.into(),
        ..on(CallKind::Touch, 0)
    };
    let it = recording(
        &["f"],
        vec![
            create(0, 0),
            Call {
                a: 20_000,
                ..on(CallKind::Ftruncate, 0)
            },
            touch(0, -libc::EBADF),
            Call {
                a: 40_000,
                ..on(CallKind::Map, 0)
            },
            on(CallKind::Close, 0),
            touch(16_384, 0),
            touch(40_000, -libc::EFAULT),
            Call {
                a: 4096,
                ..call(CallKind::Truncate, 0)
            },
            touch(0, 0),
            touch(8192, -libc::EFAULT),
            on(CallKind::Unmap, 0),
            touch(0, -libc::EBADF),
            Call {
                outcome: (-libc::EBADF).into(),
                ..on(CallKind::Unmap, 0)
            },
        ],
    );
    once(&it).unwrap();
    let mut wrong = it;
    wrong.calls[9].outcome = 0;
    let wrong = once(&wrong).unwrap_err().message;
    assert!(
        wrong.contains("`touch`, ended with EFAULT here and with success"),
        "{wrong}"
    );
}

#[test]
fn attributes_are_read_and_written() {
    let named = |kind| Call {
        path2: Some(1),
        ..call(kind, 0)
    };
    let it = recording(
        &["f", "user.k"],
        vec![
            create(0, 0),
            Call {
                a: 5,
                b: 1,
                ..named(CallKind::Setxattr)
            },
            Call {
                a: 10,
                ..named(CallKind::Getxattr)
            },
            named(CallKind::Lgetxattr),
            Call {
                path2: Some(1),
                a: 2,
                outcome: -34,
                ..on(CallKind::Fgetxattr, 0)
            },
            Call {
                a: 100,
                ..call(CallKind::Listxattr, 0)
            },
            named(CallKind::Removexattr),
            Call {
                a: 10,
                outcome: -61,
                ..named(CallKind::Getxattr)
            },
        ],
    );
    match once(&it) {
        Err(e) if e.message.contains("EOPNOTSUPP") => eprintln!("skipped: no attributes here"),
        done => assert!(done.is_ok(), "{done:?}"),
    }
}

/// Whether a replay accepts an outcome in place of the recorded one, and what it says otherwise.
fn accepted(
    call: Call,
    of_machine: bool,
    recorded: i32,
    outcome: i32,
) -> Result<(), Option<&'static str>> {
    let ready = trace::ReadyCall {
        call: Call {
            outcome: recorded.into(),
            ..call
        },
        flags: OFlags::empty(),
        think_ns: 0,
        of_machine,
        whole: None,
    };
    if ready.is_as_recorded(outcome.into()) {
        Ok(())
    } else {
        Err(ready.hint(outcome.into()))
    }
}

fn is(kind: CallKind, recorded: i32, outcome: i32) -> bool {
    accepted(call(kind, 0), false, recorded, outcome).is_ok()
}

#[test]
fn a_file_system_without_attributes_is_like_one_that_has_none_of_them() {
    let (missing, unknown) = (-libc::ENODATA, -libc::EOPNOTSUPP);
    for (recorded, outcome) in [(0, unknown), (unknown, 0)] {
        assert!(is(CallKind::Flistxattr, recorded, outcome));
        assert!(!is(CallKind::Fgetxattr, recorded, outcome), "an empty one");
        assert!(!is(CallKind::Fstat, recorded, outcome));
    }
    for (recorded, outcome) in [(missing, unknown), (unknown, missing)] {
        assert!(is(CallKind::Getxattr, recorded, outcome));
        assert!(!is(CallKind::Listxattr, recorded, outcome));
    }
    assert!(!is(CallKind::Flistxattr, 17, unknown), "it had some");
    assert!(
        is(CallKind::Llistxattr, -libc::ERANGE, 0),
        "it had more before"
    );
    // SELinux labels all files of a machine.
    for (recorded, outcome) in [(0, missing), (missing, 0), (-libc::ERANGE, unknown)] {
        let label =
            |of_machine| accepted(call(CallKind::Lgetxattr, 0), of_machine, recorded, outcome);
        assert!(label(true).is_ok() && label(false).is_err());
    }
}

/// `cp` tries FICLONE, and copies where it fails.
#[test]
fn a_file_system_that_shares_data_may_replay_one_that_does_not() {
    for error in [libc::EOPNOTSUPP, libc::EXDEV, libc::ENOTTY, libc::EINVAL] {
        assert!(is(CallKind::Clone, -error, 0), "{error}");
        assert!(is(CallKind::Clone, -error, -libc::EOPNOTSUPP), "{error}");
        assert!(!is(CallKind::Clone, 0, -error), "it is copied first");
    }
    assert!(!is(CallKind::Clone, -libc::EBADF, 0));
    assert!(!is(CallKind::Fallocate, -libc::EOPNOTSUPP, 0));
}

/// Whether files of a directory can share their data.
fn shares_data(dir: &Path) -> bool {
    let file = |name| File::create(dir.join(name)).unwrap();
    let (from, to) = (file("from"), file("to"));
    from.set_len(1 << 20).unwrap();
    rustix::fs::ioctl_ficlone(&to, &from).is_ok()
}

/// Recorded where files share their data. `cp --reflink=auto` copies where they do not.
#[test]
fn a_clone_is_a_copy_where_files_cannot_share_their_data() {
    let calls = || {
        vec![
            create(0, 0),
            create(1, 1),
            Call {
                a: 300_000,
                outcome: 300_000,
                ..on(CallKind::Write, 0)
            },
            Call {
                file2: Some(1),
                ..on(CallKind::Clone, 0)
            },
            Call {
                a: 300_100,
                outcome: 300_000,
                ..on(CallKind::Read, 1)
            },
        ]
    };
    let dir = tempfile::tempdir().unwrap();
    let it = recording(&["from", "to"], calls());
    let mut replayer = once::Replayer::new(&it, dir.path().to_owned(), 1, 0).unwrap();
    replayer.renew().unwrap();
    let replay = replayer.run(&mut || {}).unwrap();
    replayer.remove().unwrap();
    assert_eq!(replay.copied, u64::from(!shares_data(dir.path())));
    // Any file system refuses to read from a file that is open to be written.
    let mut wrong = calls();
    wrong[0].a = (open_flag("O_WRONLY") | open_flag("O_CREAT")).into();
    wrong.truncate(4);
    let message = once(&recording(&["from", "to"], wrong))
        .unwrap_err()
        .message;
    assert!(message.contains("`ficlone`, ended with EBADF"), "{message}");
}

#[test]
fn why_an_outcome_may_be_another_one_is_said() {
    let said = |call, recorded: i32, outcome: i32| {
        accepted(call, false, recorded, outcome)
            .unwrap_err()
            .unwrap_or("")
    };
    let place = "goes another way on this file system";
    let temporary = Call {
        a: open_flag("O_TMPFILE").into(),
        ..call(CallKind::Open, 0)
    };
    let exchange = Call {
        a: 2,
        ..call(CallKind::Rename, 0)
    };
    for it in [on(CallKind::Fallocate, 0), temporary, exchange] {
        assert!(said(it, 0, -libc::EOPNOTSUPP).contains(place));
    }
    assert_eq!(said(call(CallKind::Rename, 0), 0, -libc::EINVAL), "");
    for outcome in [(-libc::EACCES, 0), (0, -libc::EPERM)] {
        let said = said(call(CallKind::Open, 0), outcome.0, outcome.1);
        assert!(said.contains("the same user"), "{said}");
    }
    // The whole error has it.
    let it = recording(
        &["none"],
        vec![Call {
            outcome: -13,
            ..call(CallKind::Stat, 0)
        }],
    );
    let hint = once(&it).unwrap_err().hint;
    assert_eq!(
        hint.as_deref(),
        Some("record and replay as the same user, or both as root")
    );
}

/// Each waits for the other in turn. Without the order, the second task would find nothing, or the file still there.
#[test]
fn tasks_keep_their_order() {
    const ROUNDS: u32 = 200;
    let mut calls = Vec::new();
    for round in 0..ROUNDS {
        let before = if round == 0 {
            Vec::new()
        } else {
            vec![(1, 2 * round)]
        };
        calls.push(Call {
            a: 0o755,
            waits: before,
            ..call(CallKind::Mkdir, 0)
        });
        let look = Call {
            task: 1,
            waits: vec![(0, round + 1)],
            ..call(CallKind::Lstat, 0)
        };
        calls.extend([
            look,
            Call {
                task: 1,
                ..call(CallKind::Rmdir, 0)
            },
        ]);
    }
    let it = recording(&["d"], calls);
    assert_eq!(once(&it).unwrap().after, words_of(&[]));
}

/// Task 1 uses what task 0 opens and closes, in any order: each gets an error, never another file, and nothing waits for
/// ever.
#[test]
fn an_open_file_without_order_is_never_another() {
    let mut calls = Vec::new();
    for file in 0..200 {
        let name = 0;
        calls.push(Call {
            a: 2 | 4,
            b: 0o644,
            file: Some(file),
            ..call(CallKind::Open, name)
        });
        calls.push(on(CallKind::Close, file));
        for _ in 0..3 {
            calls.push(Call {
                task: 1,
                a: 8,
                outcome: -9,
                ..on(CallKind::Write, file)
            });
        }
    }
    let it = recording(&["f"], calls);
    match once(&it) {
        Ok(_) => {}
        Err(e) => {
            let (in_time, held) = (
                "8 bytes here and with EBADF",
                "with EBADF here and with success",
            );
            let known = e.message.contains(in_time) || e.message.contains(held);
            assert!(known, "{}", e.message);
        }
    }
}

/// Somebody puts a link into the tree while it is replayed: it is not followed out of it.
#[test]
fn a_planted_link_does_not_lead_out() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), "x").unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    symlink("../secret", dir.path().join("tree/l")).unwrap();
    let root = openat(
        CWD,
        dir.path().join("tree"),
        OFlags::PATH | OFlags::DIRECTORY,
        Mode::empty(),
    )
    .unwrap();
    let it = recording(
        &["l"],
        vec![Call {
            file: Some(0),
            ..call(CallKind::Open, 0)
        }],
    );
    let trace = trace::Trace::new(&it, 0).unwrap();
    let site = calls::Site::new(root, &trace, crate::buffer::Buffer::new(0));
    if !site.has_openat2() {
        return eprintln!("skipped: openat2(2) is refused here");
    }
    let mut buffers = calls::Buffers {
        bytes: crate::buffer::Buffer::new(0),
        entries: Vec::new(),
    };
    let exdev = -i64::from(libc::EXDEV);
    assert_eq!(site.call(&trace.calls[0], &trace, &mut buffers), exdev);
}

/// An open through FUSE takes 33 us if calls follow each other at once, and 64 us behind 10 us of computing: a time that
/// is only added misses that.
#[test]
fn tasks_compute_where_the_program_did() {
    let dir = tempfile::tempdir().unwrap();
    let stat = |task: u32, gap: u32| Call {
        task,
        gap,
        outcome: -2,
        ..call(CallKind::Stat, 0)
    };
    let parts = |it: &Recording| {
        let trace = trace::Trace::new(it, 20_000_000).unwrap();
        let all: Vec<u64> = trace.calls.iter().map(|ready| ready.think_ns).collect();
        all
    };
    let known = recording(&["none"], vec![stat(0, 10), stat(0, 0), stat(0, 30)]);
    assert_eq!(parts(&known), [5_000_000, 0, 15_000_000]);
    let unknown = recording(&["none"], vec![stat(0, 0), stat(0, 0)]);
    assert_eq!(parts(&unknown), [20_000_000, 0]);
    // Two tasks at the same time: each has a part of all.
    let mut two = recording(&["none"], vec![stat(0, 30), stat(0, 10)]);
    two.calls.push(stat(1, 40));
    two.head.tasks = 2;
    assert_eq!(parts(&two), [7_500_000, 2_500_000, 10_000_000]);
    for call in &mut two.calls {
        call.gap = 0;
    }
    assert_eq!(parts(&two), [20_000_000, 0, 20_000_000]);
    let took = |it: &Recording, ns| replay(it, dir.path(), ns).unwrap().elapsed_ns;
    assert!(took(&known, 20_000_000) >= 20_000_000);
    assert!(took(&two, 20_000_000) >= 20_000_000);
}

fn open(dir: &Path) -> OwnedFd {
    openat(CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

#[test]
fn trees_are_made_as_they_were_listed() {
    let from = tempfile::tempdir().unwrap();
    let at = |name: &str| from.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/f"), vec![0; 2_000_000]).unwrap();
    fs::hard_link(at("a/f"), at("a/b/g")).unwrap();
    fs::write(at("empty"), "").unwrap();
    symlink("a/f", at("l")).unwrap();
    rustix::fs::mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let listed = list(open(from.path()).as_fd()).unwrap();
    assert_eq!(listed.others, 1);
    let to = tempfile::tempdir().unwrap();
    let root = open(to.path());
    tree::make(root.as_fd(), &listed.entries, &tree::Contents::new(1)).unwrap();
    let again = list(root.as_fd()).unwrap();
    assert_eq!(again.entries, listed.entries);
    let same: Vec<Option<u32>> = again.entries.iter().map(|entry| entry.same).collect();
    assert_eq!(same.iter().flatten().count(), 1, "{:?}", again.entries);
    let content = fs::read(to.path().join("a/f")).unwrap();
    assert!(
        content.iter().any(|byte| *byte != content[0]),
        "contents are from a seed"
    );
}

#[test]
fn what_has_no_data_is_not_written() {
    const PART: u64 = 1 << 20;
    let all: [&[u64]; 4] = [&[], &[0], &[3], &[0, 2, 4]];
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (number, data) in all.into_iter().enumerate() {
        let file = File::create(from.path().join(format!("{number}"))).unwrap();
        for part in data {
            file.write_all_at(&[7; 4096], part * PART).unwrap();
        }
        file.set_len(5 * PART).unwrap();
    }
    let root = open(from.path());
    let listed = list(root.as_fd()).unwrap().entries;
    let stored: Vec<_> = listed.iter().map(Entry::stored).collect();
    if stored[0] == 5 * PART {
        return eprintln!("skipped: this file system does not tell where files have no data");
    }
    assert_eq!(stored, [0, 4096, 4096, 3 * 4096]);
    tree::make(open(to.path()).as_fd(), &listed, &tree::Contents::new(1)).unwrap();
    assert_eq!(list(open(to.path()).as_fd()).unwrap().entries, listed);
}

/// More directories beside each other than this process may have open.
#[test]
fn a_wide_tree_is_listed_with_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let dir = tempfile::tempdir().unwrap();
    for number in 0..200 {
        fs::create_dir_all(dir.path().join(format!("d{number}/e"))).unwrap();
    }
    let root = layermark_fd::open_dir(CWD, dir.path()).unwrap();
    let before = getrlimit(Resource::Nofile);
    let low = Rlimit {
        current: Some(100),
        ..before
    };
    setrlimit(Resource::Nofile, low).unwrap();
    let listed = list(root.as_fd());
    let removed = layermark_fd::remove_tree(&dir.path().join("d0"));
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(listed.unwrap().entries.len(), 400);
    removed.unwrap();
    assert!(!dir.path().join("d0").exists());
}

/// The program makes a directory read-only. Its owner can remove the tree all the same, also after a wrong outcome.
#[test]
fn a_tree_with_a_read_only_directory_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut it = recording(
        &["d", "d/f"],
        vec![
            Call {
                a: 0o755,
                ..call(CallKind::Mkdir, 0)
            },
            create(1, 0),
            Call {
                a: 0o500,
                ..call(CallKind::Chmod, 0)
            },
        ],
    );
    it.tree.push(Entry::directory("r".into(), 0o500));
    replay(&it, dir.path(), 0).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    it.calls[0].outcome = -17;
    assert!(replay(&it, dir.path(), 0).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

fn settings(params: &serde_json::Value) -> Settings {
    Settings {
        workload: "replay".into(),
        label: None,
        params: params.as_object().cloned().unwrap(),
    }
}

/// Two new files: one is a clone of the other.
fn clone_and_rename() -> Recording {
    recording(
        &["f", "f2", "clone"],
        vec![
            create(0, 0),
            Call {
                a: 100,
                outcome: 100,
                ..on(CallKind::Write, 0)
            },
            create(2, 1),
            Call {
                file2: Some(1),
                ..on(CallKind::Clone, 0)
            },
            on(CallKind::Close, 0),
            Call {
                path2: Some(1),
                ..call(CallKind::Rename, 0)
            },
        ],
    )
}

/// A recording on disk becomes two points, and each has its turns.
#[test]
fn a_recording_is_replayed_in_turns() {
    let dir = tempfile::tempdir().unwrap();
    let mut it = clone_and_rename();
    it.head.think_ns = Some(30_000_000);
    it.head.think_spread_ns = Some(20_000_000);
    it.head.command = "app --flag".into();
    let file = dir.path().join("app.lmrec");
    fs::write(&file, it.packed().unwrap()).unwrap();
    let points = WORKLOAD
        .points(&settings(&json!({"recording": file.to_str()})), 1.0)
        .unwrap();
    let labels: Vec<&str> = points.iter().map(|point| point.label.as_str()).collect();
    assert_eq!(
        labels,
        ["app --flag, as the application", "app --flag, I/O alone"]
    );
    assert!(points[0].meaning.changes && points[0].meaning.same_outcome);
    let said = |at: usize| format!("{:?}", points[at].meaning.figures);
    assert!(
        said(0).contains("up to 20.0 ms above and below"),
        "{}",
        said(0)
    );
    assert!(!said(1).contains("above and below"), "{}", said(1));
    assert_eq!((points[0].needs.space, points[0].needs.files), (100, 2));
    for point in &points {
        let from = crate::FromHost {
            env: &layermark_model::Environment::new(),
            starts_programs: true,
        };
        let placed = WORKLOAD.host_files(point, from).unwrap();
        let layer = tempfile::tempdir().unwrap();
        fs::create_dir(layer.path().join("packaged")).unwrap();
        crate::packaged::place(&layer.path().join("packaged"), &placed, &|| true).unwrap();
        let mut work = WORKLOAD
            .prepare(layer.path(), point, &Context::least())
            .unwrap();
        let ask = TurnRequest {
            round: 0,
            ns: 1_000_000,
            lead_in_ns: 1,
        };
        let mut trial = Trial::default();
        for _ in 0..3 {
            let turned = work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
            assert!(turned.more && turned.between && turned.turn.bytes == 100);
            work.between(false).unwrap();
            work.between(true).unwrap();
        }
        work.settle(&mut trial).unwrap();
        let application = point.label.ends_with("application");
        assert_eq!(
            trial.turns.iter().all(|turn| turn.elapsed_ns >= 30_000_000),
            application
        );
        assert_eq!(
            trial.outcome,
            Some(words_of(&[
                Entry::file("clone".into(), 0, 100),
                Entry::file("f2".into(), 0, 100)
            ]))
        );
        assert_eq!(trial.verified.map(|v| (v.records, v.bad)), Some((18, 0)));
        let copied = trial.figures.number(figures::COPIED);
        assert_eq!(copied, (!shares_data(dir.path())).then_some(1.0));
        let think = if application { 30_000_000 } else { 0 };
        let mut io: Vec<u64> = trial
            .turns
            .iter()
            .map(|turn| turn.elapsed_ns - think)
            .collect();
        io.sort_unstable();
        let replayed = io[1] as f64 / 1e3;
        let figure = |name| trial.figures.number(name);
        assert_eq!(figure(figures::REPLAYED), Some(replayed));
        let share = application.then(|| 3e4 / (3e4 + replayed));
        assert_eq!(figure(figures::THINK), share);
        let own = trial.figures.number("kind_us.open").unwrap();
        assert!(own > 0.0 && own <= trial.figures.number(figures::IN_CALLS).unwrap());
        drop(work);
        assert_eq!(
            fs::read_dir(layer.path()).unwrap().count(),
            1,
            "only what was packaged"
        );
    }
}

#[test]
fn what_cannot_be_replayed_is_refused_before_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let refused = |params: serde_json::Value| WORKLOAD.points(&settings(&params), 1.0).unwrap_err();
    let missing = refused(json!({"recording": at("none")}));
    assert!(
        missing.message.contains("cannot read") && missing.hint.is_some(),
        "{missing}"
    );
    fs::write(at("text"), "hello").unwrap();
    let text = refused(json!({"recording": at("text")}));
    assert!(text.message.contains("it is no recording"), "{text}");
    fs::File::create(at("large"))
        .unwrap()
        .set_len((256 << 20) + 1)
        .unwrap();
    let large = refused(json!({"recording": at("large")}));
    assert!(
        large
            .message
            .contains("268435457 bytes, more than 268435456"),
        "{large}"
    );
    rustix::fs::mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let pipe = refused(json!({"recording": at("pipe")}));
    assert!(pipe.message.contains("not a file"), "{pipe}");
    let unknown = refused(json!({"time": "application"}));
    assert!(
        unknown.message.contains("does not say how long"),
        "{unknown}"
    );
    let both = WORKLOAD.points(&settings(&json!({})), 1.0).unwrap();
    assert_eq!(both.len(), 1, "the example has no program");
    assert_eq!(both[0].needs.files, 0, "and changes nothing");
}

/// The recording was exchanged after the run was planned.
#[test]
fn another_recording_is_not_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let mut it = recording(
        &["d"],
        vec![Call {
            a: 0o755,
            ..call(CallKind::Mkdir, 0)
        }],
    );
    let file = dir.path().join("app.lmrec");
    fs::write(&file, it.packed().unwrap()).unwrap();
    let points = WORKLOAD
        .points(&settings(&json!({"recording": file.to_str()})), 1.0)
        .unwrap();
    let from = crate::FromHost {
        env: &layermark_model::Environment::new(),
        starts_programs: true,
    };
    let place = WORKLOAD.host_files(&points[0], from).unwrap();
    it.head.seed = 9;
    fs::write(&file, it.packed().unwrap()).unwrap();
    let layer = tempfile::tempdir().unwrap();
    let to = layer.path().join("packaged").join(&place[0].path);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(&file, to).unwrap();
    let refused = WORKLOAD.prepare(layer.path(), &points[0], &Context::least());
    assert!(
        refused
            .err()
            .unwrap()
            .message
            .contains("it was changed meanwhile")
    );
}
