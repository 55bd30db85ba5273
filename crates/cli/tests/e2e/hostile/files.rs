//! What another user has put where root writes a report, keeps a store, or reads a plan.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
    path::Path,
};

use super::NOBODY;
use crate::common::{Lm, base, history, is_root, listed_commands, skipped};

fn needs_root() -> bool {
    if !is_root() {
        skipped("only root has another user to be attacked by");
    }
    is_root()
}

fn directory(path: &Path, mode: u32) {
    fs::create_dir(path).expect("a directory");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// A stored run.
fn made() -> Lm {
    Lm::new().mock().run().code(4).then()
}

#[test]
fn a_report_is_ours_whatever_stood_there() {
    if !needs_root() {
        return;
    }
    let lm = made();
    let shared = lm.dir.path().join("shared");
    directory(&shared, 0o1777);
    let report = shared.join("r.html");
    // Their file, empty or with a report of ours in it.
    for text in ["", "<!DOCTYPE html>"] {
        fs::write(&report, text).expect("a file");
        chown(&report, Some(NOBODY), Some(NOBODY)).expect("chown");
        let said = Lm::with(lm.dir.path())
            .args(["report", "-o", "shared/r.html"])
            .run();
        said.fails(2, &["shared/r.html", "belongs to another user", "--force"]);
        assert_eq!(fs::read_to_string(&report).expect("it is theirs"), text);
    }
    fs::set_permissions(&report, Permissions::from_mode(0o666)).expect("a mode");
    let forced = ["report", "-o", "shared/r.html", "--force"];
    Lm::with(lm.dir.path()).args(forced).run().code(0);
    let meta = fs::metadata(&report).expect("a report");
    assert_eq!(
        (meta.uid(), meta.mode() & 0o022),
        (0, 0),
        "they may write to it"
    );
    // Again: it is ours now.
    let again = Lm::with(lm.dir.path()).args(["report", "-o", "shared/r.html"]);
    again.run().code(0);
}

#[test]
fn a_report_is_not_led_elsewhere() {
    if !needs_root() {
        return;
    }
    let lm = made();
    let home = lm.dir.path();
    directory(&home.join("victim"), 0o755);
    directory(&home.join("shared"), 0o1777);
    directory(&home.join("open"), 0o777);
    let link = home.join("shared/link");
    symlink(home.join("victim"), &link).expect("a link");
    lchown(&link, Some(NOBODY), Some(NOBODY)).expect("lchown");
    for (to, why) in [
        ("shared/link/r.html", "is a symbolic link of another user"),
        ("open/r.html", "can be changed by other users"),
    ] {
        let said = Lm::with(home).args(["report", "-o", to, "--force"]).run();
        said.fails(2, &[to, why]);
    }
    assert_eq!(
        fs::read_dir(home.join("victim")).expect("victim").count(),
        0
    );
    assert_eq!(fs::read_dir(home.join("open")).expect("open").count(), 0);
    // Our own link is followed, and a directory of theirs that is not open to all may be named.
    symlink("victim", home.join("ours")).expect("a link");
    directory(&home.join("theirs"), 0o755);
    chown(home.join("theirs"), Some(NOBODY), Some(NOBODY)).expect("chown");
    for to in ["ours/r.html", "theirs/r.html"] {
        Lm::with(home).args(["report", "-o", to]).run().code(0);
    }
    assert!(home.join("victim/r.html").exists());
}

#[test]
fn a_store_is_not_kept_where_others_may_put_files() {
    let lm = made();
    let shared = lm.dir.path().join("shared");
    directory(&shared, 0o1777);
    let victim = lm.dir.path().join("nologin");
    symlink(&victim, shared.join("x.db-lock")).expect("a link");
    let said = lm.mock().args(["--store", "shared/x.db"]).run();
    let said = said.fails(2, &["shared", "can be changed by other users", "--store"]);
    assert!(!victim.exists() && !shared.join("x.db").exists());
    // The default store is ours alone.
    let data = said.dir.path().join("data/layermark");
    let mode = |path: &Path| fs::metadata(path).expect("a file").mode() & 0o777;
    assert_eq!(
        (mode(&data), mode(&data.join("layermark.db"))),
        (0o700, 0o600)
    );
    fs::set_permissions(data.join("layermark.db"), Permissions::from_mode(0o644)).expect("a mode");
    let said = said
        .then()
        .mock()
        .run()
        .code(4)
        .says("it is yours alone now (mode 0600)");
    assert_eq!(history(said.dir.path()).len(), 2);
}

/// No test depends on the rights of the clone: what other users must reach lies elsewhere.
#[test]
fn other_users_reach_the_directories_of_tests() {
    let all = base();
    for dir in all.ancestors() {
        let mode = fs::metadata(dir).expect("a directory").mode();
        assert!(mode & 0o001 != 0, "{}: {mode:o}", dir.display());
    }
}

/// A lock of another user's on a directory says nothing of a run.
#[test]
fn a_lock_on_the_directory_refuses_no_run() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    fs::set_permissions(lm.dir.path(), Permissions::from_mode(0o755)).expect("a mode");
    let before = "exec 9</dev/null; setpriv --reuid=65534 --regid=65534 --clear-groups \
        sh -c 'exec 8<$W; flock 8; exec sleep 60' >/dev/null 2>&1 & other=$!; \
        until ! flock --nonblock $W true; do kill -0 $other; sleep 0.05; done;";
    let Some(lm) = lm.mock().around(before, "kill $other") else {
        return;
    };
    lm.run().code(4).left_nothing();
}

const LAUNCH: &str = "name = 'theirs'\nlayers = ['native']\nblocks = 1\ncontrol = false\n\
    [[work]]\nworkload = 'launch'\ncommand = 'sh -c \"touch ran\"'\n";

#[test]
fn programs_of_another_users_plan_run_only_when_they_are_allowed() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new().plan(LAUNCH);
    let plan = lm.dir.path().join("plan.toml");
    chown(&plan, Some(NOBODY), Some(NOBODY)).expect("chown");
    let named = [
        "plan plan.toml can be changed by other users",
        "touch ran",
        "--allow-programs",
    ];
    let said = lm.run().fails(2, &named);
    assert!(history(said.dir.path()).is_empty());
    chown(&plan, Some(0), Some(0)).expect("chown");
    let mut lm = said.then();
    for mode in [0o666, 0o644] {
        fs::set_permissions(&plan, Permissions::from_mode(mode)).expect("a mode");
        let said = lm.args(["run", "plan.toml", "--dir", "work"]).run();
        lm = if mode == 0o666 {
            said.fails(2, &named)
        } else {
            said.code(0)
        }
        .then();
    }
    // A store of theirs, where the run of ours now is.
    let store = lm.store();
    chown(&store, Some(NOBODY), Some(NOBODY)).expect("chown");
    for flags in [["--replay", "last"], ["--resume", "last"]] {
        let said = Lm::with(lm.dir.path()).args(["run"]).args(flags).run();
        said.fails(2, &["in the store", "touch ran", "--allow-programs"]);
    }
    let allowed = [
        "run",
        "--replay",
        "last",
        "--allow-programs",
        "--store",
        "new.db",
    ];
    fs::copy(&store, lm.dir.path().join("new.db")).expect("a copy");
    chown(lm.dir.path().join("new.db"), Some(NOBODY), Some(NOBODY)).expect("chown");
    lm.args(allowed).run().code(0);
}

/// Whoever owns the directory around it renames root's own directory, to which everybody may add files, to the name of
/// a work directory, even of a run that has died, and writes a marker into it.
#[test]
fn what_another_user_dresses_up_as_a_dead_run_stays() {
    if !needs_root() {
        return;
    }
    let lm = made();
    let name = "layermark-0123456789abcdef";
    let dressed = lm.work().join(name);
    chown(lm.work(), Some(NOBODY), Some(NOBODY)).expect("chown");
    directory(&dressed, 0o1777);
    directory(&dressed.join("of-root"), 0o700);
    let precious = dressed.join("of-root/data");
    fs::write(&precious, "precious").expect("a file");
    let marker = dressed.join(".layermark");
    let text = "A work directory of layermark. It is removed when its run ends.\n";
    fs::write(&marker, text).expect("a marker");
    chown(&marker, Some(NOBODY), Some(NOBODY)).expect("chown");
    let run = || Lm::with(lm.dir.path()).mock().run().code(4);
    run();
    assert!(precious.exists(), "the journal does not know it");
    let entry = lm.dir.path().join("data/layermark/directories").join(name);
    fs::write(&entry, "").expect("an entry");
    run();
    assert!(precious.exists(), "others may write there");
    fs::set_permissions(&dressed, Permissions::from_mode(0o755)).expect("a mode");
    run();
    assert!(precious.exists(), "the marker is of another user");
    chown(&marker, Some(0), Some(0)).expect("chown");
    run();
    assert!(!dressed.exists() && !entry.exists(), "now it is ours");
}

/// Commands that write a file which the user names: the words before its name.
const WRITERS: &[&[&str]] = &[
    &["run", "plan.toml", "--dir", "work", "-o"],
    &["run", "--replay", "last", "-o"],
    &["run", "--resume", "last", "-o"],
    &["file", "-l", "mock", "--dir", "work", "-o"],
    &["file", "-l", "mock", "--dir", "work", "--events"],
    &["iops", "-l", "mock", "--dir", "work", "-o"],
    &["meta", "-l", "mock", "--dir", "work", "-o"],
    &["mmap-fault", "-l", "mock", "--dir", "work", "-o"],
    &["lock", "-l", "mock", "--dir", "work", "-o"],
    &["db", "-l", "mock", "--dir", "work", "-o"],
    &["coherence", "-l", "mock", "--dir", "work", "-o"],
    &["net", "-l", "mock", "--dir", "work", "-o"],
    &["ftp", "-l", "mock", "--dir", "work", "-o"],
    &["http", "-l", "mock", "--dir", "work", "-o"],
    &["devload", "-l", "mock", "--dir", "work", "-o"],
    &["launch", "true", "--dir", "work", "-o"],
    &["launch", "true", "--dir", "work", "--export-json"],
    &["steps", "true", "--dir", "work", "-o"],
    &["why", "true", "-l", "mock", "--dir", "work", "-o"],
    &["replay", "--recording", "", "--dir", "work", "-o"],
    &[
        "record",
        "--from-strace",
        "times.json",
        "--tree",
        "work",
        "-o",
    ],
    &[
        "fleet",
        "run",
        "--launcher",
        "env HOST={host}",
        "--hosts",
        "n1",
        "--share",
        "/tmp",
        "-o",
    ],
    &[
        "fleet",
        "check",
        "--launcher",
        "env HOST={host}",
        "--hosts",
        "n1",
        "--junit",
    ],
    &["durability", "-l", "mock", "--dir", "work", "-o"],
    &["durability", "record", "work", "--records", "1", "--to"],
    &["compare", "last", "last", "-o"],
    &["report", "last", "-o"],
    &["import", "times.json", "--beside", "last", "-o"],
    &[
        "history",
        "--trend",
        "read 4K of 64K, warm",
        "mock:ns=1500",
        "-o",
    ],
    &["man"],
];
/// Commands that write none.
const NO_WRITERS: [&str; 10] = [
    "safe",
    "config",
    "plans",
    "layers",
    "serve",
    "selftest",
    "schema",
    "completions",
    "docs",
    "help",
];

#[test]
fn every_command_that_writes_files_follows_no_link_of_another_user() {
    if !needs_root() {
        return;
    }
    let lm = made();
    let home = lm.dir.path();
    let help = Lm::with(home).args(["--help"]).run();
    let all = listed_commands(&help.stdout);
    let known = |name: &&String| {
        NO_WRITERS.contains(&name.as_str()) || WRITERS.iter().any(|words| words[0] == **name)
    };
    let unknown: Vec<_> = all.iter().filter(|name| !known(name)).collect();
    assert!(
        all.len() > 20 && unknown.is_empty(),
        "which files do they write? {unknown:?} of {all:?}"
    );
    let times = r#"{"results":[{"command":"true","mean":0.1,"stddev":0.01,"times":[0.1,0.1]}]}"#;
    fs::write(home.join("times.json"), times).expect("a file");
    fs::write(home.join("plan.toml"), LAUNCH).expect("a plan");
    let victim = home.join("victim");
    fs::write(&victim, "secret of root").expect("a file");
    // The owner of one directory puts links there; in the other everybody may replace files.
    for (dir, mode) in [("theirs", 0o755), ("open", 0o777)] {
        directory(&home.join(dir), mode);
        chown(home.join(dir), Some(NOBODY), Some(NOBODY)).expect("chown");
        for name in ["o.html", "layermark.1"] {
            let link = home.join(dir).join(name);
            symlink(&victim, &link).expect("a link");
            lchown(&link, Some(NOBODY), Some(NOBODY)).expect("lchown");
        }
        for words in WRITERS {
            let to = match words.last() {
                Some(&"man") => dir.to_owned(),
                Some(&"--events") => format!("jsonl:{dir}/o.html"),
                _ => format!("{dir}/o.html"),
            };
            // Without it, a log is refused on the tested disk.
            let forced: &[&[&str]] = match words.last() {
                Some(&"--to") => &[&["--force"]],
                // Never replaces a file.
                Some(&"--events") => &[&[]],
                _ => &[&[], &["--force"]],
            };
            for force in forced {
                let said = Lm::with(home).args(*words).args([&to]).args(*force).run();
                let why = if dir == "open" {
                    "can be changed by other users"
                } else {
                    "symbolic link"
                };
                let what = format!("{words:?} {to} {force:?}");
                assert_eq!(said.code, Some(2), "{what}: {}", said.stderr);
                assert!(said.stderr.contains(why), "{what}: {}", said.stderr);
                let text = fs::read_to_string(&victim).expect("victim");
                assert_eq!(text, "secret of root", "{what}");
            }
        }
        let left = fs::read_dir(home.join(dir)).expect("a directory").count();
        assert_eq!(left, 2, "nothing is written in {dir}");
    }
}
