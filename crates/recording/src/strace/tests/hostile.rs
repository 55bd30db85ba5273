//! Logs that nobody's program has made: what they need is bounded.

use super::*;

#[test]
fn names_are_as_short_as_linux_allows() {
    let deep = "a/".repeat(30_000);
    let log = format!(
        "1 mkdir(\"d\", 0755) = 0\n1 stat(\"{deep}\", 0x7) = 0\n1 rename(\"{deep}\", \"b\") = 0\n"
    );
    let it = convert(log.as_bytes(), &of(None)).unwrap();
    assert_eq!(words(&it.recording), ["0 mkdir d"]);
    assert!(it.recording.tree.is_empty());
    let left = &it.recording.head.left_out;
    assert_eq!(
        left.get("names longer than Linux allows"),
        Some(&2),
        "{left:?}"
    );
    // A directory that is entered again and again.
    let log = "1 chdir(\"abcdefgh\") = 0\n".repeat(2000) + "1 mkdir(\"/r/d\", 0755) = 0\n";
    let it = convert(log.as_bytes(), &of(None)).unwrap();
    let left = &it.recording.head.left_out;
    assert!(
        left.get("names longer than Linux allows") > Some(&1000),
        "{left:?}"
    );
}

/// A file that is open below a directory that is renamed into itself.
#[test]
fn paths_of_open_files_do_not_grow() {
    let log = "1 openat(AT_FDCWD</r>, \"a/f\", O_RDONLY) = 3</r/a/f>\n".to_owned()
        + &format!("1 rename(\"a\", \"a/{}\") = 0\n", "b".repeat(200)).repeat(100)
        + "1 close(3</r/a/f>) = 0\n";
    let it = convert(log.as_bytes(), &of(None)).unwrap();
    assert_eq!(it.recording.calls.len(), 102);
}

/// An open file whose path a rename makes longer than any that is kept.
#[test]
fn attributes_of_a_file_without_a_path_are_converted() {
    let [a, b, c] = ["a", "b", "c"].map(|letter| letter.repeat(4000));
    let it = converted(&format!(
        r#"1 chdir("/r/x/{a}") = 0
1 openat(AT_FDCWD, "{b}", O_RDWR|O_CREAT, 0600) = 3
1 rename("/r/x", "/r/{c}") = 0
1 fsetxattr(3, "user.k", "v", 1, 0) = 0
1 fgetxattr(3, "user.k", "v", 9) = 1
"#
    ));
    let kinds: Vec<_> = it.recording.calls.iter().map(|c| c.kind.id()).collect();
    assert_eq!(kinds, ["open", "rename", "fsetxattr"]);
    assert_eq!(
        it.recording.head.left_out,
        [(
            "attributes that files had before the recording".to_owned(),
            1
        )]
        .into()
    );
}

fn sequence(log: &str) -> Sequence {
    let mut sequence = Sequence::new(&of(None), Links::default(), true);
    for line in log.lines() {
        sequence.ended(1, line, false).unwrap();
    }
    sequence
}

/// Files that are closed are not looked at, and those that are open are counted.
#[test]
fn what_renames_move_is_counted() {
    let open = |file: i32, number: i32| {
        format!("openat(AT_FDCWD</r>, \"a/f{file}\", O_RDONLY) = {number}</r/a/f>\n")
    };
    let renames = "rename(\"a\", \"b\") = 0\nrename(\"b\", \"a\") = 0\n".repeat(100);
    // Each closes the one before it.
    let closed: String = (0..1000).map(|file| open(file, 3)).collect();
    assert_eq!(sequence(&(closed + &renames)).open_files.moved, 200);
    let links = "symlink(\"x\", \"a/l\") = 0\n".to_owned();
    let mut it =
        sequence(&((0..1000).map(|file| open(file, file)).collect::<String>() + &links + &renames));
    assert_eq!((it.open_files.moved, it.links.moved()), (200_000, 200));
    it.check().unwrap();
    it.open_files.moved = limits::MOVED;
    let why = it.check().unwrap_err();
    assert!(
        why.contains("more than 16000000 names that renames move"),
        "{why}"
    );
}

/// A link may be the first one of a file that is open a million times, again and again.
#[test]
fn open_files_of_links_are_counted() {
    let open = |number: i32| format!("openat(AT_FDCWD</r>, \"f\", O_RDONLY) = {number}</r/f>\n");
    let links = "link(\"f\", \"g\") = 0\nlink(\"f\", \"h\") = 0\nunlink(\"f\") = 0\n".repeat(100);
    let it = sequence(&((0..1000).map(open).collect::<String>() + &links));
    assert_eq!(it.hard_links.moved(), 100_000);
}

/// A name in a directory with a long path is long, too, and each line has another one.
#[test]
fn bytes_of_names_are_counted() {
    let enters = "fchdir(3</r/".to_owned() + &"d".repeat(4000) + ">) = 0\n";
    let stats = (0..100).map(|name| format!("stat(\"{name}\", 0x7) = 0\n"));
    let mut it = sequence(&(enters + &stats.collect::<String>()));
    // Of the recording, for the order, and to infer the tree.
    assert!(it.bytes > 2 * 100 * 4000, "{}", it.bytes);
    it.check().unwrap();
    it.bytes = limits::LOG_NAMES + 1;
    let why = it.check().unwrap_err();
    assert!(why.contains("more than 536870912 bytes of names"), "{why}");
}

#[test]
fn names_of_calls_are_cut() {
    let log = format!(
        "1 openat(AT_FDCWD</r>, \"f\", O_RDONLY) = 3</r/f>\n1 {}(3</r/f>) = 0\n",
        "x".repeat(60_000)
    );
    let mut it = convert(log.as_bytes(), &of(Some(Vec::new()))).unwrap();
    let call = "x".repeat(40) + " on a file of the tree";
    assert_eq!(left(&it), [call]);
    let packed = it.recording.packed().unwrap();
    Recording::unpack(packed.as_slice()).unwrap();
}

/// Data may look like calls.
#[test]
fn the_rest_of_a_line_that_is_too_long_is_no_line() {
    let log = format!(
        "1 write(3</r/f>, \"{}1 unlink(\"x\") = 0\n1 mkdir(\"d\", 0755) = 0\n",
        "x".repeat(log::LONGEST as usize - 18)
    );
    let it = convert(log.as_bytes(), &of(Some(Vec::new()))).unwrap();
    assert_eq!(words(&it.recording), ["0 mkdir d"]);
    assert_eq!(left(&it), ["calls that are too long in the trace"]);
}
