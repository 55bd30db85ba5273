//! The format: what is written is read again, and what is hostile is refused by its number.

use crate::{
    Call, CallKind, Entry, EntryKind, FORMAT, Head, Name, Recording, RecordingError, limits,
};

/// Two tasks: one makes a directory with a file, the other one looks at it.
fn small() -> Recording {
    let names: Vec<Name> = ["d", "d/f", "."].map(Name::from).into();
    let call = |kind, path| Call {
        path: Some(path),
        ..Call::new(kind)
    };
    let calls = vec![
        Call {
            a: 0o755,
            ..call(CallKind::Mkdir, 0)
        },
        Call {
            a: 5,
            b: 0o644,
            file: Some(0),
            ..call(CallKind::Open, 1)
        },
        Call {
            file: Some(0),
            a: 100,
            outcome: 100,
            ..Call::new(CallKind::Write)
        },
        Call {
            file: Some(0),
            ..Call::new(CallKind::Close)
        },
        Call {
            task: 1,
            waits: vec![(0, 2)],
            gap: 30,
            ..call(CallKind::Stat, 1)
        },
    ];
    Recording {
        head: Head {
            tasks: 2,
            files: 1,
            think_ns: Some(5),
            computing_ns: Some(7),
            ..Head::default()
        },
        tree: vec![
            Entry::directory("e".into(), 0o755),
            Entry::file("e/g".into(), 0o644, 10),
        ],
        names,
        calls,
    }
}

fn refused(change: impl FnOnce(&mut Recording)) -> String {
    let mut it = small();
    change(&mut it);
    it.packed().expect_err("it is refused")
}

#[test]
fn what_is_written_is_read_again() {
    let mut it = small();
    let packed = it.packed().unwrap();
    assert_eq!(Recording::unpack(packed.as_slice()).unwrap(), it);
    assert_eq!(
        (it.written(), it.tree_bytes(), it.buffers(), it.made()),
        (100, 10, vec![100, 0], 2)
    );
}

/// Other names of a file take no room, and buffers for entries are counted beside those for data.
#[test]
fn room_and_memory_are_counted() {
    let mut it = small();
    it.tree.push(Entry {
        same: Some(1),
        ..Entry::file("h".into(), 0o644, 10)
    });
    assert_eq!(it.tree_bytes(), 10);
    let list = |task| Call {
        task,
        file: Some(0),
        a: 2 << 20,
        ..Call::new(CallKind::List)
    };
    it.head.tasks = 256;
    it.calls.extend((0..256).map(list));
    assert_eq!((it.lists()[255], it.buffers()[255]), (2 << 20, 0));
    it.accept().unwrap();
    let read = |call: Call| Call {
        kind: CallKind::Read,
        ..call
    };
    it.calls.extend((0..256).map(list).map(read));
    let why = it.accept().unwrap_err();
    assert!(why.contains("buffers of 1075838976 bytes"), "{why}");
}

/// Attributes and links take room, and links inodes.
#[test]
fn what_is_written_beside_data_is_counted() {
    let mut it = small();
    let set = Call {
        path: Some(0),
        path2: Some(3),
        a: 50,
        ..Call::new(CallKind::Setxattr)
    };
    it.names.push("user.k".into());
    let link = Call {
        path: Some(0),
        path2: Some(1),
        ..Call::new(CallKind::Symlink)
    };
    it.calls.extend([set, link]);
    it.accept().unwrap();
    assert_eq!((it.written(), it.made()), (100 + 50 + 4096, 3));
}

/// Each wait takes memory, and so many have no meaning.
#[test]
fn waits_are_counted() {
    let why = refused(|r| {
        r.calls[4].waits = vec![(0, 1); limits::WAITS as usize + 1];
    });
    assert!(why.contains("wait more than 16000000 times"), "{why}");
}

/// A line that would not be read is not written.
#[test]
fn a_line_that_is_too_long_is_not_written() {
    let why = refused(|r| {
        r.head.left_out.insert("x".repeat(1 << 16), 1);
    });
    assert!(why.contains("line 1 has more than 65536 bytes"), "{why}");
}

/// Any numbers come back, whatever their differences.
#[test]
fn numbers_come_back() {
    let mut it = small();
    it.head.files = limits::CALLS as u32;
    let numbers = [3, 0, limits::CALLS as u32 - 1, 1, 1, 2_000_000];
    let close = |file| Call {
        file: Some(file),
        ..Call::new(CallKind::Close)
    };
    it.calls.extend(numbers.map(close));
    let packed = it.packed().unwrap();
    assert_eq!(Recording::unpack(packed.as_slice()).unwrap(), it);
}

#[test]
fn hostile_recordings_are_refused_by_number() {
    type Change = fn(&mut Recording);
    let all: [(&str, Change); 30] = [
        ("name 0: the name \"../d\" goes up", |r| {
            r.names[0] = "../d".into();
        }),
        ("name 1: the name \"/d\" is absolute", |r| {
            r.names[1] = "/d".into();
        }),
        ("name 0: a name has 4096 bytes, more than 4095", |r| {
            r.names[0] = Name(vec![b'x'; 4096]);
        }),
        ("name 0: a component of a name has 256 bytes", |r| {
            r.names[0] = Name(vec![b'x'; 256]);
        }),
        ("entry 0: the name \"..\" goes up", |r| {
            r.tree[0].path = "..".into();
        }),
        ("entry 0: e/g comes before its directory", |r| {
            r.tree.swap(0, 1);
        }),
        ("entry 1: e is there twice", |r| r.tree[1].path = "e".into()),
        ("entry 1: its permissions are 4755, more than 1777", |r| {
            r.tree[1].mode = 0o4755;
        }),
        ("entry 2: the name \"../../etc\" goes up", |r| {
            r.tree.push(Entry::link("l".into(), "../../etc".into()));
        }),
        ("entry 2: the name \"/etc\" is absolute", |r| {
            r.tree.push(Entry::link("l".into(), "/etc".into()));
        }),
        ("its tree has more than 68719476736 bytes", |r| {
            r.tree[1].size = (64 << 30) + 1;
        }),
        ("entry 1: its holes are not in order", |r| {
            (r.tree[1].size, r.tree[1].holes) = (90, vec![(20, 10), (10, 5)]);
        }),
        ("entry 1: its holes are not in order", |r| {
            (r.tree[1].size, r.tree[1].holes) = (90, vec![(20, 71)]);
        }),
        ("entry 1: its holes are not in order", |r| {
            (r.tree[1].size, r.tree[1].holes) = (90, vec![(20, u64::MAX), (30, u64::MAX)]);
        }),
        ("or more than 1024", |r| {
            r.tree[1].size = 1 << 20;
            r.tree[1].holes = (0..1025).map(|i| (2 * i, 1)).collect();
        }),
        ("call 0 (`mkdir`): its name is number 3 of 3", |r| {
            r.calls[0].path = Some(3);
        }),
        ("call 0 (`mkdir`): it has no name", |r| {
            r.calls[0].path = None;
        }),
        ("call 0 (`mkdir`): its mode is 2048", |r| {
            r.calls[0].a = 0o4000;
        }),
        ("call 1 (`open`): its flag word is 32768", |r| {
            r.calls[1].a = 1 << 15;
        }),
        ("call 2 (`write`): its size is 16777217", |r| {
            r.calls[2].a = (16 << 20) + 1;
        }),
        ("call 2 (`mmap`): it maps nothing", |r| {
            (r.calls[2].kind, r.calls[2].a) = (CallKind::Map, 0);
        }),
        ("call 2 (`mmap`): its offset is 68719476737", |r| {
            (r.calls[2].kind, r.calls[2].a) = (CallKind::Map, (64 << 30) + 1);
        }),
        ("call 2 (`touch`): its offset is -1", |r| {
            (r.calls[2].kind, r.calls[2].a) = (CallKind::Touch, -1);
        }),
        ("call 3 (`munmap`): it has no open file", |r| {
            (r.calls[3].kind, r.calls[3].file) = (CallKind::Unmap, None);
        }),
        ("call 4 (`stat`): task 9 of 2", |r| r.calls[4].task = 9),
        (
            "call 4 waits for call 9 of task 0, which does not exist",
            |r| r.calls[4].waits = vec![(0, 9)],
        ),
        ("call 1 waits for itself", |r| {
            r.calls[1].waits = vec![(1, 1)];
        }),
        ("it says 257 tasks, and at most 256 are read", |r| {
            r.head.tasks = 257;
        }),
        ("it has 0 tasks", |r| r.head.tasks = 0),
        ("more than 68719476736", |r| {
            let write = Call {
                kind: CallKind::Fallocate,
                c: 64 << 30,
                outcome: 0,
                ..r.calls[2].clone()
            };
            r.calls.splice(2..3, [write.clone(), write]);
        }),
    ];
    for (says, change) in all {
        let why = refused(change);
        assert!(why.contains(says), "{why:?} instead of {says:?}");
    }
}

/// The first line is enough to refuse these: nothing is read, and no memory taken.
#[test]
fn counts_are_refused_before_anything_is_read() {
    let head = |change: fn(&mut Head)| {
        let mut head = small().head;
        head.format = 1;
        change(&mut head);
        let text = serde_json::json!({ "recording": head }).to_string();
        Recording::read(&mut text.as_bytes())
            .unwrap_err()
            .to_string()
    };
    let says = |found: String, text: &str| assert!(found.contains(text), "{found}");
    says(
        head(|h| h.entries = 10_000_000),
        "10000000 entries of its tree, and at most 1000000",
    );
    says(head(|h| h.calls = 1 << 40), "1099511627776 calls");
    says(head(|h| h.names = 1_000_001), "1000001 names");
    says(head(|h| h.files = u32::MAX), "4294967295 open files");
    says(
        head(|h| h.command = "x".repeat(5000)),
        "5000 bytes of its command",
    );
    says(head(|h| h.calls = 1), "it is incomplete");
    says(
        head(|h| h.format = 4),
        "newer layermark (format 4, this one knows up to 3)",
    );
}

#[test]
fn other_bytes_are_refused() {
    let bad = |bytes: &[u8]| Recording::unpack(bytes).unwrap_err().to_string();
    assert!(bad(b"").starts_with("it is no recording"));
    assert!(bad(b"hello").starts_with("it is no recording"));
    let mut packed = small().packed().unwrap();
    packed.truncate(packed.len() / 2);
    assert!(bad(&packed).starts_with("it is no recording"));
    let mut text = String::from("{\"recording\":");
    text += &"[".repeat(1000);
    let deep = Recording::read(&mut text.as_bytes());
    assert!(matches!(deep, Err(RecordingError::Bad(_))));
    let long = vec![b' '; limits::LINE as usize + 1];
    let why = Recording::read(&mut long.as_slice())
        .unwrap_err()
        .to_string();
    assert!(why.contains("line 1 has more than 65536 bytes"), "{why}");
}

#[test]
fn a_bit_that_has_changed_is_found() {
    let mut it = small();
    let mut packed = it.packed().unwrap();
    for bit in 0..8 * packed.len() {
        packed[bit / 8] ^= 1 << (bit % 8);
        // The header also says how much memory unpacking takes.
        if let Ok(read) = Recording::unpack(packed.as_slice()) {
            assert_eq!(read, it, "bit {bit}");
        }
        packed[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_private_recording_is_as_long_and_has_no_name() {
    let mut it = small();
    it.head.command = "app secret".into();
    let before: Vec<usize> = it.names.iter().map(|name| name.0.len()).collect();
    let mut renamed = it.make_private(3);
    assert_eq!(
        it.names.iter().map(|name| name.0.len()).collect::<Vec<_>>(),
        before
    );
    assert_eq!((it.head.command.as_str(), it.head.private), ("", true));
    assert_eq!(it.names[1].parent(), it.names[0]);
    assert_eq!(renamed.name(&"d/f".into()), it.names[1]);
    let packed = it.packed().unwrap();
    assert_eq!(Recording::unpack(packed.as_slice()).unwrap(), it);
}

/// Recordings of format 1 are still sent around. It had no time between single calls. Its lines are those of
/// `fuzz/corpus/recording/lines`: `zstd -9 --check fuzz/corpus/recording/lines -o crates/recording/fixtures/format-1.lmrec`.
#[test]
fn a_recording_of_format_1_is_read_with_its_calls_in_order() {
    let packed = include_bytes!("../fixtures/format-1.lmrec");
    let mut it = Recording::unpack(packed.as_slice()).unwrap();
    assert_eq!(
        (it.head.format, it.head.tasks, it.head.think_ns),
        (1, 2, Some(5))
    );
    assert_eq!(it.head.computing_ns, None);
    let call = |kind| Call::new(kind);
    let calls = [
        Call {
            path: Some(0),
            a: 0o755,
            ..call(CallKind::Mkdir)
        },
        Call {
            path: Some(1),
            file: Some(0),
            a: 5,
            b: 0o644,
            ..call(CallKind::Open)
        },
        Call {
            file: Some(0),
            a: 100,
            outcome: 100,
            ..call(CallKind::Write)
        },
        Call {
            file: Some(0),
            path2: Some(2),
            a: 10,
            outcome: -61,
            ..call(CallKind::Fgetxattr)
        },
        Call {
            task: 1,
            path: Some(1),
            waits: vec![(0, 2)],
            ..call(CallKind::Stat)
        },
    ];
    assert_eq!(it.calls, calls);
    assert_eq!(it.names, ["d", "d/f", "user.k"].map(Name::from));
    let kinds: Vec<EntryKind> = it.tree.iter().map(|entry| entry.kind).collect();
    assert_eq!(
        kinds,
        [EntryKind::Directory, EntryKind::File, EntryKind::Link]
    );
    // It is written again in the newest format, with nothing else changed.
    let before = it.clone();
    let again = Recording::unpack(it.packed().unwrap().as_slice()).unwrap();
    assert_eq!(again.head.format, FORMAT);
    assert_eq!((again.calls, again.tree), (before.calls, before.tree));
}
