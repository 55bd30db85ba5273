//! Names above and behind other names.

use super::*;

/// The rename of `a` comes after every use of what is below it, and before those of its new name.
#[test]
fn a_rename_is_ordered_with_everything_below() {
    let it = converted(
        r#"1 fork() = 2
2 stat("a/b/c/d", 0x7) = -1 ENOENT (No such file or directory)
1 rename("a", "x") = 0
2 stat("x/b/c/e", 0x7) = -1 ENOENT (No such file or directory)
2 stat("y/b/c/e", 0x7) = -1 ENOENT (No such file or directory)
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 stat a/b/c/d = -2",
            "1 rename a x after 0:1",
            "0 stat x/b/c/e = -2 after 1:1",
            "0 stat y/b/c/e = -2",
        ]
    );
}

/// One file by two names.
#[test]
fn a_link_is_ordered_with_what_it_leads_to() {
    let log = r#"1 fork() = 2
2 openat(AT_FDCWD</r>, "l/f", O_WRONLY|O_CREAT|O_TRUNC, 0600) = 3</r/d/f>
1 unlink("d/f") = 0
2 stat("l/f", 0x7) = -1 ENOENT (No such file or directory)
1 unlink("l") = 0
"#;
    let tree = vec![
        Entry::directory("d".into(), 0o755),
        Entry::link("l".into(), "d".into()),
    ];
    let it = convert(log.as_bytes(), &of(Some(tree))).unwrap();
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 l/f",
            "1 unlink d/f after 0:1",
            "0 stat l/f = -2 after 1:1",
            "1 unlink l after 0:2",
        ]
    );
}

/// One file by two names, which the program has given it.
#[test]
fn names_of_one_file_are_ordered() {
    let it = converted(
        r#"1 openat(AT_FDCWD</r>, "a", O_RDWR|O_CREAT, 0600) = 3</r/a>
1 fork() = 2
2 link("a", "b") = 0
1 unlink("a") = 0
2 link("b", "c") = 0
1 write(3</r/a (deleted)>, ""..., 2) = 2
2 truncate("c", 1) = 0
1 stat("b", 0x7) = 0
2 rename("b", "c") = 0
1 stat("x", 0x7) = -1 ENOENT (No such file or directory)
2 openat(AT_FDCWD</r>, "b", O_RDONLY) = 4</r/b>
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 a",
            "1 link a b after 0:1",
            "0 unlink a after 1:1",
            "1 link b c after 0:2",
            "0 write #0 = 2 after 1:2",
            "1 truncate c after 0:3",
            "0 stat b after 1:3",
            "1 rename b c after 0:4",
            "0 stat x = -2",
            "1 open #1 b",
        ],
        "a rename to another name of a file leaves both"
    );
}

/// One file by two names, which it had before; and one that has names only after it was made.
#[test]
fn names_that_a_file_had_before_are_ordered_too() {
    let tree = vec![
        Entry::file("a".into(), 0o644, 9),
        Entry {
            same: Some(0),
            ..Entry::file("b".into(), 0o644, 9)
        },
        Entry::directory("d".into(), 0o755),
    ];
    let log = r#"1 fork() = 2
1 openat(AT_FDCWD</r>, "a", O_RDONLY) = 3</r/a>
2 truncate("b", 1) = 0
1 read(3</r/a>, ""..., 9) = 1
1 openat(AT_FDCWD</r>, "d", O_RDWR|O_TMPFILE, 0600) = 4</r/d/#7 (deleted)>
1 linkat(AT_FDCWD</r>, "/proc/self/fd/4", AT_FDCWD</r>, "d/x", AT_SYMLINK_FOLLOW) = 0
2 link("d/x", "d/y") = 0
1 write(4</r/d/#7 (deleted)>, ""..., 5) = 5
2 unlink("d/y") = 0
"#;
    let it = convert(log.as_bytes(), &of(Some(tree))).unwrap();
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 a",
            "1 truncate b after 0:1",
            "0 read #0 = 1 after 1:1",
            "0 open #1 d",
            "0 linkat #1 d/x",
            "1 link d/x d/y after 0:4",
            "0 write #1 = 5 after 1:2",
            "1 unlink d/y after 0:5",
        ]
    );
}

/// The open file has the name of the link, and lost its own one with the first name of the file.
#[test]
fn a_file_that_was_opened_behind_a_link_keeps_its_other_names() {
    let tree = vec![
        Entry::directory("d".into(), 0o755),
        Entry::file("d/f".into(), 0o644, 9),
        Entry::link("l".into(), "d".into()),
    ];
    let log = r#"1 fork() = 2
1 openat(AT_FDCWD</r>, "d/f", O_RDONLY) = 3</r/d/f>
1 openat(AT_FDCWD</r>, "l/f", O_RDWR) = 4</r/d/f>
1 link("d/f", "g") = 0
1 unlink("d/f") = 0
2 truncate("g", 1) = 0
1 write(4</r/g>, ""..., 5) = 5
2 truncate("g", 2) = 0
1 read(3</r/g>, ""..., 9) = 1
"#;
    let it = convert(log.as_bytes(), &of(Some(tree))).unwrap();
    let all = words(&it.recording);
    assert_eq!(
        all[4..],
        [
            "1 truncate g after 0:4",
            "0 write #1 = 5 after 1:1",
            "1 truncate g after 0:5",
            "0 read #0 = 1 after 1:2",
        ]
    );
}

/// Links that lead up are followed here, and only as long as they are there.
#[test]
fn links_move_are_replaced_and_removed() {
    let link = |name: &str, target: &str| Entry::link(name.into(), target.into());
    let tree = || {
        vec![
            link("l", "../r/one"),
            link("m", "../r/two"),
            link("n", "../r/three"),
        ]
    };
    let names = |log: &str| {
        let it = convert(log.as_bytes(), &of(Some(tree()))).unwrap();
        words(&it.recording).last().unwrap().clone()
    };
    for (log, name) in [
        ("1 stat(\"l/f\", 0x7) = 0\n", "0 stat one/f"),
        (
            "1 unlink(\"l\") = 0\n1 mkdir(\"l\", 0755) = 0\n1 stat(\"l/f\", 0x7) = 0\n",
            "0 stat l/f",
        ),
        (
            "1 rename(\"l\", \"m\") = 0\n1 stat(\"m/f\", 0x7) = 0\n",
            "0 stat one/f",
        ),
        (
            "1 rename(\"d\", \"l\") = 0\n1 stat(\"l/f\", 0x7) = 0\n",
            "0 stat l/f",
        ),
        (
            "1 renameat2(AT_FDCWD</r>, \"l\", AT_FDCWD</r>, \"m\", RENAME_EXCHANGE) = 0\n1 stat(\"l/f\", 0x7) = 0\n",
            "0 stat two/f",
        ),
        (
            "1 rename(\"x\", \"l\") = 0\n1 symlink(\"down\", \"l\") = 0\n1 stat(\"l/f\", 0x7) = 0\n",
            "0 stat l/f",
        ),
    ] {
        assert_eq!(names(log), name, "{log}");
    }
}

/// The tree that is inferred has both names.
#[test]
fn names_that_change_places_were_both_there() {
    let log = r#"1 renameat2(AT_FDCWD</r>, "a", AT_FDCWD</r>, "b", RENAME_EXCHANGE) = 0
1 stat("a/in-b", 0x7) = 0
"#;
    let it = convert(log.as_bytes(), &of(None)).unwrap();
    let tree: Vec<String> = it.recording.tree.iter().map(|e| e.path.escaped()).collect();
    assert_eq!(tree, ["a", "b", "b/in-b"]);
}
