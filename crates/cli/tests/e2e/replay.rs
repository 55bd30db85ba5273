//! `layermark record` and `layermark replay`: what a program did is replayed with the same outcomes in each layer, and
//! what cannot be is refused.

use std::{fs, io, os::fd::AsFd, path::Path, process::Command};

use layermark_recording::{CallKind, Recording};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde_json::json;

use crate::common::{Lm, Said, figures, found, has_fuse, is_root, output, result, skipped};

/// Not one of a version manager, which starts dozens of processes first.
const PYTHON: &str = "/usr/bin/python3";

/// Whether a program can be started.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs a command in the directory of a test, outside of any recording.
#[track_caller]
fn prepare(dir: &Path, words: &[&str]) {
    let done = Command::new(words[0])
        .args(&words[1..])
        .current_dir(dir)
        .output()
        .expect(words[0]);
    assert!(
        done.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Files in which there is something to do: a few directories with files.
fn source(dir: &Path) {
    for number in 0..20 {
        let at = dir.join(format!("src/d{}", number % 4));
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join(format!("f{number}.txt")), vec![b'x'; 100 * number]).unwrap();
    }
}

fn record(lm: Lm, program: &[&str]) -> Said {
    lm.args(["record", "-o", "app.lmrec", "--"])
        .args(program)
        .run()
}

/// Replays natively and in other layers, and asserts that every one has its times.
#[track_caller]
fn replays(said: Said, layers: &[&str], labels: &[&str]) {
    let report = said
        .then()
        .work_with(&["replay", "app.lmrec", "--blocks", "1", "--json"], layers)
        .run()
        .left_nothing()
        .json();
    for label in labels {
        for layer in layers.iter().chain(&["native"]) {
            let row = result(&report, label, layer);
            assert_eq!(row["trials"], 1, "{row:#}");
            assert!(
                row["error"].is_null() && row["value"].as_f64() > Some(0.0),
                "{row:#}"
            );
        }
    }
}

/// The layers that can be set up here.
fn layers() -> &'static [&'static str] {
    match (is_root(), has_fuse()) {
        (true, true) => &["overlay:upper", "fuse"],
        (true, false) => &["overlay:upper"],
        _ => &["tmpfs"],
    }
}

#[test]
fn git_status_is_replayed_in_every_layer() {
    if !has("strace") || !has("git") {
        return skipped("strace or git is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    source(&dir);
    for words in ["git init -q .", "git add src", "git status"] {
        prepare(&dir, &words.split(' ').collect::<Vec<_>>());
    }
    let said = record(lm, &["git", "status", "--porcelain"]).code(0);
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    // It maps its index, whose pages are recorded, or counted as left out.
    let touches = it.calls.iter().any(|call| call.kind == CallKind::Touch);
    assert!(
        said.stdout.contains("app.lmrec") && touches != said.stdout.contains("x mappings: "),
        "{}",
        said.stdout
    );
    assert!(it.calls.len() > 20 && it.tree.len() > 20, "{:?}", it.head);
    assert_eq!(it.head.command, "git status --porcelain");
    replays(said, layers(), &["git status --porcelain, I/O alone"]);
}

/// tar writes nothing, and reads no file, if its output is `/dev/null`: its time would be less than that of its calls.
#[test]
fn the_time_of_a_program_that_prints_is_estimated() {
    if !has("strace") || !has("tar") {
        return skipped("strace or tar is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    source(&dir);
    let said = record(lm, &["tar", "cf", "-", "src"]).code(0);
    let said = said.prints("on tmpfs the program takes ");
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    assert!(
        it.head.think_ns.is_some_and(|ns| ns > 0) && it.head.think_spread_ns.is_some(),
        "{:?}",
        it.head
    );
    let labels = [
        "tar cf - src, as the application",
        "tar cf - src, I/O alone",
    ];
    replays(said, layers(), &labels);
}

/// The program finds its tree as it was before the recording each time: `mkdir` fails otherwise.
#[test]
fn an_estimate_is_compared_with_the_program_itself() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    source(&dir);
    // As grep where it has found nothing: its exit code is its own.
    let script = "mkdir out && cp -r src out && exit 3";
    let (before, command) = (dir.join("before"), format!("sh -c '{script}'"));
    prepare(&dir, &["mkdir", "before"]);
    prepare(&dir, &["cp", "-r", "src", "before"]);
    let said = record(lm, &["sh", "-c", script]).code(0);
    let said = said.prints("on tmpfs the program takes ");
    let before = before.to_string_lossy().into_owned();
    let check = ["replay", "app.lmrec", "--check", &command];
    let said = said.then().args(check).args(["--time", "io"]).run();
    let said = said.fails(2, &["`--time` = io", "leave out --time, or --check"]);
    let check = [&check[..], &["--tree", &before, "--expect", "3"]].concat();
    let layer = layers()[0];
    let checked = said.then().work_with(&check, &[layer]);
    let said = checked.args(["--blocks", "3", "--json"]).run();
    let said = said.left_nothing();
    let report = said.json();
    let checks = report["estimate_checks"].as_array().expect("checks");
    assert_eq!(checks.len(), 1, "{checks:#?}");
    let row = &checks[0];
    assert_eq!(row["layer"], layer);
    for key in ["estimate", "measured"] {
        let own = found(&report["results"], "id", row[key].as_str().unwrap());
        assert_eq!(
            (&own["trials"], &own["error"]),
            (&json!(3), &json!(null)),
            "{own:#}"
        );
        assert!(row[format!("{key}_us")].as_f64() > Some(0.0), "{row:#}");
    }
    let estimate = found(&report["results"], "id", row["estimate"].as_str().unwrap());
    let head = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap())
        .unwrap()
        .head;
    let added = &estimate["meaning"]["added"];
    assert_eq!(added["ns"].as_u64(), head.think_ns);
    assert_eq!(added["spread_ns"].as_u64(), head.think_spread_ns);
    let text = row["text"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("`{layer}`: ")) && text.contains("explained"),
        "{text}"
    );
}

#[test]
fn an_estimate_that_there_is_not_cannot_be_checked() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new().file("a", "x");
    let said = lm
        .args(["record", "--once", "-o", "app.lmrec", "--", "cat", "a"])
        .run()
        .code(0);
    let said = said
        .then()
        .args(["replay", "app.lmrec", "--check", "cat a"])
        .run();
    let said = said.fails(
        2,
        &[
            "the recording has no estimate",
            "layermark record -- PROGRAM",
        ],
    );
    said.then()
        .args(["replay", "app.lmrec", "--tree", "."])
        .run()
        .fails(2, &["--check"]);
}

/// How long it takes there is not how long it takes here.
#[test]
fn a_program_that_does_something_else_when_repeated_has_no_estimate() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let script = ": > b; case $PWD in /dev/shm/*) cat a a a a a;; esac";
    let lm = Lm::new().file("a", "x");
    let dir = lm.dir.path().to_owned();
    let _said = record(lm, &["sh", "-c", script])
        .code(0)
        .prints("not known: on tmpfs the program does something else: ");
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    assert_eq!(it.head.think_ns, None);
}

/// Copies of a tree with this file.
fn copies_with(name: &str) -> usize {
    let all = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    all.filter(|entry| entry.path().join("before").join(name).exists())
        .count()
}

/// The program sends a signal to `layermark`, the parent of its strace.
#[test]
fn an_interrupted_program_is_recorded_until_then_and_twice_leaves_nothing() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let script = |signals: &str| {
        format!(": > made; read a b c l d < /proc/$PPID/stat; {signals}; exec sleep 1000")
    };
    let lm = Lm::new().file("interrupted-once", "x");
    let dir = lm.dir.path().to_owned();
    let _said = record(lm, &["sh", "-c", &script("kill -TERM $l")])
        .code(0)
        .prints("not known: the program was interrupted");
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    assert!(it.names.contains(&"made".into()), "{:?}", it.names);
    let lm = Lm::new().file("interrupted-twice", "x");
    let dir = lm.dir.path().to_owned();
    let _twice = record(lm, &["sh", "-c", &script("kill -INT $l; kill -TERM $l")])
        .code(130)
        .says("stopped: nothing was recorded");
    assert!(!dir.join("app.lmrec").exists());
    assert_eq!(
        (
            copies_with("interrupted-once"),
            copies_with("interrupted-twice")
        ),
        (0, 0)
    );
}

#[test]
fn why_strace_does_not_start_a_program_is_said() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let none = [
        "strace has not started `/nonexistent`: it has said why",
        "stat '/nonexistent'",
    ];
    record(Lm::new(), &["/nonexistent"]).fails(1, &none);
    let lm = Lm::new().file("bad", "#!/nonexistent\n");
    prepare(lm.dir.path(), &["chmod", "+x", "bad"]);
    record(lm, &["./bad"]).fails(1, &["strace has not started `./bad`: ENOENT"]);
    let lm = Lm::new().file(
        "strace",
        "#!/bin/sh\necho strace: not permitted >&2; echo > /dev/null; exit 1\n",
    );
    prepare(lm.dir.path(), &["chmod", "+x", "strace"]);
    let path = lm.dir.path().to_string_lossy().into_owned() + ":/usr/bin:/bin";
    let fake = record(lm.env("PATH", &path), &["true"]);
    fake.fails(1, &["strace has not started `true`: strace: not permitted"]);
}

/// The names of attributes are in the trace, and what files had before is left out.
#[test]
fn attributes_of_files_are_recorded() {
    if !has("strace") || !has(PYTHON) {
        return skipped("strace or python3 is not installed");
    }
    let script = "import os\nos.setxattr('a', 'user.k', b'v' * 300); os.getxattr('a', 'user.k'); os.listxattr('a')\ntry: os.getxattr('b', 'user.old')\nexcept OSError: pass";
    let lm = Lm::new()
        .file("a", "x")
        .file("b", "x")
        .file("app.py", script);
    let dir = lm.dir.path().to_owned();
    let set = "import os; os.setxattr('b', 'user.old', b'v')";
    let done = Command::new(PYTHON)
        .args(["-c", set])
        .current_dir(&dir)
        .output();
    if !done.is_ok_and(|done| done.status.success()) {
        return skipped("this file system has no attributes");
    }
    let said = lm
        .args([
            "record",
            "--once",
            "-o",
            "app.lmrec",
            "--",
            PYTHON,
            "app.py",
        ])
        .run()
        .code(0)
        .prints("attributes that files had before the recording");
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    let count = |kind| it.calls.iter().filter(|call| call.kind == kind).count();
    assert_eq!(
        (
            count(CallKind::Setxattr),
            count(CallKind::Getxattr) > 0,
            count(CallKind::Listxattr)
        ),
        (1, true, 1)
    );
    assert!(it.names.contains(&"user.k".into()), "{:?}", it.names);
    replays(said, &[], &["/usr/bin/python3 app.py, I/O alone"]);
}

/// `sort < input > out`: the shell opens them before the recording begins.
#[test]
fn input_and_output_in_the_tree_are_recorded() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new().file("input", "b\na\n");
    let dir = lm.dir.path().to_owned();
    let said = lm
        .wrapped(&["sh", "-c", "exec \"$0\" \"$@\" < input > out"])
        .args(["record", "--once", "-o", "app.lmrec", "--", "sort"])
        .run()
        .code(0);
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    let moved = |kind| {
        let calls = it.calls.iter().filter(|call| call.kind == kind);
        calls.map(|call| call.outcome).sum::<i64>()
    };
    assert_eq!((moved(CallKind::Read), moved(CallKind::Write)), (4, 4));
    let out = fs::read_to_string(dir.join("out")).unwrap();
    assert!(out.starts_with("a\nb\n"), "{out}");
    replays(said, &[], &["sort, I/O alone"]);
}

/// Repeated, it has the files of the copy: with pipes, cat would read and write instead of copying from file to file.
#[test]
fn input_and_output_in_the_tree_are_those_of_the_copy() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let script = "echo 1;echo 1;echo 1;echo 1";
    let input = "x".repeat(1 << 20);
    for (shell, program) in [
        ("exec \"$0\" \"$@\" > out", &["cat", "input"][..]),
        ("exec \"$0\" \"$@\" >> out", &["cat", "input"]),
        ("exec \"$0\" \"$@\" < input > out", &["cat"]),
        ("exec \"$0\" \"$@\" > out 2>&1", &["sh", "-c", script]),
    ] {
        let lm = Lm::new().file("input", &input);
        let dir = lm.dir.path().to_owned();
        let said = lm
            .wrapped(&["sh", "-c", shell])
            .args(["record", "-o", "app.lmrec", "--"])
            .args(program)
            .run()
            .code(0);
        let out = fs::read(dir.join("out")).unwrap();
        let summary = String::from_utf8_lossy(&out[out.len().saturating_sub(2000)..]);
        assert!(summary.contains("on tmpfs the program takes"), "{summary}");
        assert!(summary.contains("traced calls"), "{summary}");
        let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
        assert!(it.head.think_ns.is_some(), "{shell}: {:?}", it.head);
        let copied: i64 = it.calls.iter().map(|call| call.outcome.max(0)).sum();
        assert!(copied >= 8, "{shell}");
        let label = format!("{}, I/O alone", it.head.command);
        replays(said, layers(), &[&label]);
    }
}

/// Repeated, it would write to the tree of the user.
#[test]
fn a_program_with_other_files_from_the_shell_is_not_repeated() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    let _said = lm
        .wrapped(&["sh", "-c", "exec \"$0\" \"$@\" 3> out"])
        .args(["record", "-o", "app.lmrec", "--", "sh", "-c", "echo a >&3"])
        .run()
        .code(0)
        .prints("not known: the program has more files of the tree from the shell");
    assert_eq!(fs::read_to_string(dir.join("out")).unwrap(), "a\n");
}

/// `cp -p` of another user's file, and a test whether a file is a directory.
#[test]
fn what_depends_on_the_user_or_on_a_slash_is_left_out() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new().file("a", "x");
    let script = "test -d a/; ls -ld a/; cp -p a b; ls -l >/dev/null; exit 0";
    let said = lm
        .args([
            "record",
            "--once",
            "-o",
            "app.lmrec",
            "--",
            "sh",
            "-c",
            script,
        ])
        .run()
        .code(0)
        .prints("calls that fail because of the slash at the end of a name");
    assert!(!said.stdout.contains("strace has cut"), "{}", said.stdout);
}

#[test]
fn an_archive_is_unpacked_in_every_layer() {
    if !has("strace") || !has("tar") {
        return skipped("strace or tar is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    source(&dir);
    prepare(&dir, &["tar", "cf", "src.tar", "src"]);
    prepare(&dir, &["rm", "-r", "src"]);
    let said = record(lm, &["tar", "xf", "src.tar"]).code(0);
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    assert!(
        it.head
            .after
            .as_ref()
            .is_some_and(|after| after.starts_with("27 entries")),
        "{:?}",
        it.head
    );
    replays(said, layers(), &["tar xf src.tar, I/O alone"]);
}

#[test]
fn a_program_with_processes_is_replayed_in_every_layer() {
    if !has("strace") || !has(PYTHON) {
        return skipped("strace or python3 is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    fs::create_dir(dir.join("pkg")).unwrap();
    fs::write(dir.join("pkg/__init__.py"), "from . import a\n").unwrap();
    fs::write(dir.join("pkg/a.py"), "x = 1\n").unwrap();
    let script = "import os, pkg\nfor i in range(4):\n  if os.fork() == 0:\n    os.mkdir(f'd{i}'); open(f'd{i}/f', 'w').write('x' * 5000); os.rename(f'd{i}', f'e{i}'); os._exit(0)\nfor i in range(4): os.wait()\nprint(sorted(os.listdir('e2')))";
    fs::write(dir.join("app.py"), script).unwrap();
    let said = record(lm, &[PYTHON, "app.py"]).code(0);
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    assert_eq!(it.head.tasks, 5, "{:?}", it.head);
    assert!(it.calls.iter().any(|call| !call.waits.is_empty()));
    replays(said, layers(), &["/usr/bin/python3 app.py, I/O alone"]);
}

/// Records, and asserts that no instance of tracefs is left of it.
#[track_caller]
fn record_and_look(lm: Lm, program: &[&str]) -> Said {
    let record = ["record", "-o", "app.lmrec", "--"];
    let (child, home) = lm.args(record).args(program).start();
    let own = format!("layermark-{}-", child.id());
    let said = Said::from(output(child), home);
    if let Ok(all) = instances() {
        assert!(all.iter().all(|name| !name.starts_with(&own)), "{all:?}");
    }
    said
}

/// Names of the instances of tracefs, which is not mounted for this.
fn instances() -> io::Result<Vec<String>> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let (flags, safe) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
    let mount = fsmount(&context, flags, safe)?;
    let all = layermark_fd::open_dir(mount, "instances")?;
    let names = layermark_fd::names(all.as_fd(), "")?;
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    Ok(names.collect())
}

/// A program reads a file through a mapping that outlives the descriptor, in a child too.
#[test]
fn pages_that_are_read_through_a_mapping_are_touched_in_every_layer() {
    if !has("strace") || !has(PYTHON) {
        return skipped("strace or python3 is not installed");
    }
    let script = "import mmap, os\nf = open('pages'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); f.close()\nif os.fork() == 0:\n  m[0]; os._exit(0)\nos.wait()\nprint(sum(m[at] for at in range(0, len(m), 4096)))";
    let lm = Lm::new()
        .file("pages", vec![1; 1 << 20])
        .file("app.py", script);
    let dir = lm.dir.path().to_owned();
    let said = record_and_look(lm, &["/nonexistent"]).code(1);
    let said = record_and_look(said.then(), &[PYTHON, "app.py"]).code(0);
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    let count = |kind| it.calls.iter().filter(|call| call.kind == kind).count();
    if !is_root() {
        assert_eq!(count(CallKind::Map), 0);
        said.prints("left out: 1 x mappings: the pages that are read through them (only root can record page faults)");
        return;
    }
    if said.stdout.contains("x mappings: ") {
        return skipped("page faults cannot be recorded here");
    }
    assert_eq!((count(CallKind::Map), count(CallKind::Unmap)), (1, 1));
    // The kernel maps 16 pages at once, where it has them.
    assert!(count(CallKind::Touch) >= 16, "{:?}", it.head);
    let touched = it.calls.iter().filter(|call| call.kind == CallKind::Touch);
    let tasks: std::collections::BTreeSet<u32> = touched.map(|call| call.task).collect();
    assert_eq!(tasks.len(), 2, "the child, too");
    let closed = it
        .calls
        .iter()
        .rposition(|call| call.kind == CallKind::Close);
    assert!(closed.is_some(), "{:?}", it.head);
    let work = [&["native"], layers()].concat();
    let report = said
        .then()
        .work_with(
            &[
                "replay",
                "app.lmrec",
                "--time",
                "io",
                "--blocks",
                "1",
                "--json",
            ],
            layers(),
        )
        .run()
        .left_nothing()
        .json();
    for layer in work {
        let figures = figures(&report, "/usr/bin/python3 app.py, I/O alone", layer);
        assert!(
            figures["kind_us.touch"].as_f64() > Some(0.0),
            "{layer}: {figures:#}"
        );
    }
}

#[test]
fn a_private_recording_has_no_names() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new().file("secret-plans.txt", "x");
    let dir = lm.dir.path().to_owned();
    let said = lm
        .args([
            "record",
            "--private",
            "-o",
            "app.lmrec",
            "--",
            "cp",
            "secret-plans.txt",
            "secret-copy",
        ])
        .run()
        .code(0);
    let it = Recording::unpack(fs::File::open(dir.join("app.lmrec")).unwrap()).unwrap();
    let text = format!("{it:?}").to_lowercase();
    let names = it
        .names
        .iter()
        .chain(it.tree.iter().map(|entry| &entry.path));
    assert!(
        names.clone().all(|name| !name.escaped().contains("secret")) && !text.contains("secret"),
        "{text}"
    );
    assert!(
        names
            .clone()
            .any(|name| name.escaped().len() == "secret-plans.txt".len())
    );
    replays(said, &[], &["app, I/O alone"]);
}

/// Converts a log of a program in `/srv/x`.
fn converted(log: &str) -> Said {
    let from = ["record", "--from-strace", "trace.log", "--tree", "/srv/x"];
    let lm = Lm::new().file("trace.log", log).args(from);
    lm.args(["-o", "app.lmrec"]).run()
}

#[test]
fn a_log_of_strace_is_converted() {
    let log = r#"7 1700000000.1 execve("/bin/app", ["app"], 0x7 /* 9 vars */) = 0 <0.1>
7 1700000000.2 openat(AT_FDCWD</srv/x>, "conf", O_RDONLY|O_CLOEXEC) = 3</srv/x/conf<regular>> <0.00001>
7 1700000000.3 read(3</srv/x/conf>, ""..., 4096) = 300 <0.00001>
7 1700000000.3 read(3</srv/x/conf>, ""..., 4096) = 0 <0.00001>
7 1700000000.4 mkdir("out", 0755) = 0 <0.00001>
7 1700000000.5 openat(AT_FDCWD</srv/x>, "out/a", O_WRONLY|O_CREAT, 0644) = 4</srv/x/out/a> <0.00001>
7 1700000000.6 write(4</srv/x/out/a>, ""..., 10) = 10 <0.00001>
7 1700000000.7 +++ exited with 0 +++
"#;
    let said = converted(log)
        .code(0)
        .prints("8 calls of 1 task on a tree of 1 entry");
    let said = said.prints("not known: a log of strace does not show it");
    replays(said, &[], &["app, I/O alone"]);
    // What it does not say cannot be guessed: the size of a file that was only read at its end.
    let log = log.replace(
        "read(3</srv/x/conf>, \"\"..., 4096) = 0",
        "lseek(3</srv/x/conf>, 0, SEEK_CUR) = -1 ESPIPE (Illegal seek)",
    );
    converted(&log).fails(
        1,
        &[
            "the recording is refused",
            "`lseek`, ended with success here and with ESPIPE",
        ],
    );
    let hint = "strace -f -y -s 4096 -o LOG PROGRAM";
    converted("nothing\n").fails(2, &["no calls on files of the directory", hint]);
    converted("mkdir(\"a\", 0755) = 0\n[pid 7] mkdir(\"b\", 0755) = 0\n")
        .fails(2, &["does not say of every call which task made it", hint]);
}

#[test]
fn without_strace_the_package_is_named() {
    Lm::new()
        .env("PATH", "/nonexistent")
        .args(["record", "--", "true"])
        .run()
        .fails(3, &["`strace` is not installed", "apt-get install strace"]);
}

/// A pipe in the tree is not recorded: the recording would not replay, and is not written.
#[test]
fn a_recording_that_does_not_replay_is_refused() {
    if !has("strace") {
        return skipped("strace is not installed");
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    record(lm, &["sh", "-c", "mkfifo p && test -p p"]).fails(
        1,
        &[
            "the recording is refused",
            "`stat p`, ended with ENOENT here and with success",
        ],
    );
    assert!(!dir.join("app.lmrec").exists());
}

/// A zstd frame of raw blocks.
fn packed(text: &[u8]) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend((text.len() as u32).to_le_bytes());
    let mut blocks = text.chunks(100_000).peekable();
    while let Some(block) = blocks.next() {
        let last = u32::from(blocks.peek().is_none());
        out.extend(&(last | (block.len() as u32) << 3).to_le_bytes()[..3]);
        out.extend(block);
    }
    out
}

#[test]
fn hostile_recordings_are_refused_by_number() {
    let head = |entries: u64, names: u64, calls: u64| {
        json!({"recording": {"format": 1, "version": "", "command": "", "seed": 1, "entries": entries, "names": names, "calls": calls, "tasks": 2, "files": 1}}).to_string()
    };
    let wait = |of: u32| {
        format!(
            "{{\"c\":{{\"t\":{},\"k\":\"stat\",\"p\":0,\"w\":[[{of},1]]}}}}\n",
            1 - of
        )
    };
    let good = "{\"n\":\"a\"}\n";
    let long = "x".repeat(4096);
    let all = [
        (
            head(10_000_000, 0, 0),
            "10000000 entries of its tree, and at most 1000000",
        ),
        (
            head(0, 1, 2) + "\n" + good + &wait(0) + &wait(1),
            "waits for itself",
        ),
        (
            head(0, 1, 0) + &format!("\n{{\"n\":\"{long}\"}}\n"),
            "a name has 4096 bytes, more than 4095",
        ),
        (
            head(0, 1, 0) + "\n{\"n\":\"../../etc/passwd\"}\n",
            "goes up",
        ),
        (
            head(1, 0, 0) + "\n{\"e\":{\"p\":\"l\",\"k\":\"l\",\"m\":511,\"to\":\"/etc\"}}\n",
            "is absolute",
        ),
        (
            head(0, 1, 1) + "\n" + good + "{\"c\":{\"k\":\"mkdir\",\"p\":0,\"a\":2541}}\n",
            "its mode is 2541",
        ),
        (
            String::from("{\"recording\":{\"format\":9"),
            "EOF while parsing",
        ),
    ];
    for (text, says) in all {
        Lm::new()
            .file("x.lmrec", packed(text.as_bytes()))
            .work_with(&["replay", "x.lmrec"], &["native"])
            .run()
            .fails(2, &[says])
            .left_nothing();
    }
    let lm = Lm::new().file("x.lmrec", "hello");
    fs::File::create(lm.dir.path().join("large.lmrec"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let said = lm
        .args(["replay", "x.lmrec"])
        .run()
        .fails(2, &["it is no recording"]);
    let said = said.then().args(["replay", "large.lmrec"]).run();
    let said = said.fails(2, &["1073741824 bytes, more than 268435456"]);
    said.then()
        .args(["replay"])
        .run()
        .fails(2, &["no recording", "layermark record"]);
}
