//! Logs that nobody's program has made: what they need is bounded.

use super::*;
use crate::strace::overlaps::{LINES, Overlaps};

const ENOENT: &str = "-1 ENOENT (No such file or directory)";

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

/// It may open a pipe that nobody writes to.
#[test]
fn no_line_is_held_for_a_call_that_hangs() {
    let mut sequence = Sequence::new(&of(None), Links::default(), true);
    let mut overlaps = Overlaps::default();
    let mut hear = |text: &str| {
        let line = lex::split(text).unwrap();
        let holds = overlaps.holds(&line, &mut sequence);
        let given = std::iter::from_fn(|| overlaps.give()).count();
        (holds, given)
    };
    assert_eq!(
        hear("1 openat(AT_FDCWD</r>, \"m\", O_RDONLY <unfinished ...>"),
        (false, 0)
    );
    assert_eq!(hear("2 getpid() = 2"), (false, 0));
    for _ in 0..LINES / 2 {
        assert_eq!(hear("2 creat(\"/r/m\", 0600) = 3</r/m>"), (true, 0));
        assert_eq!(hear("2 getpid() = 2"), (true, 0));
    }
    assert_eq!(hear("2 unlink(\"/r/m\") = 0"), (true, LINES + 1));
    assert_eq!(hear("2 unlink(\"/r/m\") = 0"), (false, 0));
    // Few lines, which are long.
    let name = "a/".repeat(2000);
    hear(&format!("1 stat(\"/r/{name}\", 0x7 <unfinished ...>"));
    let most = 2 + (16 << 20) / (2 * name.len());
    let makes = format!("2 mkdir(\"/r/{name}\", 0777) = 0");
    let held = (0..LINES).take_while(|_| hear(&makes) == (true, 0)).count();
    assert!((1..most).contains(&held), "{held}");
}

/// Each of 200 tasks looks for a name that two others make and remove all the time, and everything overlaps.
#[test]
fn a_log_in_which_everything_overlaps_is_converted() {
    let begins = |task: usize| format!("{task} stat(\"m/{}\", 0x7 <unfinished ...>\n", task % 2);
    let ends = |round: usize, task: usize| {
        let outcome = if (task + round).is_multiple_of(3) {
            "0"
        } else {
            ENOENT
        };
        format!(
            r#"300 mkdir("m", 0777) = 0
301 mkdir("m/0", 0777 <unfinished ...>
{task} <... stat resumed>) = {outcome}
301 <... mkdir resumed>) = 0
301 rename("m", "o") = 0
300 rmdir("m/1" <unfinished ...>
300 <... rmdir resumed>) = 0
"#
        )
    };
    let rounds = (0..20).map(|round| {
        let begun: String = (1..200).map(begins).collect();
        begun + &(1..200).map(|task| ends(round, task)).collect::<String>()
    });
    let log: String = rounds.collect();
    let mut it = converted(&log);
    assert_eq!(it.recording.calls.len(), 20 * 199 * 5);
    it.recording.packed().unwrap();
}

/// Calls of any outcome, by tasks that all use the same names: each line is given once, and those of a task in their
/// order.
#[test]
fn lines_of_a_task_do_not_change_places() {
    let calls = [
        ("mkdir(\"/r/m\", 0777", "0"),
        ("mkdir(\"/r/m/x\", 0777", ENOENT),
        ("mkdir(\"/r/m\", 0777", "-1 EEXIST (File exists)"),
        ("rmdir(\"/r/m\"", "0"),
        ("rename(\"/r/m\", \"/r/o\"", "0"),
        ("rename(\"/r/o\", \"/r/m\"", "0"),
        ("creat(\"/r/m\", 0600", "3</r/m>"),
        ("stat(\"/r/m\", 0x7", "0"),
        ("stat(\"/r/m/x\", 0x7", ENOENT),
        ("close(3</r/m>", "0"),
    ];
    let mut random = 7u64;
    let mut next = |most: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % most
    };
    let mut sequence = Sequence::new(&of(None), Links::default(), true);
    let mut overlaps = Overlaps::default();
    let mut outcomes = [None; 6];
    let (mut last, mut given, mut moved) = ([0; 6], 0, 0);
    let mut take = |task: u32, at: Option<u64>| {
        let last = &mut last[task as usize];
        assert!(at.unwrap() > *last, "task {task}");
        *last = at.unwrap();
        given += 1;
    };
    for at in 1..=20_000 {
        let task = next(outcomes.len());
        let text = if let Some(outcome) = outcomes[task].take() {
            format!("<... call resumed>) = {outcome}")
        } else {
            let (begin, outcome) = calls[next(calls.len())];
            if next(3) > 0 {
                outcomes[task] = Some(outcome);
                format!("{begin} <unfinished ...>")
            } else {
                format!("{begin}) = {outcome}")
            }
        };
        let line = Line {
            task: task as u32,
            at: Some(at),
            text: &text,
            in_brackets: false,
        };
        if !overlaps.holds(&line, &mut sequence) {
            take(line.task, line.at);
        }
        if at == 20_000 {
            overlaps.end();
        }
        while let Some(held) = overlaps.give() {
            take(held.line().task, held.line().at);
            moved += u32::from(held.moved);
        }
    }
    assert_eq!(given, 20_000);
    assert!(moved > 500, "{moved}");
}
