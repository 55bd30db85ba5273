//! Calls that overlap in time, and end in another order than they had their effects.

use super::*;

const ENOENT: &str = "-1 ENOENT (No such file or directory)";
const EEXIST: &str = "-1 EEXIST (File exists)";

/// Whether the first call, which begins before the second one and ends after it, comes before it in the recording.
fn is_first((begin, outcome): (&str, &str), second: &str) -> bool {
    let it = converted(&format!(
        r#"1 stat("task 1", 0x7) = 0
2 stat("task 2", 0x7) = 0
1 {begin} <unfinished ...>
2 {second}
1 <... call resumed>) = {outcome}
"#
    ));
    it.recording.calls[2].task == 0
}

/// Four threads made directories in one that another thread was making: a recording of `npm ci` was refused.
#[test]
fn who_did_not_find_a_directory_came_before_it_was_made() {
    let it = converted(&format!(
        r#"1 mkdir("m/a", 0777 <unfinished ...>
2 mkdir("m/b", 0777 <unfinished ...>
3 mkdir("m", 0777) = 0
3 stat("m", 0x7) = 0
1 <... mkdir resumed>) = {ENOENT}
2 <... mkdir resumed>) = {ENOENT}
1 mkdir("m/a", 0777) = 0
"#
    ));
    assert_eq!(
        words(&it.recording),
        [
            "0 mkdir m/a = -2",
            "1 mkdir m/b = -2",
            "2 mkdir m after 0:1 after 1:1",
            "2 stat m",
            "0 mkdir m/a after 2:1",
        ]
    );
    let mut recording = it.recording;
    recording.packed().unwrap();
}

#[test]
fn who_did_not_find_a_name_came_before_it_was_made() {
    for made in [
        r#"mkdir("/r/m", 0777) = 0"#,
        r#"creat("m", 0600) = 3</r/m>"#,
        r#"openat(AT_FDCWD</r>, "m", O_WRONLY|O_CREAT, 0600) = 3</r/m>"#,
        r#"link("o", "m") = 0"#,
        r#"symlink("o", "m") = 0"#,
        r#"rename("o", "m") = 0"#,
        r#"renameat2(AT_FDCWD</r>, "o", AT_FDCWD</r>, "m", RENAME_NOREPLACE) = 0"#,
    ] {
        for looks in [
            r#"stat("m", 0x7"#,
            r#"unlink("../r/m""#,
            r#"openat(AT_FDCWD</r>, "m", O_RDONLY"#,
            r#"mkdir("m/x", 0777"#,
            r#"openat(AT_FDCWD</r>, "m/x", O_RDWR|O_CREAT, 0600"#,
        ] {
            assert!(is_first((looks, ENOENT), made), "{looks}; {made}");
        }
        // What is made is new, and what is moved brings what is in it.
        let below = (r#"stat("m/x", 0x7"#, ENOENT);
        let moved = made.starts_with("rename(");
        assert_eq!(is_first(below, made), moved, "{made}");
        for other in [
            r#"stat("mm", 0x7"#,
            r#"stat("x", 0x7"#,
            r#"mkdir("x/m", 0777"#,
        ] {
            assert!(!is_first((other, ENOENT), made), "{other}; {made}");
        }
    }
}

#[test]
fn who_found_a_name_came_after_it_was_made() {
    let all = [
        r#"stat("m", 0x7) = 0"#,
        r#"stat("m/x", 0x7) = 0"#,
        r#"mkdir("m/x", 0777) = 0"#,
        r#"openat(AT_FDCWD</r>, "m", O_WRONLY|O_CREAT, 0600) = 3</r/m>"#,
        r#"readlink("m", 0x7, 9) = -1 EINVAL (Invalid argument)"#,
        r#"rename("o", "m/x") = 0"#,
        r#"rename("m", "o") = 0"#,
        &format!("mkdir(\"m\", 0777) = {EEXIST}"),
    ];
    for (makes, made, is_sure) in [
        (r#"mkdir("m", 0777"#, "0", true),
        (
            r#"openat(AT_FDCWD</r>, "m", O_RDWR|O_CREAT|O_EXCL, 0600"#,
            "4</r/m>",
            true,
        ),
        (r#"link("n", "m""#, "0", true),
        (r#"symlink("n", "m""#, "0", true),
        (
            r#"renameat2(AT_FDCWD</r>, "n", AT_FDCWD</r>, "m", RENAME_NOREPLACE"#,
            "0",
            true,
        ),
        // It may have been there before.
        (
            r#"openat(AT_FDCWD</r>, "m", O_RDWR|O_CREAT, 0600"#,
            "4</r/m>",
            false,
        ),
        (r#"rename("n", "m""#, "0", false),
    ] {
        for found in all {
            // Made and moved away, or moved away and made again.
            let is_sure = is_sure && !found.starts_with("rename(\"m\"")
                || makes.starts_with("rename(") && found.contains("\"m/x\"");
            assert_eq!(is_first((makes, made), found), is_sure, "{makes}; {found}");
        }
        // What says nothing of the name.
        for other in [
            r#"stat("m", 0x7) = -1 EACCES (Permission denied)"#,
            r#"stat("m", 0x7) = -1 ENOTDIR (Not a directory)"#,
            r#"stat("x", 0x7) = 0"#,
        ] {
            assert!(!is_first((makes, made), other), "{makes}; {other}");
        }
    }
}

#[test]
fn who_found_a_name_came_before_it_was_removed() {
    for removed in [
        r#"unlink("m") = 0"#,
        r#"rmdir("m") = 0"#,
        r#"unlinkat(AT_FDCWD</r>, "m", AT_REMOVEDIR) = 0"#,
        r#"rename("m", "o") = 0"#,
    ] {
        for (looks, outcome) in [
            (r#"stat("m", 0x7"#, "0"),
            (r#"openat(AT_FDCWD</r>, "m", O_RDONLY"#, "3</r/m>"),
            (r#"mkdir("m", 0777"#, EEXIST),
            (r#"rmdir("m""#, "-1 ENOTEMPTY (Directory not empty)"),
            (r#"unlink("m""#, "-1 EISDIR (Is a directory)"),
            (r#"unlink("m/x""#, "0"),
            (r#"rename("m/x", "y""#, "0"),
            (r#"link("m", "y""#, "0"),
        ] {
            assert!(is_first((looks, outcome), removed), "{looks}; {removed}");
        }
        for (other, outcome) in [
            (r#"stat("m", 0x7"#, ENOENT),
            (r#"mkdir("m", 0777"#, "0"),
            (
                r#"openat(AT_FDCWD</r>, "m", O_RDWR|O_CREAT, 0600"#,
                "3</r/m>",
            ),
            (r#"rename("n", "m""#, "0"),
            (r#"stat("m", 0x7"#, "? ERESTARTSYS (To be restarted)"),
        ] {
            assert!(!is_first((other, outcome), removed), "{other}; {removed}");
        }
    }
}

#[test]
fn who_did_not_find_a_name_came_after_it_was_removed() {
    for removes in [r#"unlink("m""#, r#"rmdir("m""#, r#"rename("m", "o""#] {
        for (missed, is_sure) in [
            (r#"stat("m", 0x7)"#, true),
            (r#"mkdir("m/x", 0777)"#, true),
            (r#"rename("m", "x")"#, true),
            // What is removed is empty, and what is moved may have had it.
            (r#"stat("m/x", 0x7)"#, removes.starts_with("rename")),
            (r#"stat("x", 0x7)"#, false),
        ] {
            let missed = format!("{missed} = {ENOENT}");
            assert_eq!(
                is_first((removes, "0"), &missed),
                is_sure,
                "{removes}; {missed}"
            );
        }
    }
}

/// The log's order is possible: what was made was removed again, or the other way round.
#[test]
fn the_latest_order_that_is_possible_is_taken() {
    let of = |changes: &[&str], outcome: &str| {
        let changes = changes.iter().map(|call| format!("2 {call} = 0\n"));
        let changes: Vec<String> = changes.collect();
        let changes = changes.concat();
        let it = converted(&format!(
            "1 stat(\"m\", 0x7 <unfinished ...>\n{changes}1 <... stat resumed>) = {outcome}\n"
        ));
        let calls = it.recording.calls.iter();
        calls
            .take_while(|call| call.kind != crate::CallKind::Stat)
            .count()
    };
    let (makes, removes) = ("mkdir(\"m\", 0777)", "rmdir(\"m\")");
    assert_eq!(of(&[makes, removes], ENOENT), 2);
    assert_eq!(of(&[makes, removes], "0"), 1);
    assert_eq!(of(&[removes, makes], "0"), 2);
    assert_eq!(of(&[removes, makes], ENOENT), 1);
    assert_eq!(of(&[makes, removes, makes], ENOENT), 2);
    assert_eq!(of(&[makes, removes, makes, removes], "0"), 3);
    assert_eq!(of(&[makes, "mkdir(\"m/x\", 0777)"], ENOENT), 0);
    assert_eq!(of(&["mkdir(\"m/x\", 0777)", "rmdir(\"m/x\")"], "0"), 2);
}

/// A name that tasks make and remove in turns, such as that of a lock.
#[test]
fn who_makes_a_name_that_is_there_comes_after_its_removal() {
    let it = converted(&format!(
        r#"1 stat("x", 0x7 <unfinished ...>
1 <... stat resumed>) = 0
1 openat(AT_FDCWD</r>, "lock", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</r/lock>
1 unlink("lock" <unfinished ...>
3 openat(AT_FDCWD</r>, "lock", O_RDWR|O_CREAT|O_EXCL, 0600 <unfinished ...>
2 openat(AT_FDCWD</r>, "lock", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</r/lock>
3 <... openat resumed>) = {EEXIST}
1 <... unlink resumed>) = 0
1 openat(AT_FDCWD</r>, "lock", O_RDWR|O_CREAT|O_EXCL, 0600 <unfinished ...>
2 unlink("lock") = 0
2 openat(AT_FDCWD</r>, "lock", O_RDWR|O_CREAT|O_EXCL, 0600) = {EEXIST}
1 <... openat resumed>) = 4</r/lock>
2 mkdir("lock", 0777 <unfinished ...>
1 unlink("lock") = 0
1 rmdir("lock") = 0
2 <... mkdir resumed>) = 0
"#
    ));
    assert_eq!(
        words(&it.recording),
        [
            "0 stat x",
            "0 open #0 lock",
            "0 unlink lock",
            "1 open #1 lock after 0:3",
            "2 open #2 lock = -17 after 1:1",
            "1 unlink lock after 2:1",
            "0 open #3 lock after 1:2",
            "1 open #4 lock = -17 after 0:4",
            "0 unlink lock after 1:3",
            "1 mkdir lock after 0:5",
            "0 rmdir lock after 1:4",
        ]
    );
}

/// What may have been there before was not, as another call shows.
#[test]
fn who_finds_a_name_that_was_not_there_comes_after_it_was_made() {
    for (makes, made) in [
        (
            r#"openat(AT_FDCWD</r>, "m", O_RDWR|O_CREAT, 0600"#,
            "4</r/m>",
        ),
        (r#"rename("n", "m""#, "0"),
    ] {
        let of = |first: &str| {
            let it = converted(&format!(
                r#"1 {makes} <unfinished ...>
2 stat("m", 0x7) = {first}
2 stat("m", 0x7) = 0
1 <... call resumed>) = {made}
"#
            ));
            words(&it.recording)[1].starts_with("1 ")
        };
        assert!(of(ENOENT), "{makes}");
        assert!(!of("0"), "{makes}");
    }
    let it = converted(
        r#"1 bind(3<UNIX-STREAM:[7]>, {sa_family=AF_UNIX, sun_path="s,1"}, 110 <unfinished ...>
2 stat("s,1", 0x7) = 0
1 <... bind resumed>) = 0
"#,
    );
    assert_eq!(kinds(&it), ["mknod", "stat"]);
}

/// A directory is moved to the name of an empty one, or of none.
/// What was below a name that is moved is not known any more, so that nothing says that the order of the log is wrong.
#[test]
fn names_below_a_directory_that_was_moved_are_not_known() {
    let overlap = r#"1 stat("q", 0x7 <unfinished ...>
2 stat("d/x", 0x7) = -1 ENOENT (No such file or directory)
1 <... stat resumed>) = 0
"#;
    for (moves, first, later) in [
        (
            r#"rename("t", "d")"#,
            r#"unlink("d/x") = 0"#,
            (
                r#"openat(AT_FDCWD</r>, "d/x", O_WRONLY|O_CREAT, 0600"#,
                "3</r/d/x>",
            ),
        ),
        (
            r#"renameat2(AT_FDCWD</r>, "d", AT_FDCWD</r>, "t", RENAME_EXCHANGE)"#,
            r#"unlink("d/x") = 0"#,
            (
                r#"openat(AT_FDCWD</r>, "d/x", O_WRONLY|O_CREAT, 0600"#,
                "3</r/d/x>",
            ),
        ),
    ] {
        let it = converted(&format!(
            "{overlap}2 {moves} = 0\n1 {} <unfinished ...>\n2 {first}\n1 <... call resumed>) = {}\n1 stat(\"d/x\", 0x7) = 0\n",
            later.0, later.1
        ));
        let tasks: Vec<u32> = it.recording.calls[2..].iter().map(|c| c.task).collect();
        let one = it.recording.calls[1].task;
        assert_eq!(tasks, [1 - one, 1 - one, one, one], "{moves}");
    }
    // The name that was there is in another directory now.
    let it = converted(&format!(
        r#"{overlap}2 creat("d/x", 0600) = 3</r/d/x>
2 close(3</r/d/x>) = 0
2 rename("d", "e") = 0
2 mkdir("d", 0777) = 0
1 unlink("d/x" <unfinished ...>
2 openat(AT_FDCWD</r>, "d/x", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</r/d/x>
1 <... unlink resumed>) = 0
"#
    ));
    let last = it.recording.calls.last().unwrap();
    assert_eq!(last.task, it.recording.calls[1].task, "the unlink");
}

#[test]
fn who_finds_what_is_in_a_directory_comes_after_it_was_moved_there() {
    let of = |between: &str| {
        let it = converted(&format!(
            r#"1 rename("n", "m" <unfinished ...>
2 mkdir("m/x", 0777) = 0
{between}1 <... rename resumed>) = 0
"#
        ));
        kinds(&it)
    };
    assert_eq!(of(""), ["rename", "mkdir"]);
    assert_eq!(of("2 rmdir(\"m/x\") = 0\n"), ["mkdir", "rmdir", "rename"]);
}

/// One call is moved, and another one has to come before it.
#[test]
fn what_comes_before_a_moved_call_is_moved_with_it() {
    let it = converted(&format!(
        r#"1 mkdir("m", 0777 <unfinished ...>
3 mkdir("m/b", 0777 <unfinished ...>
2 mkdir("m/a", 0777) = 0
3 <... mkdir resumed>) = {ENOENT}
1 <... mkdir resumed>) = 0
"#
    ));
    assert_eq!(
        words(&it.recording),
        [
            "0 mkdir m/b = -2",
            "1 mkdir m after 0:1",
            "2 mkdir m/a after 1:1",
        ]
    );
    // It began too late: something else has happened.
    let it = converted(&format!(
        r#"3 getpid() = 3
1 mkdir("m", 0777 <unfinished ...>
2 mkdir("m/a", 0777) = 0
3 mkdir("m/b", 0777) = {ENOENT}
1 <... mkdir resumed>) = 0
"#
    ));
    assert_eq!(
        words(&it.recording),
        [
            "0 mkdir m/a",
            "1 mkdir m/b = -2",
            "2 mkdir m after 0:1 after 1:1"
        ]
    );
}

/// A call that two others have to come after, and that waits for a third one.
#[test]
fn a_line_waits_for_all_that_may_come_before_it() {
    let it = converted(
        r#"1 mkdir("d", 0777 <unfinished ...>
2 stat("d/m", 0x7 <unfinished ...>
3 unlink("d/m") = 0
2 <... stat resumed>) = 0
3 stat("x", 0x7) = 0
1 <... mkdir resumed>) = -1 EEXIST (File exists)
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 stat d/m",
            "1 unlink d/m after 0:1",
            "1 stat x",
            "2 mkdir d = -17",
        ]
    );
}

/// Another file had the descriptor until it was closed.
#[test]
fn a_file_is_not_opened_before_its_descriptor_is_free() {
    let log = |closes: &str| {
        converted(&format!(
            r#"1 clone(child_stack=0x7, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, child_tidptr=0x7) = 2
1 openat(AT_FDCWD</r>, "o", O_RDONLY) = 3</r/o>
2 openat(AT_FDCWD</r>, "m", O_RDONLY <unfinished ...>
1 unlink("m") = 0
1 {closes} = 0
2 <... openat resumed>) = 3</r/m>
"#
        ))
    };
    for closes in ["close(3</r/o>)", "close_range(3, 4294967295, 0)"] {
        assert_eq!(kinds(&log(closes))[1], "unlink", "{closes}");
    }
    assert_eq!(kinds(&log("close(4</o>)"))[1], "open");
}

/// Names are relative to the directory of the task.
#[test]
fn a_task_that_has_entered_another_directory_is_not_taken_for_one_that_has_not() {
    let log = |enters: &str| {
        converted(&format!(
            r#"1 stat("m", 0x7 <unfinished ...>
2 mkdir("m", 0777) = 0
{enters}2 rmdir("m") = 0
1 <... stat resumed>) = {ENOENT}
"#
        ))
    };
    assert_eq!(kinds(&log("")), ["mkdir", "rmdir", "stat"]);
    assert_eq!(
        words(&log("2 chdir(\"o\") = 0\n").recording),
        ["0 stat m = -2", "1 mkdir m after 0:1", "1 rmdir o/m"]
    );
}

/// Times between calls are those of the log, and so are page faults.
#[test]
fn times_of_moved_calls_are_kept() {
    let it = converted(&format!(
        r#"1 1764000000.000100 mkdir("m/a", 0777 <unfinished ...>
2 1764000000.000200 mkdir("m", 0777) = 0 <0.000100>
1 1764000000.000700 <... mkdir resumed>) = {ENOENT} <0.000600>
1 1764000000.001700 mkdir("m/a", 0777) = 0 <0.000100>
2 1764000000.001900 rmdir("m/a") = 0 <0.000100>
"#
    ));
    assert_eq!(
        words(&it.recording)[..2],
        ["0 mkdir m/a = -2", "1 mkdir m after 0:1"]
    );
    assert_eq!(it.gaps, [0, 0, 900, 2000]);
}

/// Also with lines between that have nothing to do with it.
#[test]
fn the_order_of_a_log_is_kept_if_it_is_possible() {
    let log = format!(
        r#"1 openat(AT_FDCWD</r>, "log", O_WRONLY|O_CREAT, 0600) = 3</r/log>
1 clone(child_stack=NULL, flags=SIGCHLD, child_tidptr=0x7) = 2
1 mkdir("m", 0777 <unfinished ...>
2 stat("m/a", 0x7) = {ENOENT}
2 --- SIGCHLD {{si_signo=SIGCHLD}} ---
2 write(3</r/log>, ""..., 5) = 5
1 <... mkdir resumed>) = 0
2 stat("m/a", 0x7 <unfinished ...>
1 mkdir("m/a", 0777) = 0
1 mkdir("m/b", 0777 <unfinished ...>
2 <... stat resumed>) = 0
2 rmdir("m/b" <unfinished ...>
1 <... mkdir resumed>) = 0
2 <... rmdir resumed>) = 0
2 unlink("log" <unfinished ...>
2 +++ killed by SIGKILL +++
1 mkdir("log", 0777) = 0
1 +++ exited with 0 +++
"#
    );
    assert_eq!(
        words(&converted(&log).recording),
        [
            "0 open #0 log",
            "1 stat m/a = -2 after 0:1",
            "1 write #0 = 5",
            "0 mkdir m after 1:1",
            "0 mkdir m/a",
            "1 stat m/a after 0:3",
            "0 mkdir m/b",
            "1 rmdir m/b after 0:4",
            "0 mkdir log after 1:2",
            "0 close #0",
        ]
    );
}
