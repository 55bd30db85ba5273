//! Small logs, as strace writes them.

use super::*;
use crate::{Call, call::open_flag};

mod faults;
mod hostile;
mod left_out;
mod order;
mod overlaps;

fn of(tree: Option<Vec<Entry>>) -> TraceOf {
    TraceOf {
        root: b"/r".to_vec(),
        cwd: b"/r".to_vec(),
        tree,
        ..TraceOf::default()
    }
}

fn converted(log: &str) -> Converted {
    convert(log.as_bytes(), &of(Some(Vec::new()))).unwrap()
}

/// What was left out.
fn left(it: &Converted) -> Vec<&str> {
    let left = it.recording.head.left_out.keys();
    left.map(String::as_str).collect()
}

fn kinds(it: &Converted) -> Vec<&'static str> {
    let calls = it.recording.calls.iter();
    calls.map(|call| call.kind.id()).collect()
}

/// Each call in words: task, kind, name behind its directory, numbers, outcome, waits.
fn words(recording: &Recording) -> Vec<String> {
    let name = |at: Option<u32>| {
        at.map_or_else(String::new, |at| {
            format!(" {}", recording.names[at as usize].escaped())
        })
    };
    let each = recording.calls.iter().map(|c: &Call| {
        let file = c.file.map_or_else(String::new, |f| format!(" #{f}"));
        let dir = c.dir.map_or_else(String::new, |d| format!(" in #{d}"));
        let outcome = if c.outcome == 0 {
            String::new()
        } else {
            format!(" = {}", c.outcome)
        };
        let waits: Vec<String> = c
            .waits
            .iter()
            .map(|(t, n)| format!(" after {t}:{n}"))
            .collect();
        format!(
            "{} {}{}{}{}{dir}{outcome}{}",
            c.task,
            c.kind.id(),
            file,
            name(c.path),
            name(c.path2),
            waits.concat()
        )
    });
    each.collect()
}

#[test]
fn calls_on_files_of_the_directory_are_kept() {
    let it = converted(
        r#"10 1.0 execve("/bin/app", ["app"], 0x7 /* 20 vars */) = 0 <0.1>
10 1.1 openat(AT_FDCWD</r>, "/lib/x.so", O_RDONLY|O_CLOEXEC) = 3</lib/x.so> <0.1>
10 1.1 read(3</lib/x.so>, ""..., 832) = 832 <0.1>
10 1.1 close(3</lib/x.so>) = 0 <0.1>
10 1.2 openat(AT_FDCWD</r>, ".", O_RDONLY|O_DIRECTORY) = 3</r> <0.1>
10 1.2 getdents64(3</r>, 0x55 /* 3 entries */, 32768) = 80 <0.1>
10 1.2 getdents64(3</r>, 0x55 /* 0 entries */, 32768) = 0 <0.1>
10 1.3 newfstatat(3</r>, "a", {st_mode=S_IFREG|0644, st_size=4, ...}, AT_SYMLINK_NOFOLLOW) = 0 <0.1>
10 1.3 newfstatat(AT_FDCWD</r>, "b/../c", 0x7ff, 0) = -1 ENOENT (No such file or directory) <0.1>
10 1.3 openat(3</r>, "new", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4</r/new> <0.1>
10 1.4 write(4</r/new>, ""..., 5000) = 5000 <0.1>
10 1.4 pwrite64(4</r/new>, ""..., 8, 100) = 8 <0.1>
10 1.4 dup2(4</r/new>, 9) = 9</r/new> <0.1>
10 1.4 close(4</r/new>) = 0 <0.1>
10 1.4 fsync(9</r/new>) = 0 <0.1>
10 1.5 renameat2(AT_FDCWD</r>, "new", AT_FDCWD</r>, "newer", RENAME_NOREPLACE) = 0 <0.1>
10 1.5 unlink("/r/newer") = 0 <0.1>
10 1.6 +++ exited with 0 +++
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 .",
            "0 getdents64 #0",
            "0 lstat a in #0",
            "0 stat c = -2",
            "0 open #1 new in #0",
            "0 write #1 = 5000",
            "0 pwrite #1 = 8",
            "0 fsync #1",
            "0 rename new newer",
            "0 unlink newer",
            "0 close #0",
            "0 close #1",
        ]
    );
    let flags = ["O_WRONLY", "O_CREAT", "O_EXCL"]
        .map(open_flag)
        .iter()
        .sum::<u32>();
    assert_eq!(
        (it.recording.calls[4].a, it.recording.calls[4].b),
        (flags.into(), 0o644)
    );
    assert!(
        it.recording.head.left_out.is_empty(),
        "{:?}",
        it.recording.head.left_out
    );
    let mut recording = it.recording;
    recording.packed().unwrap();
}

/// A recording of redis-server and of the shell that waits for its socket was refused: nothing made the name.
#[test]
fn a_socket_gets_its_name() {
    let it = converted(
        r#"1 1.0 stat("s,1", 0x7) = -1 ENOENT (No such file or directory) <0.1>
1 1.1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7) = 2 <0.1>
2 1.2 socket(AF_UNIX, SOCK_STREAM, 0) = 3<UNIX-STREAM:[7]> <0.1>
2 1.3 bind(3<UNIX-STREAM:[7]>, {sa_family=AF_UNIX, sun_path="s,1"}, 110) = 0 <0.1>
2 1.4 bind(4<UNIX-STREAM:[8]>, {sa_family=AF_UNIX, sun_path="/r/s,1"}, 110) = -1 EADDRINUSE (Address already in use) <0.1>
2 1.5 bind(3<UNIX-STREAM:[7]>, {sa_family=AF_UNIX, sun_path="s,1"}, 110) = -1 EINVAL (Invalid argument) <0.1>
2 1.5 bind(4<UNIX-STREAM:[8]>, {sa_family=AF_UNIX, sun_path=@"s"}, 110) = 0 <0.1>
2 1.6 bind(5<TCP:[9]>, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr("127.0.0.1")}, 16) = 0 <0.1>
2 1.7 bind(4<UNIX-STREAM:[8]>, {sa_family=AF_UNIX, sun_path="/elsewhere"}, 110) = 0 <0.1>
1 1.8 stat("s,1", {st_mode=S_IFSOCK|0755, st_size=0, ...}) = 0 <0.1>
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 stat s,1 = -2",
            "1 mknod s,1 after 0:1",
            "1 mknod s,1 = -17",
            "0 stat s,1 after 1:1",
        ]
    );
    assert_eq!(left(&it), ["network and sockets"]);
    let mut recording = it.recording;
    recording.packed().unwrap();
}

#[test]
fn tasks_wait_for_what_they_share_and_for_nothing_else() {
    let it = converted(
        r#"1 1.0 openat(AT_FDCWD</r>, "log", O_WRONLY|O_CREAT, 0600) = 3</r/log> <0.1>
1 1.1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7) = 2 <0.1>
2 1.2 mkdir("d", 0755) = 0 <0.1>
1 1.2 stat("x", 0x7) = -1 ENOENT (No such file or directory) <0.1>
2 1.3 write(3</r/log>, ""..., 1) = 1 <0.1>
1 1.3 write(3</r/log>, ""..., 2) = 2 <0.1>
2 1.4 openat(AT_FDCWD</r>, "d/f", O_WRONLY|O_CREAT|O_EXCL, 0600) = 4</r/d/f> <0.1>
2 1.5 +++ exited with 0 +++
1 1.5 wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 2 <0.1>
1 1.6 unlink("d/f") = 0 <0.1>
1 1.7 rmdir("d") = 0 <0.1>
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 log",
            "1 mkdir d after 0:1",
            "0 stat x = -2",
            "1 write #0 = 1",
            "0 write #0 = 2 after 1:2",
            "1 open #1 d/f",
            "1 close #1",
            "0 unlink d/f after 1:4",
            "0 rmdir d",
        ],
        "a directory is made before a file in it; stat of another name has no dependency"
    );
}

#[test]
fn unfinished_calls_threads_and_pipes() {
    let it = converted(
        r#"1 pipe2([3<pipe:[7]>, 4<pipe:[7]>], 0) = 0
1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0} <unfinished ...>
2 read(3<pipe:[7]>,  <unfinished ...>
1 <... clone3 resumed> => {parent_tid=[2]}, 88) = 2
1 mkdir("a", 0777) = 0
1 write(4<pipe:[7]>, ""..., 1) = 1
2 <... read resumed>""..., 8) = 1
2 rmdir("a" <unfinished ...>
1 stat("b", 0x7) = -1 ENOENT (No such file or directory)
2 <... rmdir resumed>) = 0
2 openat(AT_FDCWD</r>, "c", O_RDONLY|O_CREAT, 0600) = 5</r/c>
1 close(5</r/c>) = 0
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 mkdir a",
            "0 stat b = -2",
            "1 rmdir a after 0:1",
            "1 open #0 c",
            "0 close #0 after 1:2",
        ],
        "a pipe orders, threads share descriptors"
    );
}

#[test]
fn a_vfork_waits_until_its_child_executes() {
    let it = converted(
        r#"1 vfork( <unfinished ...>
2 mkdir("a", 0777) = 0
2 execve("/bin/x", ["x"], 0x7) = 0
1 <... vfork resumed>) = 2
2 mkdir("b", 0777) = 0
1 mkdir("c", 0777) = 0
"#,
    );
    assert_eq!(
        words(&it.recording),
        ["0 mkdir a", "0 mkdir b", "1 mkdir c after 0:1"]
    );
}

/// Each task opens the file itself, so that only the lock orders them. The replay does not wait for a lock.
#[test]
fn who_waits_for_a_lock_comes_after_its_release() {
    let log = |locks: [&str; 4]| {
        let [first, waits, released, has] = locks;
        format!(
            r#"1 clone(child_stack=NULL, flags=SIGCHLD, child_tidptr=0x7) = 2
1 openat(AT_FDCWD</r>, "l", O_RDWR) = 3</r/l>
2 openat(AT_FDCWD</r>, "l", O_RDWR) = 3</r/l>
1 {first}
2 {waits}
1 {released}
2 {has}
2 close(3</r/l>) = 0
1 +++ exited with 0 +++
"#
        )
    };
    let flock = [
        "flock(3</r/l>, LOCK_EX) = 0",
        "flock(3</r/l>, LOCK_EX <unfinished ...>",
        "flock(3</r/l>, LOCK_UN) = 0",
        "<... flock resumed>) = 0",
    ];
    let it = converted(&log(flock));
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 l",
            "1 open #1 l",
            "0 flock #0",
            "0 flock #0",
            "1 flock #1 after 0:3",
            "1 close #1",
            "0 close #0 after 1:3",
        ]
    );
    // The other one closes the file instead, and the lock goes with it.
    let range = "{l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=1}";
    let (first, waits) = (
        format!("fcntl(3</r/l>, F_OFD_SETLKW, {range}) = 0"),
        format!("fcntl(3</r/l>, F_OFD_SETLKW, {range} <unfinished ...>"),
    );
    let it = converted(&log([
        &first,
        &waits,
        "close(3</r/l>) = 0",
        "<... fcntl resumed>) = 0",
    ]));
    assert_eq!(words(&it.recording)[4], "1 fcntl #1 after 0:3");
}

/// A directory is closed after what another task does below it.
#[test]
fn an_open_directory_is_needed_by_names_relative_to_it() {
    let it = converted(
        r#"1 openat(AT_FDCWD</r>, "d", O_RDONLY|O_DIRECTORY) = 3</r/d>
1 clone(child_stack=NULL, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, child_tidptr=0x7) = 2
2 unlinkat(3</r/d>, "a", 0) = 0
1 renameat(3</r/d>, "b", 3</r/d>, "c") = 0
1 close(3</r/d>) = 0
"#,
    );
    assert_eq!(
        words(&it.recording),
        [
            "0 open #0 d",
            "1 unlink a in #0 after 0:1",
            "0 rename b c in #0",
            "0 close #0 after 1:1",
        ]
    );
}

#[test]
fn exec_closes_what_it_has_to() {
    let it = converted(
        r#"1 openat(AT_FDCWD</r>, "a", O_RDONLY|O_CLOEXEC) = 3</r/a>
1 openat(AT_FDCWD</r>, "b", O_RDONLY) = 4</r/b>
1 fcntl(4</r/b>, F_DUPFD_CLOEXEC, 10) = 10</r/b>
1 fcntl(4</r/b>, F_SETFD, FD_CLOEXEC) = 0
1 execve("/r/tool", ["x"], 0x7) = 0
1 fstat(10</r/b>, {st_mode=S_IFREG|0644, st_size=1, ...}) = 0
"#,
    );
    assert_eq!(
        words(&it.recording),
        ["0 open #0 a", "0 open #1 b", "0 close #0", "0 close #1"]
    );
    assert_eq!(
        left(&it),
        [
            "calls on files that were open before, or that another program opened",
            "programs of the tree that were executed: their pages are not read",
        ],
        "10 is closed"
    );
}

#[test]
fn every_kind_of_call_is_replayed() {
    let it = converted(
        r#"1 openat2(AT_FDCWD</r>, "f", {flags=O_RDWR|O_CREAT, mode=0600, resolve=0}, 24) = 3</r/f>
1 openat(AT_FDCWD</r>, "g", O_RDWR|O_CREAT|O_TRUNC, 0600) = 4</r/g>
1 copy_file_range(3</r/f>, NULL, 4</r/g>, [0], 9223372035781033984, 0) = 10
1 sendfile(4</r/g>, 3</r/f>, [6] => [6], 4096) = 0
1 sendfile(9<socket:[7]>, 3</r/f>, [0] => [5], 4096) = 5
1 sendfile(9<socket:[7]>, 3</r/f>, NULL, 4096) = -1 EAGAIN (Resource temporarily unavailable)
1 splice(3</r/f>, NULL, 8<pipe:[8]>, NULL, 4096, SPLICE_F_MOVE) = 7
1 splice(7<pipe:[8]>, NULL, 4</r/g>, [100], 4096, 0) = 3
1 fallocate(4</r/g>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0
1 fsetxattr(4</r/g>, "user.k", "v", 1, XATTR_CREATE) = 0
1 getxattr("g", "security.capability", 0x7, 20) = -1 ENODATA (No data available)
1 setxattr("g", "security.capability", "v", 1, 0) = -1 EPERM (Operation not permitted)
1 fcntl(4</r/g>, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=1073741824, l_len=1}) = 0
1 flock(4</r/g>, LOCK_EX) = 0
1 ftruncate(4</r/g>, 100) = 0
1 truncate("g", 50) = 0
1 renameat2(AT_FDCWD</r>, "f", AT_FDCWD</r>, "g", RENAME_EXCHANGE) = 0
1 ioctl(4</r/g>, BTRFS_IOC_CLONE or FICLONE, 3</r/f>) = -1 EOPNOTSUPP (Operation not supported)
1 sync_file_range(4</r/g>, 0, 4096, SYNC_FILE_RANGE_WRITE) = 0
1 fadvise64(4</r/g>, 0, 0, POSIX_FADV_SEQUENTIAL) = 0
1 lseek(4</r/g>, 0, SEEK_DATA) = 0
1 openat(AT_FDCWD</r>, ".", O_RDWR|O_TMPFILE, 0600) = 5</r/#1>
1 linkat(AT_FDCWD</r>, "/proc/self/fd/5", AT_FDCWD</r>, "named", AT_SYMLINK_FOLLOW) = 0
1 utimensat(5</r/named>, NULL, NULL, 0) = 0
1 statx(AT_FDCWD</r>, "g", AT_STATX_SYNC_AS_STAT|AT_SYMLINK_NOFOLLOW, STATX_MODE, {stx_mask=STATX_ALL}) = 0
1 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 4</r/g>, 0) = 0x7f
1 ioctl(4</r/g>, TCGETS, 0x7ff) = -1 ENOTTY (Inappropriate ioctl for device)
1 ioctl(4</r/g>, FS_IOC_GETFLAGS, [FS_EXTENT_FL]) = 0
1 pwritev2(4</r/g>, [{iov_base=""..., iov_len=5}], 1, 0, RWF_DSYNC) = 5
1 socket(AF_INET, SOCK_STREAM, 0) = 9
"#,
    );
    let kinds: Vec<&str> = it
        .recording
        .calls
        .iter()
        .map(|call| call.kind.id())
        .collect();
    assert_eq!(
        kinds,
        [
            "open",
            "open",
            "copy_file_range",
            "sendfile",
            "pread",
            "read",
            "pwrite",
            "fallocate",
            "fsetxattr",
            "getxattr",
            "fcntl",
            "flock",
            "ftruncate",
            "truncate",
            "rename",
            "ficlone",
            "sync_file_range",
            "fadvise64",
            "lseek",
            "open",
            "linkat",
            "futimens",
            "statx",
            "tcgets",
            "pwrite",
        ]
    );
    let call = |at: usize| &it.recording.calls[at];
    assert_eq!(
        (call(2).a, call(2).b, call(2).c, call(2).outcome),
        (4106, -1, 0, 10)
    );
    assert_eq!((call(3).b, call(3).outcome), (6, 0));
    assert_eq!((call(4).a, call(4).b, call(4).outcome), (5, 0, 5));
    assert_eq!((call(5).a, call(5).outcome), (7, 7));
    assert_eq!((call(6).a, call(6).b, call(6).outcome), (3, 100, 3));
    assert_eq!((call(10).a, call(10).b, call(10).c), (1, 1 << 30, 1));
    assert_eq!(call(11).a, 6, "exclusive, and never waiting");
    assert_eq!((call(14).a, call(15).outcome), (2, -95));
    assert_eq!(
        left(&it),
        [
            "RWF_ flags of preadv2 and pwritev2: replayed without them",
            "attributes that are not a user's",
            "copies to and from elsewhere, such as a socket: replayed as reads and writes",
            "ioctl other than FICLONE and TCGETS",
            "mappings: the pages that are read through them",
            "network and sockets",
        ]
    );
    let mut recording = it.recording;
    recording.packed().unwrap();
}

#[test]
fn links_that_lead_up_are_followed_here() {
    let tree = vec![
        Entry::directory("bin".into(), 0o755),
        Entry::link("bin/x".into(), "../pkg".into()),
        Entry::link("out".into(), "/etc".into()),
        Entry::directory("pkg".into(), 0o4755),
    ];
    let log = r#"1 openat(AT_FDCWD</r>, "bin/x/f", O_RDONLY) = 3</r/pkg/f>
1 stat("out/passwd", 0x7) = 0
1 lstat("out", 0x7) = 0
"#;
    let mut it = convert(log.as_bytes(), &of(Some(tree))).unwrap();
    assert_eq!(words(&it.recording), ["0 open #0 pkg/f", "0 lstat out"]);
    let left = &it.recording.head.left_out;
    assert_eq!(
        left.get("calls through links that lead out of the tree"),
        Some(&1),
        "{left:?}"
    );
    let targets: Vec<String> = it
        .recording
        .tree
        .iter()
        .filter_map(|e| Some(e.target.as_ref()?.escaped()))
        .collect();
    assert_eq!(targets, ["__/pkg", "_etc"]);
    assert_eq!(it.recording.tree[3].mode, 0o755);
    it.recording.packed().unwrap();
}

/// A log that somebody has, without the tree.
#[test]
fn a_tree_is_inferred_from_the_calls() {
    let log = r#"1 1.0 stat("src", {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0 <0.1>
1 1.0 openat(AT_FDCWD</r>, "src/a", O_RDONLY) = 3</r/src/a> <0.1>
1 1.0 fstat(3</r/src/a>, {st_mode=S_IFREG|0644, st_size=300, ...}) = 0 <0.1>
1 1.0 read(3</r/src/a>, ""..., 4096) = 300 <0.1>
1 1.0 rename("src", "old") = 0 <0.1>
1 1.0 openat(AT_FDCWD</r>, "old/b", O_RDONLY) = 4</r/old/b> <0.1>
1 1.0 pread64(4</r/old/b>, ""..., 10, 90) = 10 <0.1>
1 1.0 mkdir("new", 0755) = 0 <0.1>
1 1.0 openat(AT_FDCWD</r>, "new/c", O_RDWR|O_CREAT, 0600) = 5</r/new/c> <0.1>
1 1.0 write(5</r/new/c>, ""..., 10) = 10 <0.1>
1 1.0 readlink("to", "src/a", 4096) = 5 <0.1>
1 1.0 stat("gone", 0x7) = -1 ENOENT (No such file or directory) <0.1>
"#;
    let mut it = convert(log.as_bytes(), &of(None)).unwrap();
    let tree: Vec<String> = it
        .recording
        .tree
        .iter()
        .map(|e| format!("{} {} {}", e.kind.id(), e.path.escaped(), e.size))
        .collect();
    assert_eq!(tree, ["d src 0", "f src/a 300", "f src/b 100", "l to 0"]);
    assert_eq!(it.recording.head.left_out.len(), 1);
    it.recording.packed().unwrap();
}

#[test]
fn a_log_without_calls_there_is_refused() {
    for log in ["", "nonsense\n", "1 stat(\"/etc\", 0x7) = 0\n"] {
        let why = convert(log.as_bytes(), &of(Some(Vec::new()))).unwrap_err();
        assert!(why.contains("no calls on files of the directory"), "{why}");
    }
}

/// More processes than threads of a replay: numbers of those that have ended are given again.
#[test]
fn numbers_of_tasks_are_given_again() {
    let born = |child: u32| format!("1 fork() = {child}\n{child} mkdir(\"d{child}\", 0755) = 0\n");
    let one = |child: u32| born(child) + &format!("{child} +++ exited with 0 +++\n");
    let log: Vec<String> = (2..600).map(one).collect();
    let mut it = converted(&log.concat());
    assert_eq!(u64::from(it.recording.head.tasks), limits::TASKS);
    it.recording.packed().unwrap();
    let at_once = (2..600).map(born).collect::<Vec<_>>().concat();
    let why = convert(at_once.as_bytes(), &of(Some(Vec::new()))).unwrap_err();
    assert!(why.contains("more than 256 of its tasks"), "{why}");
}

#[test]
fn a_program_that_runs_has_open_files_and_threads() {
    let file = |descriptor, path: &str, flags: &str, position| OpenFile {
        descriptor,
        same_as: None,
        path: path.into(),
        flags: flags.into(),
        position,
    };
    let processes = [
        Running {
            pid: 10,
            parent: None,
            threads: vec![11],
            cwd: b"/r/sub".to_vec(),
            files: vec![
                file(3, "/r/a <b>\"\\\n\u{e4}", "O_RDWR|O_APPEND", 0),
                file(4, "/r/sub/x", "O_RDONLY|O_CLOEXEC", 7),
                file(5, "/var/log/other", "O_WRONLY", 0),
            ],
        },
        Running {
            pid: 20,
            cwd: b"/".to_vec(),
            ..Running::default()
        },
    ];
    let log = lines_of(&processes)
        + r#"11 write(3</r/a\40\74b\76\"\\\n\303\244>, ""..., 5) = 5
10 read(4</r/sub/x>, ""..., 9) = 2
10 unlink("y") = 0
20 unlink("r/z") = 0
"#;
    let tree =
        ["a <b>\"\\\n\u{e4}", "sub/x", "sub/y", "z"].map(|name| Entry::file(name.into(), 0o644, 9));
    let mut tree = tree.to_vec();
    tree.push(Entry::directory("sub".into(), 0o755));
    tree.sort_by(|a, b| a.path.cmp(&b.path));
    let it = convert(log.as_bytes(), &of(Some(tree))).unwrap().recording;
    assert_eq!(
        words(&it),
        [
            "0 open #0 a <b>\"\\%0a\u{e4}",
            "0 open #1 sub/x",
            "0 lseek #1",
            "1 write #0 = 5 after 0:3",
            "0 read #1 = 2",
            "0 unlink sub/y",
            "2 unlink z",
        ]
    );
    assert_eq!(
        it.calls[0].a,
        i64::from(open_flag("O_RDWR") | open_flag("O_APPEND"))
    );
}

#[test]
fn descriptors_of_one_open_file_share_its_position() {
    let file = |descriptor, same_as, position| OpenFile {
        descriptor,
        same_as,
        path: b"/r/log".to_vec(),
        flags: "O_RDWR".into(),
        position,
    };
    let processes = [
        Running {
            pid: 10,
            cwd: b"/r".to_vec(),
            files: vec![
                file(1, None, 4),
                file(2, Some((10, 1)), 4),
                file(3, None, 0),
            ],
            ..Running::default()
        },
        Running {
            pid: 20,
            parent: Some(10),
            cwd: b"/r".to_vec(),
            files: vec![file(3, Some((10, 1)), 4), file(1, None, 0)],
            ..Running::default()
        },
    ];
    let log = lines_of(&processes)
        + r#"10 write(2</r/log>, ""..., 5) = 5
20 write(3</r/log>, ""..., 6) = 6
20 write(1</r/log>, ""..., 7) = 7
10 write(3</r/log>, ""..., 8) = 8
20 close(3</r/log>) = 0
10 close(1</r/log>) = 0
10 close(2</r/log>) = 0
"#;
    let tree = vec![Entry::file("log".into(), 0o644, 4)];
    let it = convert(log.as_bytes(), &of(Some(tree))).unwrap().recording;
    let files: Vec<_> = it
        .calls
        .iter()
        .map(|c| (c.kind.id(), c.task, c.file.unwrap()))
        .collect();
    assert_eq!(
        files,
        [
            ("open", 0, 0),
            ("lseek", 0, 0),
            ("open", 0, 1),
            ("open", 1, 2),
            ("write", 0, 0),
            ("write", 1, 0),
            ("write", 1, 2),
            ("write", 0, 1),
            ("close", 0, 0),
        ]
    );
}
