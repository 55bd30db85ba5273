//! What is not replayed is counted, and what would end in another way is not replayed.

use super::*;

#[test]
fn attributes_that_the_program_sets_are_kept() {
    let it = converted(
        r#"1 openat(AT_FDCWD</r>, "f", O_RDWR|O_CREAT, 0600) = 3</r/f>
1 fgetxattr(3</r/f>, "user.old", ""..., 20) = 5
1 fsetxattr(3</r/f>, "user.k", "value", 5, 0) = 0
1 getxattr("f", "user.k", "value", 20) = 5
1 lgetxattr("f", "user.k", 0x7ff, 2) = -1 ERANGE (Numerical result out of range)
1 setxattr("f", "user.old", "v", 1, XATTR_CREATE) = -1 EEXIST (File exists)
1 removexattr("f", "user.old") = 0
1 removexattr("f", "user.k") = 0
1 getxattr("f", "user.k", 0x7ff, 20) = -1 ENODATA (No data available)
1 getxattr("f", "user.k", "again", 20) = 5
1 lgetxattr("f", "security.selinux", "x", 255) = 29
1 lgetxattr("f", "user.lon"..., 0x7ff, 255) = -1 ENODATA (No data available)
1 lgetxattr("f", "", 0x7ff, 255) = -1 ERANGE (Numerical result out of range)
1 setxattr("f", "trusted.k", "v", 1, 0) = 0
"#,
    );
    let calls = [
        "open",
        "fsetxattr",
        "getxattr",
        "lgetxattr",
        "removexattr",
        "getxattr",
        "lgetxattr",
    ];
    assert_eq!(kinds(&it), calls);
    assert_eq!(
        it.recording.head.left_out,
        [
            ("attributes that are not a user's", 1),
            ("attributes that files had before the recording", 4),
            ("attributes whose names are empty, or have a slash", 1),
            ("attributes whose names strace has cut: it needs -s 255", 1),
        ]
        .map(|(what, n)| (what.to_owned(), n))
        .into()
    );
}

/// As programs replace a file: by a new one that has its name only then.
#[test]
fn attributes_move_with_their_files() {
    let gets = |name: &str| format!("1 getxattr(\"{name}\", \"user.k\", \"v\", 20) = 1\n");
    let sets = |name: &str| format!("1 setxattr(\"{name}\", \"user.k\", \"v\", 1, 0) = 0\n");
    let of = |before: &str, name: &str| {
        let it = converted(&(sets("d/a") + before + &gets(name)));
        (kinds(&it).contains(&"getxattr"), left(&it).len())
    };
    let [kept, was_before] = [(true, 0), (false, 1)];
    let renames = |from: &str, to: &str| format!("1 rename(\"{from}\", \"{to}\") = 0\n");
    assert_eq!(of("", "d/a"), kept);
    assert_eq!(of(&renames("d/a", "b"), "b"), kept);
    assert_eq!(of(&renames("d", "e"), "e/a"), kept);
    assert_eq!(of(&renames("b", "d/a"), "d/a"), was_before);
    let again = "1 unlink(\"d/a\") = 0\n1 link(\"b\", \"d/a\") = 0\n";
    assert_eq!(of(again, "d/a"), was_before);
}

/// `sort < data > out 2>&1`: the shell has opened them.
#[test]
fn files_that_were_open_before_are_opened() {
    let file = |descriptor, path: &str, flags: &str, same_as| OpenFile {
        descriptor,
        same_as,
        path: path.into(),
        flags: flags.into(),
        position: 0,
    };
    let log = r#"7 execve("/usr/bin/sort", ["sort"], 0x7 /* 9 vars */) = 0
7 read(0</r/data>, "x"..., 4096) = 10
7 write(1</r/out>, "x", 10) = 10
7 write(2</r/out>, "x", 5) = 5
7 fstat(5</r/other>, {st_mode=S_IFREG|0644, st_size=1, ...}) = 0
7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 5</r/other>, 0) = 0x7f
7 sendfile(9<socket:[7]>, 5</r/other>, [0] => [5], 4096) = 5
7 fstat(6</etc/x>, {st_mode=S_IFREG|0644, st_size=1, ...}) = 0
"#;
    let of = TraceOf {
        opened: vec![
            file(0, "/r/data", "O_RDONLY", None),
            file(1, "/r/out", "O_WRONLY", None),
            file(2, "/r/out", "O_WRONLY", Some((4711, 1))),
        ],
        ..of(Some(Vec::new()))
    };
    let it = convert(log.as_bytes(), &of).unwrap();
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 data",
            "0 open #1 out",
            "0 read #0 = 10",
            "0 write #1 = 10",
            "0 write #1 = 5",
        ]
    );
    let count = it.recording.head.left_out.iter().next();
    assert_eq!(
        count.map(|(what, n)| (what.as_str(), *n)),
        Some((
            "calls on files that were open before, or that another program opened",
            3
        ))
    );
}

/// Not every user may do it, and a replay changes nothing: it would be success.
#[test]
fn what_is_refused_to_the_user_is_left_out() {
    let it = converted(
        r#"1 openat(AT_FDCWD</r>, "f", O_RDWR|O_CREAT, 0600) = 3</r/f>
1 fchown(3</r/f>, 0, 0) = -1 EPERM (Operation not permitted)
1 lchown("f", 0, 0) = -1 EPERM (Operation not permitted)
1 fchmodat(AT_FDCWD</r>, "f", 0644) = -1 EPERM (Operation not permitted)
1 utimensat(3</r/f>, NULL, NULL, 0) = -1 EPERM (Operation not permitted)
1 chown("/etc/f", 0, 0) = -1 EPERM (Operation not permitted)
1 fchmod(3</r/f>, 04755) = 0
1 fchown(3</r/f>, 0, 0) = 0
"#,
    );
    assert_eq!(kinds(&it), ["open", "fchmod", "fchown"]);
    assert_eq!(it.recording.calls[1].a, 0o755);
    assert_eq!(
        it.recording.head.left_out,
        [
            (
                "owners, permissions and times of files of other users: EPERM",
                4
            ),
            ("owners: chown is replayed without a change", 1),
            ("set-user-ID and set-group-ID bits", 1),
        ]
        .map(|(what, n)| (what.to_owned(), n))
        .into()
    );
}

/// A recording has no names that end in a slash.
#[test]
fn a_slash_at_the_end_of_a_name_follows_a_link() {
    let it = converted(
        r#"1 stat("g/", 0x7) = -1 ENOTDIR (Not a directory)
1 unlink("link/") = -1 ENOTDIR (Not a directory)
1 openat(AT_FDCWD</r>, "x/", O_RDWR|O_CREAT, 0600) = -1 EISDIR (Is a directory)
1 readlink("link/.", 0x7, 99) = -1 EINVAL (Invalid argument)
1 lstat("link/", {st_mode=S_IFDIR|0755, ...}) = 0
1 newfstatat(AT_FDCWD</r>, "link/.", {st_mode=S_IFDIR|0755, ...}, AT_SYMLINK_NOFOLLOW) = 0
1 statx(AT_FDCWD</r>, "link/", AT_SYMLINK_NOFOLLOW, STATX_MODE, {}) = 0
1 openat(AT_FDCWD</r>, "link/", O_RDONLY|O_NOFOLLOW|O_DIRECTORY) = 3</r/d>
1 mkdir("d/", 0755) = 0
1 write(3</r/d>, "data/", 5) = -1 EINVAL (Invalid argument)
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 stat link",
            "0 stat link",
            "0 statx link",
            "0 open #0 link",
            "0 mkdir d",
            "0 write #0 = -22",
        ]
    );
    assert_eq!(it.recording.calls[2].a, 0);
    assert_eq!(it.recording.calls[3].a, i64::from(open_flag("O_DIRECTORY")));
    let left = &it.recording.head.left_out;
    assert_eq!(
        left.get("calls that fail because of the slash at the end of a name"),
        Some(&4),
        "{left:?}"
    );
}

#[test]
fn calls_that_are_not_known_are_counted() {
    let it = converted(
        r#"1 mkdir("d", 0755) = 0
1 msync(0x7f, 4096, MS_SYNC) = 0
1 sync() = 0
1 name_to_handle_at(AT_FDCWD</r>, "d", {handle_bytes=8}, [1], 0) = 0
1 prctl(PR_SET_NAME, "d") = 0
1 getcwd("/r", 4096) = 3
1 mount("/dev/x", "/mnt", "ext4", 0, NULL) = -1 EPERM (Operation not permitted)
1 execve("./none", ["none"], 0x7 /* 9 vars */) = -1 ENOENT (No such file or directory)
1 write(1</dev/null>, "d", 1) = ? ERESTARTSYS (To be restarted)
"#,
    );
    assert_eq!(
        left(&it),
        [
            "execve on a file of the tree",
            "msync: what was written through mappings",
            "name_to_handle_at on a file of the tree",
            "sync: it is for all file systems",
        ]
    );
}

#[test]
fn who_waits_by_waitid_comes_after_the_child() {
    let it = converted(
        r#"1 fork() = 2
2 mkdir("a", 0755) = 0
2 +++ exited with 0 +++
1 waitid(P_PID, 2, {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=2, si_uid=0}, WEXITED, NULL) = 0
1 mkdir("b", 0755) = 0
"#,
    );
    assert_eq!(words(&it.recording), ["0 mkdir a", "1 mkdir b after 0:1"]);
}

#[test]
fn names_that_strace_has_cut_are_counted() {
    let it = converted(
        r#"1 mkdir("d", 0755) = 0
1 openat(AT_FDCWD</r>, "abc"..., O_RDONLY) = 3</r/abcdef>
1 newfstatat(AT_FDCWD</r>, "abc"..., {st_mode=S_IFREG}, 0) = 0
1 symlink("abc"..., "l") = 0
"#,
    );
    assert_eq!(words(&it.recording), ["0 mkdir d"]);
    assert_eq!(
        it.recording.head.left_out,
        [("names that strace has cut: use -s 4096".to_owned(), 3)].into()
    );
    let log = "1 readlink(\"l\", \"abc\"..., 99) = 50\n";
    let it = convert(log.as_bytes(), &of(None)).unwrap();
    assert_eq!(
        left(&it).len(),
        2,
        "the tree is inferred, too: {:?}",
        left(&it)
    );
}

/// strace writes `[pid 7]` only while there are several tasks.
#[test]
fn a_log_that_does_not_name_every_task_is_refused() {
    let log = r#"mkdir("a", 0755) = 0
fork() = 12
strace: Process 12 attached
[pid 11] mkdir("b", 0755) = 0
"#;
    let why = convert(log.as_bytes(), &of(Some(Vec::new()))).unwrap_err();
    assert!(why.contains("which task made it"), "{why}");
    for good in [
        "mkdir(\"a\", 0755) = 0\n+++ exited with 0 +++\n",
        "strace: Process 12 attached\n[pid 11] mkdir(\"b\", 0755) = 0\n",
    ] {
        converted(good);
    }
}

/// Of 32-bit programs: the result is an argument.
#[test]
fn llseek_has_its_start_in_its_last_argument() {
    let it = converted(
        r#"1 openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>
1 _llseek(3</r/f>, 100, [500], SEEK_CUR) = 0
"#,
    );
    assert_eq!((it.recording.calls[1].a, it.recording.calls[1].b), (100, 1));
    let log = r#"1 openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>
1 _llseek(3</r/f>, 100, [500], SEEK_CUR) = 0
1 read(3</r/f>, ""..., 10) = 10
"#;
    let it = convert(log.as_bytes(), &of(None)).unwrap();
    assert_eq!(it.recording.tree[0].size, 510);
}
