//! `--dir`: what cannot be worked in is refused, and nothing of the user's is touched.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::common::{self, Lm, READ, is_root, machine, needs_root, result, skipped, wait_for};

#[test]
fn a_directory_that_is_none_is_refused() {
    let read = [
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "-l",
        "tmpfs",
        "--dir",
    ];
    let absent = Lm::new().args(read).args(["absent"]).run();
    let said = absent.fails(2, &["absent", "does not exist", "mkdir -p absent"]);
    assert!(!said.dir.path().join("absent").exists());
    let file = Lm::new()
        .file("file", "precious")
        .args(read)
        .args(["file"])
        .run();
    let said = file.fails(2, &["file", "not a directory"]);
    assert_eq!(fs::read(said.dir.path().join("file")).unwrap(), b"precious");
    let proc = Lm::new().args(read).args(["/proc"]).run();
    assert!(matches!(proc.code, Some(2 | 4)), "{}", proc.stderr);
    proc.says("/proc").says("hint: ");
}

#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    if is_root() {
        skipped("root may write everywhere");
        return;
    }
    let read = [
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "-l",
        "tmpfs",
        "--dir",
    ];
    let words = ["cannot work in", "you may not write there", "--dir"];
    Lm::new().args(read).args(["/usr"]).run().fails(2, &words);
    // Our own, and yet not to be written: a user namespace would not stop us.
    let lm = Lm::new();
    let work = lm.work();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o555)).unwrap();
    let said = lm.args(read).args([&work]).run();
    said.fails(2, &words);
}

#[test]
fn a_read_only_file_system_is_refused() {
    let read_only = "mount -t tmpfs -o ro none $W";
    let Some(lm) = Lm::new().measure(&["tmpfs"]).around(read_only, "") else {
        return;
    };
    lm.run().fails(2, &["cannot work in", "read-only", "--dir"]);
}

#[test]
fn memory_is_not_taken_for_a_disk() {
    let memory = "mount -t tmpfs -o size=64m none $W";
    let lm = || Lm::new().measure(&["mock", "tmpfs"]);
    let Some(lm) = lm().around(memory, "ls $W") else {
        return;
    };
    // A mock as the baseline has no disk to be taken for another; native has.
    lm.run().says("report: ");
    let lm = Lm::new()
        .measure(&["tmpfs"])
        .args(["--json"])
        .around(memory, "")
        .unwrap();
    let error = lm
        .run()
        .fails(2, &["is in memory (tmpfs)", "--allow-tmpfs"]);
    assert_eq!(error.json()["code"], 2);
    let lm = Lm::new()
        .measure(&["mock", "native"])
        .args(["--allow-tmpfs"]);
    lm.around(memory, "ls $W").unwrap().run().prints("native");
}

/// Nobody wants root to work below what anybody may rename.
#[test]
fn root_refuses_a_directory_below_one_that_others_can_write() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let open = lm.work().join("open");
    let dir = open.join("dir");
    fs::create_dir_all(&dir).unwrap();
    let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
    let read = [
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "--blocks",
        "2",
        "--no-control",
    ];
    let words = ["open can be changed by other users", "chmod go-w"];
    mode(0o775);
    let said = lm
        .args(read)
        .args(["-l", "mock", "--dir"])
        .args([&dir])
        .run();
    let said = said.fails(2, &words);
    let work = open.parent().unwrap().to_owned();
    let layer = format!("dir:{}", dir.display());
    let lm = said.then().args(read).args(["-l", &layer, "--dir"]);
    let said = lm.args([&work]).run().fails(2, &words);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    // As /tmp is.
    mode(0o1777);
    let lm = said.then().args(read).args(["-l", &layer, "--dir"]);
    let said = lm.args([&dir]).run().says("report: ");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    drop(said);
}

/// Space is looked at before anything is written, with a tenth of the disk left over.
#[test]
fn a_full_disk_is_refused_before_the_run() {
    let full = "mount -t tmpfs -o size=8m none $W; head -c 8000000 /dev/zero > $W/theirs";
    let after = "cmp -n 8000000 $W/theirs /dev/zero && ls -A $W | wc -l | sed s/^/entries:/";
    let lm = Lm::new()
        .measure(&["fuse"])
        .args(["--allow-tmpfs", "--file-size", "4M"]);
    let Some(lm) = lm.around(full, after) else {
        return;
    };
    lm.run()
        .fails(2, &["too little space", "needed", "free", "10 %"])
        .prints("entries:1");
}

/// A read-only file system has no free space either, which was the complaint.
#[test]
fn a_directory_on_a_read_only_mount_is_refused_for_that() {
    let mount = "mkdir $W/ro; mount -t tmpfs -o size=1m,ro none $W/ro";
    let lm = Lm::new();
    let layer = format!("dir:{}/ro", lm.work().display());
    let lm = lm.measure(&[&layer]).around(mount, "umount $W/ro");
    let Some(lm) = lm else {
        return;
    };
    lm.run()
        .fails(2, &[&layer, "read-only file system", "-l dir:DIR"]);
}

#[test]
fn a_disk_whose_last_tenth_is_asked_for_is_refused() {
    let small = "mount -t tmpfs -o size=20m none $W";
    let lm = Lm::new()
        .measure(&["overlay:upper"])
        .args(["--allow-tmpfs", "--file-size", "9500K"]);
    let Some(lm) = lm.around(small, "") else {
        return;
    };
    lm.run().fails(2, &["too little space", "--scale"]);
}

#[test]
fn a_full_ext4_disk_is_refused() {
    if !needs_root() {
        return;
    }
    let full = "truncate -s 32M img; mkfs.ext4 -q -F -m 0 img; mount -o loop img $W; \
        head -c 100000000 /dev/zero > $W/theirs 2>/dev/null || true";
    let lm = Lm::new().measure(&["fuse"]).args(["--file-size", "1M"]);
    let lm = lm.around(full, "ls -A $W").expect("root");
    let said = lm.run().fails(2, &["too little space"]).prints("theirs");
    machine::nothing_left(said.dir.path(), &[]);
}

#[test]
fn files_in_the_directory_stay_as_they_are() {
    let lm = Lm::new().work_with(READ, &["tmpfs", "overlay:upper", "overlay:writecopy"]);
    let work = lm.work();
    fs::create_dir_all(work.join("layermark-results/packaged")).unwrap();
    fs::create_dir_all(work.join("packaged")).unwrap();
    for name in [
        "a file",
        "packaged/f0",
        "layermark-results/.layermark",
        "layermark-results/packaged/x",
        ".hidden",
    ] {
        fs::write(
            work.join(name),
            format!("{name} is precious\n").repeat(1000),
        )
        .unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", work.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", work.join("layermark-link")).unwrap();
    let before = machine::inventory(&work);
    assert_eq!(before.len(), 10);
    let said = lm
        .args(["--op", "write", "--op", "first-write", "--blocks", "3"])
        .run();
    assert!(matches!(said.code, Some(0 | 3)), "{}", said.stderr);
    assert_eq!(machine::inventory(&work), before);
}

#[test]
fn a_second_run_in_one_directory_is_refused_and_the_first_goes_on() {
    let first = Lm::new().measure(&["mock:take=20ms", "mock:ns=1500,take=20ms"]);
    let (work, first_args) = (first.work(), ["--precision", "1%", "--json"]);
    let (child, dir) = first.args(first_args).start();
    wait_for("the first run", || {
        machine::traces(dir.path(), &[]).into_iter().next()
    });
    let second = Lm::new().args([
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "-l",
        "mock",
        "--dir",
    ]);
    let second = second.args([&work]).run();
    second.fails(2, &["another", work.file_name().unwrap().to_str().unwrap()]);
    let said = common::Said::from(common::output(child), dir)
        .code(4)
        .left_nothing();
    result(
        &said.json(),
        "read 4K of 64K, warm",
        "mock:ns=1500,take=20ms",
    );
}

/// The work directory of a run that a power cut ended is removed by the next one.
#[test]
fn what_a_dead_run_has_left_is_removed() {
    let lm = Lm::new().mock();
    let dead = lm.work().join("layermark-0123456789");
    fs::create_dir(&dead).unwrap();
    let text = "A work directory of layermark. It is removed when its run ends.\n";
    fs::write(dead.join(".layermark"), text).unwrap();
    fs::write(dead.join("left over"), "x").unwrap();
    // Only what our own journal knows.
    let said = lm.run().code(4);
    assert!(dead.join("left over").exists());
    let known = said.dir.path().join("data/layermark/directories");
    assert_eq!(fs::read_dir(&known).unwrap().count(), 0);
    let entry = known.join(dead.file_name().unwrap());
    fs::write(&entry, "").unwrap();
    said.then().mock().run().code(4).left_nothing();
    assert!(!dead.exists() && !entry.exists());
}

#[test]
fn a_directory_with_a_strange_name_works() {
    let lm = Lm::new();
    let strange = lm.work().join("a b,c:d=e;$(touch x)\"'\\\t\u{e4}");
    fs::create_dir(&strange).unwrap();
    let read = [
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "--blocks",
        "8",
        "--no-control",
    ];
    let layers = [
        "-l",
        "tmpfs",
        "-l",
        "overlay:upper",
        "-l",
        "overlay:writecopy",
        "-l",
        "fuse",
        "--dir",
    ];
    let said = lm
        .args(read)
        .args(layers)
        .args([&strange])
        .args(["--json"])
        .run();
    let report = said.json();
    for layer in report["layers"].as_array().expect("layers") {
        let ready = layer["status"] == "ready";
        assert!(ready || !is_root(), "{layer:#}\n{}", said.stderr);
    }
    assert_eq!(fs::read_dir(&strange).unwrap().count(), 0);
    assert_eq!(fs::read_dir(strange.parent().unwrap()).unwrap().count(), 1);
}

/// FUSE keeps a removed file that is mapped, under another name: our own marker, in every session.
#[test]
fn nothing_of_ours_is_waited_for_in_a_fuse_mount_of_yours() {
    if !is_root() || !std::path::Path::new("/usr/bin/bindfs").exists() {
        return skipped("bindfs, mounted by root, is wanted: apt-get install bindfs");
    }
    let mount = "mkdir real mnt; bindfs real mnt";
    let look = "ls -A real >left";
    let lm = Lm::new().measure(&["dir:mnt"]);
    let Some(lm) = lm.around(mount, look) else {
        return;
    };
    let said = lm.run().left_nothing();
    assert!(
        matches!(said.code, Some(0 | 4)) && !said.stderr.contains("still has"),
        "{}",
        said.stderr
    );
    let left = fs::read_to_string(said.dir.path().join("left")).unwrap();
    assert_eq!(left, "", "{}", said.stderr);
}

/// A directory of the same path here is another one.
#[test]
fn a_path_through_another_process_is_measured_where_it_leads() {
    if !is_root() {
        return skipped("only root works in the mounts of another process");
    }
    // In namespaces of its own: a process that has a file system in memory where we have the disk, and
    // a file system there that nobody else has.
    let other = "mkdir theirs; unshare -m sh -c \
        'mount -t tmpfs -o size=77m theirs theirs; mkdir theirs/in; touch there; exec sleep 4716' & \
        until [ -e there ]; do kill -0 $!; sleep 0.01; done; ln -s /proc/$!/root$PWD/theirs/in link; \
        mkdir theirs/in; trap \"kill $!\" EXIT; \
        sed -i \"s|@|/proc/$!/root$PWD/theirs/in|\" plan.toml";
    let plan = "name = \"x\"\nlayers = [\"dir:@\"]\nblocks = 2\nsessions = 1\ncontrol = false\n\
        [[work]]\nworkload = \"file\"\nop = \"write\"\nfile_size = \"64K\"\n";
    let lm = Lm::new().plan(plan).args(["--json"]);
    let Some(lm) = lm.around(
        other,
        "ls -A theirs/in >left; $L file --op read --dir link >said 2>&1",
    ) else {
        return;
    };
    let said = lm.run();
    let report = said.json();
    let layers = report["layers"].as_array().expect("layers");
    let theirs = layers.iter().find(|l| l["spec"] != "native").expect("dir");
    let mount = &theirs["facts"]["mounts"][0];
    assert_eq!(mount["fs"], "tmpfs", "{report:#}\n{}", said.stderr);
    assert_eq!(mount["source"], "theirs", "{report:#}");
    let at = mount["at"].as_str().unwrap_or_default();
    assert!(at.starts_with("/proc/") && at.ends_with("/theirs"), "{at}");
    let read = |name: &str| fs::read_to_string(said.dir.path().join(name)).unwrap();
    assert_eq!(read("left"), "", "{}", said.stderr);
    // A link of the user's leads there too; it is not known to.
    let linked = read("said");
    assert!(
        linked.contains("mounts of another process") && linked.contains("hint: "),
        "{linked}"
    );
}
