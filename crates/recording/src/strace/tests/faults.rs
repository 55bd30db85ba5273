//! Mappings, and page faults on them: logs as strace writes them, and traces as the kernel does.

use super::*;

/// Page faults of a trace whose clock is 37 s ahead, on `f` (inode 31) and `g` (first 32, then 33).
fn faults(trace: &str) -> Faults {
    let clock = TraceClock {
        ahead_us: 37_000_000,
        device: Some((253, 0)),
    };
    let files = [("f", 31), ("g", 32), ("f", 31), ("g", 33)];
    let files = files.map(|(name, inode)| (name.as_bytes().to_vec(), inode));
    Faults::read(trace.as_bytes(), clock, files).unwrap()
}

/// A fault of a task some us after second 1764000000 of strace.
fn fault(task: u32, us: u32, inode: u64, offset: u64) -> String {
    format!(
        "          python3-{task}       [001] ..... 1764000037.{us:06}: mm_filemap_fault: dev=253:0 ino={inode:x} ofs={offset}\n"
    )
}

/// Lines with their task, and their time in us after second 1764000000.
fn traced(lines: &[(u32, u32, &str)]) -> String {
    let lines = lines.iter();
    let lines = lines.map(|(task, us, call)| format!("{task} 1764000000.{us:06} {call}\n"));
    lines.collect()
}

fn convert_with(log: &str, trace: &str) -> Converted {
    let of = TraceOf {
        faults: Some(faults(trace)),
        ..of(Some(Vec::new()))
    };
    convert(log.as_bytes(), &of).unwrap()
}

#[test]
fn a_fault_comes_between_the_calls_of_its_task() {
    let log = traced(&[
        (10, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            10,
            200,
            "mmap(NULL, 20000, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x7f0000000000",
        ),
        (
            10,
            300,
            "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</r/f>, 0x5000) = 0x7f0000100000",
        ),
        (10, 400, "close(3</r/f>) = 0"),
        (
            10,
            500,
            r#"stat("x", 0x7) = -1 ENOENT (No such file or directory)"#,
        ),
        (10, 600, "munmap(0x7f0000000000, 20000) = 0"),
        (10, 700, "munmap(0x7f0000100000, 4096) = 0"),
        (10, 900, "+++ exited with 0 +++"),
    ]);
    let around = "   a [0] b-10 [001] ..... 1764000037.000450: mm_filemap_map_pages: dev=253:0 ino=1f ofs=4096-20479\n";
    let trace = [
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 7/9   #P:2\n#\n".to_owned(),
        around.to_owned(),
        fault(10, 460, 31, 8192),
        fault(10, 480, 31, 8192).replace("253:0", "8:1"),
        fault(10, 480, 99, 0),
        fault(10, 650, 31, 0),
        // Behind the mapping, by a task that is not known, and after its end.
        fault(10, 660, 31, 1 << 20),
        fault(77, 660, 31, 0),
        fault(10, 800, 31, 0),
    ];
    let mut it = convert_with(&log, &trace.concat());
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 f",
            "0 mmap #0",
            "0 close #0",
            "0 touch #0",
            "0 touch #0",
            "0 stat x = -2",
            "0 touch #0",
            "0 munmap #0",
        ]
    );
    let numbers: Vec<i64> = it.recording.calls.iter().map(|call| call.a).collect();
    assert_eq!(numbers, [0, 0x6000, 0, 4096, 8192, 0, 0, 0]);
    let left = &it.recording.head.left_out;
    let left: Vec<_> = left.iter().map(|(what, n)| (what.as_str(), *n)).collect();
    assert_eq!(
        left,
        [
            (
                "page faults on files without a known mapping, such as programs",
                3
            ),
            (
                "page faults, of other files too: there were more than are kept",
                2
            ),
        ]
    );
    it.recording.packed().unwrap();
}

/// A child has the mappings of its parent until it executes a program; a thread has those of its process.
#[test]
fn mappings_are_inherited_and_end_with_exec_and_exit() {
    let log = traced(&[
        (1, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            1,
            101,
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x1000",
        ),
        (1, 102, "close(3</r/f>) = 0"),
        (
            1,
            103,
            "clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 3",
        ),
        (1, 104, "fork() = 2"),
        (1, 105, "munmap(0x1000, 8192) = 0"),
        (2, 110, "getpid() = 2"),
        (
            2,
            120,
            r#"execve("/bin/true", ["true"], 0x7 /* 9 vars */) = 0"#,
        ),
        (1, 130, r#"openat(AT_FDCWD</r>, "g", O_RDWR) = 3</r/g>"#),
        (
            3,
            140,
            "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</r/g>, 0) = 0x9000",
        ),
        (
            1,
            150,
            "mremap(0x9000, 4096, 16384, MREMAP_MAYMOVE) = 0x20000",
        ),
        (1, 160, "+++ exited with 0 +++"),
        (3, 170, "+++ exited with 0 +++"),
    ]);
    let trace = [
        fault(2, 106, 31, 0),
        fault(2, 125, 31, 0),
        fault(1, 155, 33, 12_288),
    ];
    let it = convert_with(&log, &trace.concat());
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 f",
            "0 mmap #0",
            "0 close #0",
            "1 touch #0 after 0:3",
            "1 munmap #0",
            "0 open #1 g",
            "2 mmap #1 after 0:4",
            "0 touch #1 after 2:1",
            "2 munmap #1 after 0:5",
            "2 close #1",
        ]
    );
    assert_eq!(it.recording.calls[6].a, 16_384, "it grew");
    assert_eq!(
        left(&it),
        [
            "page faults on files without a known mapping, such as programs",
            "shared mappings that may be written: what is written through them",
        ]
    );
}

/// A page that is read before another task cuts the file must not be read after that.
/// An address at the end of all numbers was a panic, a munmap(2) that failed ended the mapping, and one that mremap(2)
/// replaces was never ended.
#[test]
fn addresses_are_the_programs() {
    let log = traced(&[
        (1, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            1,
            101,
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x4000",
        ),
        (1, 102, "munmap(0x7fffffffffffffff, 1) = 0"),
        (
            1,
            103,
            "munmap(0x4000, 9223372036854775807) = -1 EINVAL (Invalid argument)",
        ),
        (1, 104, r#"openat(AT_FDCWD</r>, "g", O_RDONLY) = 4</r/g>"#),
        (
            1,
            105,
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 4</r/g>, 0) = 0x8000",
        ),
        (1, 107, "mremap(0x4000, 0, 8192, MREMAP_MAYMOVE) = 0xc000"),
        (
            1,
            108,
            "mremap(0x4000, 8192, 8192, MREMAP_MAYMOVE|MREMAP_FIXED, 0x8000) = 0x8000",
        ),
        (1, 110, "munmap(0x8000, 8192) = 0"),
        (1, 120, "munmap(0xc000, 8192) = 0"),
    ]);
    let trace = [
        fault(1, 106, 31, 0),
        fault(1, 109, 31, 4096),
        fault(1, 111, 31, 0),
    ];
    let it = convert_with(&log, &trace.concat());
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 f",
            "0 mmap #0",
            "0 open #1 g",
            "0 mmap #1",
            "0 touch #0",
            "0 munmap #1",
            "0 touch #0",
            "0 touch #0",
            "0 munmap #0",
        ]
    );
}

/// The child of an unfinished clone(2) has faults before the first line of its own.
#[test]
fn a_task_has_faults_before_its_first_call() {
    let log = traced(&[
        (1, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            1,
            101,
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x4000",
        ),
        (
            1,
            102,
            "clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>",
        ),
        (
            2,
            104,
            r#"stat("x", 0x7) = -1 ENOENT (No such file or directory)"#,
        ),
        (1, 105, "<... clone resumed>) = 2"),
    ]);
    let it = convert_with(&log, &fault(2, 103, 31, 0));
    assert_eq!(
        words(&it.recording)[2..],
        ["1 touch #0 after 0:2", "1 stat x = -2"]
    );
}

#[test]
fn a_fault_is_ordered_as_a_read_of_the_file() {
    let log = traced(&[
        (1, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            1,
            101,
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x1000",
        ),
        (1, 102, "fork() = 2"),
        (2, 200, r#"truncate("f", 0) = 0"#),
        (
            1,
            300,
            r#"stat("x", 0x7) = -1 ENOENT (No such file or directory)"#,
        ),
    ]);
    let it = convert_with(&log, &fault(1, 150, 31, 4096));
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 f",
            "0 mmap #0",
            "0 touch #0",
            "1 truncate f after 0:3",
            "0 stat x = -2",
        ]
    );
}

#[test]
fn what_cannot_be_mapped_is_left_out() {
    let mut lines = vec![
        r#"openat(AT_FDCWD</r>, "tmp", O_RDWR|O_CREAT, 0600) = 3</r/tmp>"#.to_owned(),
        "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</r/tmp>, 0) = 0x1000".to_owned(),
        "mmap(NULL, 0, PROT_READ, MAP_PRIVATE, 3</r/tmp>, 0) = -1 EINVAL (Invalid argument)"
            .to_owned(),
        "mremap(0x5000, 4096, 8192, 0) = 0x5000".to_owned(),
    ];
    for n in 0..=limits::MAPPED {
        let (fd, at) = (n + 10, (n + 10) << 20);
        lines.push(format!(
            r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = {fd}</r/f>"#
        ));
        lines.push(format!(
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, {fd}</r/f>, 0) = {at:#x}"
        ));
    }
    let lines: Vec<(u32, u32, &str)> = lines.iter().map(|line| (1, 1, line.as_str())).collect();
    let it = convert_with(&traced(&lines), "");
    let maps = kinds(&it).into_iter().filter(|kind| *kind == "mmap");
    assert_eq!(maps.count(), limits::MAPPED);
    let left = &it.recording.head.left_out;
    let left: Vec<_> = left.iter().map(|(what, n)| (what.as_str(), *n)).collect();
    assert_eq!(
        left,
        [
            (
                "mappings of files that were made and removed meanwhile, or renamed twice",
                1
            ),
            ("mappings of more than 256 files at once", 1),
        ]
    );
}

/// A program chooses its name, and so a part of each line.
#[test]
fn lines_that_are_no_faults_are_none() {
    let log = traced(&[
        (1, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            1,
            101,
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x1000",
        ),
        (1, 900_000, "getpid() = 1"),
    ]);
    let good = fault(1, 500, 31, 0);
    let broken = [
        "python3-1",
        "[001]",
        "1764000037.000500",
        "1764000037",
        ".000500",
        ": mm_filemap",
        "dev=253:0",
        "253",
        "ino=1f",
        "1f",
        "ofs=0",
        "=0\n",
    ];
    for part in broken {
        for instead in ["", "x", "-", "18446744073709551616", " ", "\u{fffd}"] {
            let it = convert_with(&log, &good.replace(part, instead));
            assert_eq!(kinds(&it), ["open", "mmap"], "{part} {instead}");
        }
    }
    let odd = [
        ": mm_filemap_fault: dev=253:0 ino=1f ofs=0",
        "mm_filemap_",
        "\0\n\n",
        "# entries-in-buffer/entries-written: 9/x",
        "# entries-in-buffer/entries-written: 9/3",
        "CPU:1 [LOST 12 EVENTS]",
        "x-1 [0] . 18446744073709551615.999999: mm_filemap_fault: dev=253:0 ino=1f ofs=0",
        "x-1 [0] . 1.000001: mm_filemap_fault: dev=253:0 ino=1f ofs=0",
    ];
    let it = convert_with(&log, &odd.join("\n"));
    assert_eq!(kinds(&it), ["open", "mmap"]);
    assert!(left(&it).is_empty());
    for name in [
        "x\ny",
        "a-7 [3] ..... 1.000001: mm_filemap_fault: dev=1:1 ino=1 ofs=1",
        "]-[",
    ] {
        let it = convert_with(&log, &good.replace("python3", name));
        assert_eq!(kinds(&it), ["open", "mmap", "touch"], "{name}");
    }
}

/// The stat is moved to before the unlink, and ends later than the fault.
#[test]
fn a_fault_does_not_come_earlier_with_a_call_that_is_moved() {
    let log = traced(&[
        (2, 100, r#"openat(AT_FDCWD</r>, "f", O_RDONLY) = 3</r/f>"#),
        (
            2,
            110,
            "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3</r/f>, 0) = 0x7f0000000000",
        ),
        (1, 200, r#"stat("m", 0x7 <unfinished ...>"#),
        (2, 210, r#"unlink("m") = 0"#),
        (2, 300, r#"stat("x", 0x7) = 0"#),
        (1, 400, "<... stat resumed>) = 0"),
        (2, 500, r#"stat("y", 0x7) = 0"#),
    ]);
    let it = convert_with(&log, &fault(2, 350, 31, 0));
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 f",
            "0 mmap #0",
            "1 stat m",
            "0 unlink m after 1:1",
            "0 stat x",
            "0 touch #0",
            "0 stat y",
        ]
    );
}
