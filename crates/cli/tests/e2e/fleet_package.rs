//! `one_package = true`: hosts of a fleet that use the same packaged files, and what goes wrong with one of them.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::Path};

use serde_json::Value;

use crate::{
    common::{self, Lm, Said, is_root, skipped, trials_stored, wait_for},
    fleet::{HERE, nothing_left, storm},
};

/// Files that all hosts read.
const READ: &str = "name = 'read'
turn = '50ms'
[[work]]
workload = 'file'
op = 'read'
record = '4K'
file_size = '64K'
one_package = true
";

/// A program that is well if it cannot write into its package. It is also run where it is packaged, with another root.
const WRITER: &str = r#"name = 'writer'
[[work]]
workload = 'launch'
command = """sh -c '[ / -ef /proc/1/root/ ] || { case $( (echo x >/marked) 2>&1 ) in *Read-only*) exit 0;; esac; exit 3; }'"""
package = true
one_package = true
"#;

/// mdtest's shared directory: names that all hosts make, and remove, in one directory of the share.
const TOGETHER: &str = "name = 'together'
turn = '50ms'
[[work]]
workload = 'meta'
op = ['create', 'unlink']
files = 50
one_directory = true
";

fn turns<'a>(json: &'a Value, place: &'a str) -> impl Iterator<Item = &'a Value> {
    let rounds = json["run"]["rounds"].as_array().expect("rounds").iter();
    let of = rounds.filter(move |r| r["place"] == place);
    of.flat_map(|r| r["turns"].as_array().expect("turns"))
}

fn lost(json: &Value) -> Vec<bool> {
    let hosts = json["hosts"].as_array().expect("hosts").iter();
    hosts.map(|h| h["lost"] == true).collect()
}

#[test]
fn hosts_make_and_remove_names_in_one_directory() {
    if !is_root() {
        return skipped("only root mounts everywhere");
    }
    let lm = storm(Lm::new(), HERE, "4").args(["--hosts", "a,b"]);
    let share = lm.work().join("share");
    let (child, home) = lm.file("plan.toml", TOGETHER).start();
    // Each pass of a host has names that begin alike: `hHEX-f7`.
    let hosts = || {
        let dirs = fs::read_dir(&share).into_iter().flatten().flatten();
        let of = |dir: fs::DirEntry| fs::read_dir(dir.path().join("together/d0")).ok();
        let names = dirs.filter_map(of).flatten().flatten();
        let begin = |e: fs::DirEntry| {
            let name = e.file_name().to_string_lossy().into_owned();
            name.split('-').next().map(str::to_owned)
        };
        names.filter_map(begin).collect::<BTreeSet<String>>()
    };
    wait_for("names of two hosts", || (hosts().len() >= 2).then_some(()));
    let said = Said::from(common::output(child), home).code(0);
    let json = said.json();
    assert_eq!(lost(&json), [false, false], "{:#}", json["hosts"]);
    let done = |t: &Value| t["error"].is_null() && t["ops"].as_u64() > Some(0);
    assert!(turns(&json, "share").all(done), "{json:#}");
    // Alone and both, in four blocks at two points.
    assert_eq!(turns(&json, "share").count(), 4 * 2 * 3);
    let label = json["points"][0]["label"].as_str().expect("text");
    assert!(label.contains("one directory of all hosts"), "{label}");
    nothing_left(&share);
}

/// The first one makes the package, in a directory that only it has.
#[test]
fn a_host_without_the_share_is_the_only_one_that_is_lost() {
    if !is_root() {
        return skipped("only root mounts everywhere");
    }
    let lm = Lm::new().file("plan.toml", READ);
    let work = lm.work();
    for dir in ["at-a", "common"] {
        fs::create_dir(work.join(dir)).expect("a directory");
    }
    for host in ["at-b", "at-c"] {
        symlink(work.join("common"), work.join(host)).expect("a link");
    }
    let path = |name: &str| work.join(name).to_str().expect("UTF-8").to_owned();
    let said = lm
        .args(["fleet", "run", "plan.toml", "--launcher", HERE])
        .args(["--hosts", "a,b,c", "--blocks", "2", "--json"])
        .args(["--dir", &path(""), "--share", &path("at-{host}")])
        .run()
        .code(0);
    let json = said.json();
    assert_eq!(lost(&json), [true, false, false], "{:#}", json["hosts"]);
    let text = json["hosts"][0]["text"].as_str().expect("text");
    let says = "does not see the package that `c` has put into";
    assert!(
        text.replace('`', "").contains(&says.replace('`', "")),
        "{text}"
    );
    let mut all = turns(&json, "share");
    assert!(
        all.all(|t| t["error"].is_null() && t["host"] != 0),
        "{json:#}"
    );
    assert!(turns(&json, "share").count() >= 2 * 3);
    for dir in ["at-a", "common", ""] {
        nothing_left(&work.join(dir));
    }
}

/// Root's files belong to nobody there, as on NFS with `root_squash`.
#[test]
fn a_share_that_takes_roots_files_for_nobodys_has_one_package_too() {
    if !is_root() || !Path::new("/usr/bin/bindfs").exists() {
        return skipped("only root mounts, and bindfs is not installed everywhere");
    }
    let before = "mkdir -p $W/real $W/share; \
        bindfs --create-for-user=nobody --create-for-group=nogroup $W/real $W/share; \
        : >$W/share/probe; stat -c %U $W/share/probe >owner; rm $W/share/probe";
    let lm = storm(Lm::new(), HERE, "2").args(["--hosts", "a,b"]);
    let lm = lm.file("plan.toml", READ);
    let Some(lm) = lm.around(before, "ls -A $W/real >left; umount $W/share") else {
        return;
    };
    let said = lm.run().code(0);
    let read = |name: &str| fs::read_to_string(said.dir.path().join(name)).expect(name);
    assert_eq!(read("owner").trim(), "nobody");
    let json = said.json();
    assert_eq!(lost(&json), [false, false], "{:#}", json["hosts"]);
    assert!(
        turns(&json, "share").all(|t| t["error"].is_null()),
        "{json:#}"
    );
    assert_eq!(read("left"), "");
}

#[test]
fn a_program_cannot_write_into_the_package_of_all_hosts() {
    if !is_root() {
        return skipped("only root mounts everywhere");
    }
    let lm = storm(Lm::new(), HERE, "3").args(["--hosts", "a,b"]);
    let share = lm.work().join("share");
    let (child, home) = lm.file("plan.toml", WRITER).start();
    let root = wait_for("the package, and rounds of a whole block", || {
        let dirs = fs::read_dir(&share).into_iter().flatten().flatten();
        let mut of = dirs.map(|dir| dir.path().join("packaged/root"));
        let root = of.find(|root| root.exists());
        root.filter(|_| trials_stored(home.path()) > 5)
    });
    let has = |name: &str| fs::symlink_metadata(root.join(name)).is_ok();
    assert!(has("usr") && !has("marked"));
    let said = Said::from(common::output(child), home);
    let json = said.json();
    let mut shared = turns(&json, "share");
    assert!(shared.all(|t| t["error"].is_null()), "{json:#}");
    // A host's own copy is its own.
    let mut own = turns(&json, "own");
    let ended = |t: &Value| {
        t["error"]
            .as_str()
            .is_some_and(|e| e.contains("exit code 3"))
    };
    assert!(own.all(ended), "{json:#}");
}

/// The master copy is made below the own directory first.
#[test]
fn a_host_whose_own_disk_has_no_room_for_the_package_does_not_make_it() {
    let before = "mkdir -p $W/a $W/b $W/c $W/share; mount -t tmpfs -o size=16m none $W/a";
    let lm = Lm::new().file("plan.toml", READ.replace("64K", "20M"));
    let path = |p: &Path| p.to_str().expect("UTF-8").to_owned();
    let (dir, share) = (lm.work().join("{host}"), lm.work().join("share"));
    let lm = lm
        .args(["fleet", "run", "plan.toml", "--launcher", HERE])
        .args(["--hosts", "a,b,c", "--blocks", "1", "--json"])
        .args(["--dir", &path(&dir), "--share", &path(&share)])
        .around(before, "");
    let Some(lm) = lm else { return };
    let json = lm.run().code(0).json();
    assert_eq!(lost(&json), [true, false, false], "{:#}", json["hosts"]);
    let text = json["hosts"][0]["text"].as_str().expect("text");
    for says in ["has too little space", "needed", "hint: "] {
        assert!(text.contains(says), "{says}: {text}");
    }
}
