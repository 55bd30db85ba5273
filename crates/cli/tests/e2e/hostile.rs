//! Another user, who owns `--dir` and what a `dir:` layer is made in, puts other things in the place
//! of what root works in: nothing outside is touched, and nothing is left.
//!
//! A round is one swap that took place while layermark was at work: a directory that it made, or one
//! above it, exchanged in one step (`RENAME_EXCHANGE`) for a link to the victim's files, a directory
//! full of such links, or a file. Several rounds are made in a run, at random moments; the last of
//! each run stays, so that layermark ends while the wrong thing is at its path. Every third run is
//! killed at a random moment, and its janitor removes what is left.
//!
//! `LAYERMARK_SWAPS` is how many rounds there are at least (100), `LAYERMARK_SEED` draws them.

mod files;
mod limits;
mod reach;
mod shells;

use std::{
    fs,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, chown},
            net::{SocketAddr, UnixDatagram},
        },
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::common::{self, Lm, is_root, machine, output, skipped};
use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with,
        symlinkat, unlinkat,
    },
    io::Errno,
    process::{Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

const ROUNDS: u32 = 100;
const ROUNDS_OF_A_RUN: u32 = 14;
const NOBODY: u32 = 65534;

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn pause(&mut self, longest_ms: u64) {
        thread::sleep(Duration::from_micros(self.below(longest_ms * 1000)));
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    /// Swaps that took place, by what was swapped.
    work: u32,
    layer: u32,
    above: u32,
    /// Tries that the kernel refused: mount points, and what lies in a directory of root's.
    refused: u32,
}

impl Tally {
    fn rounds(self) -> u32 {
        self.work + self.layer + self.above
    }
}

/// Only this thread becomes another user: to the kernel it is a process of its own.
fn become_nobody() {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[]).expect("setgroups");
    set_thread_res_gid(gid, gid, gid).expect("setresgid");
    set_thread_res_uid(uid, uid, uid).expect("setresuid");
}

/// What nobody may do: everything in `home` is theirs but what layermark makes there.
struct Attack<'a> {
    home: &'a OwnedFd,
    victim: &'a Path,
    random: Random,
    tally: Tally,
    baits: u32,
}

impl Attack<'_> {
    /// Goes on until `over`, or until as many rounds were made as a run is to have.
    fn go(mut self, over: &AtomicBool) -> Tally {
        become_nobody();
        let mut stays = false;
        while !over.load(Ordering::Relaxed) && !stays {
            self.random.pause(60);
            stays = self.tally.rounds() + 1 >= ROUNDS_OF_A_RUN;
            let made = match self.random.below(8) {
                0 => self.above(stays),
                1 | 2 => self.below("nas", stays),
                3 => self.refused(),
                _ => self.below("work", stays),
            };
            stays &= made;
        }
        self.tally
    }

    fn open(&self, name: &str) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        openat(self.home, name, flags, Mode::empty()).ok()
    }

    /// Swaps a directory that layermark has made in `dir`.
    fn below(&mut self, dir: &str, stays: bool) -> bool {
        let Some(at) = self.open(dir) else {
            return false;
        };
        let Some(name) = ours(&at).into_iter().next() else {
            return false;
        };
        let made = self.swap(&at, &name, stays);
        if dir == "nas" {
            self.tally.layer += u32::from(made);
        } else {
            self.tally.work += u32::from(made);
        }
        made
    }

    /// Swaps what the user has named.
    fn above(&mut self, stays: bool) -> bool {
        let name = ["work", "nas"][self.random.below(2) as usize];
        let home = self.home;
        let made = self.swap(home, name, stays);
        self.tally.above += u32::from(made);
        made
    }

    fn swap(&mut self, at: &OwnedFd, name: &str, stays: bool) -> bool {
        self.baits += 1;
        let bait = format!("bait-{}", self.baits);
        match self.random.below(4) {
            0 => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                openat(at, &*bait, flags, Mode::RUSR).expect("a file");
            }
            1 => {
                mkdirat(at, &*bait, Mode::from_raw_mode(0o777)).expect("a directory");
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let dir = openat(at, &*bait, flags, Mode::empty()).expect("a directory");
                for inside in ["s0-0", "s0-1", "s0-2", "packaged", "work", ".layermark"] {
                    symlinkat(self.victim.join("tree"), &dir, inside).expect("a link");
                }
            }
            _ => symlinkat(self.victim, at, &*bait).expect("a link"),
        }
        let exchange = || renameat_with(at, name, at, &*bait, RenameFlags::EXCHANGE);
        // Gone meanwhile: no round.
        let made = exchange().is_ok();
        if made && !stays {
            self.random.pause(25);
            // It may have been removed at its other name.
            if exchange().is_err() {
                let _ = renameat(at, name, at, format!("{bait}-back"));
            }
        }
        made
    }

    /// What must not succeed: the mount points, and whatever is in a directory of root's.
    fn refused(&mut self) -> bool {
        let mut tried = |outcome: Result<(), Errno>, what: &str| match outcome {
            Ok(()) => panic!("nobody could move {what}"),
            // Nothing there: nothing was tried.
            Err(Errno::NOENT) => {}
            Err(_) => self.tally.refused += 1,
        };
        let run = openat(
            CWD,
            "/run",
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        );
        let run = run.expect("/run");
        for name in ours(&run) {
            tried(renameat(&run, &*name, &run, "bait"), &name);
            tried(unlinkat(&run, &*name, AtFlags::REMOVEDIR), &name);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        if let Ok(work) = openat(self.home, "work", flags, Mode::empty()) {
            for name in ours(&work) {
                for inside in ["s0-0", "s0-1/mnt", "s0-1/upper", "packaged", ".layermark"] {
                    let path = format!("{name}/{inside}");
                    tried(renameat(&work, &*path, &work, "bait"), &path);
                }
            }
        }
        false
    }
}

/// Names that layermark has given in a directory.
fn ours(at: &OwnedFd) -> Vec<String> {
    let dir = rustix::fs::Dir::read_from(at).into_iter().flatten();
    dir.flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("layermark-"))
        .collect()
}

/// What root has left in what is nobody's.
fn left(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.path().symlink_metadata() else {
            continue;
        };
        if meta.uid() != NOBODY {
            found.push(entry.path());
        } else if meta.is_dir() {
            found.extend(left(&entry.path()));
        }
    }
    found
}

/// The directory of nobody's, afresh.
fn lay_out(home: &Path) {
    for name in ["work", "nas"] {
        let dir = home.join(name);
        fs::create_dir(&dir).expect("a directory");
        chown(&dir, Some(NOBODY), Some(NOBODY)).expect("chown");
    }
}

fn victim_in(dir: &Path) -> PathBuf {
    let victim = dir.join("victim");
    for inside in [
        "tree/packaged",
        "tree/work",
        "s0-0/packaged",
        "s0-1/upper",
        "packaged",
    ] {
        let inside = victim.join(inside);
        fs::create_dir_all(&inside).expect("a directory");
        for n in 0..4 {
            fs::write(inside.join(format!("precious-{n}")), format!("{n}")).expect("a file");
        }
    }
    victim
}

/// One run with its attack; how it ended, `None` if it was killed.
fn one_run(
    dir: &Path,
    victim: &Path,
    random: &mut Random,
    kill: bool,
) -> (Tally, Option<(Option<i32>, String)>) {
    let home = dir.join("home");
    lay_out(&home);
    let fd = openat(
        CWD,
        &home,
        OFlags::RDONLY | OFlags::DIRECTORY,
        Mode::empty(),
    )
    .expect("home");
    let named = format!("dir:{}", home.join("nas").display());
    let more = ["overlay:upper", "fuse", "tmpfs", "overlay:writecopy"][random.below(4) as usize];
    let (child, own) = Lm::new()
        .args([
            "file",
            "--op",
            "read",
            "--op",
            "write",
            "--file-size",
            "64K",
            "--no-control",
        ])
        .args(["--blocks", "2", "-l", &named, "-l", more, "--dir"])
        .args([home.join("work")])
        .start();
    let mut child = child;
    let over = AtomicBool::new(false);
    let attack = Attack {
        home: &fd,
        victim,
        random: Random(random.below(u64::MAX)),
        tally: Tally::default(),
        baits: 0,
    };
    let (tally, ended) = thread::scope(|scope| {
        let attacker = scope.spawn(|| attack.go(&over));
        let ended = if kill {
            thread::sleep(Duration::from_millis(100));
            random.pause(900);
            let family = machine::family(child.id());
            child.kill().expect("kill");
            child.wait().expect("wait");
            over.store(true, Ordering::Relaxed);
            machine::wait_for_end(&family);
            None
        } else {
            let said = output(child);
            over.store(true, Ordering::Relaxed);
            let words = String::from_utf8_lossy(&said.stderr).into_owned();
            Some((said.status.code(), words))
        };
        (attacker.join().expect("the attacker"), ended)
    });
    drop(own);
    (tally, ended)
}

#[test]
fn another_user_who_swaps_directories_gains_nothing() {
    if !is_root() {
        skipped("only root has another user to be attacked by, and something to lose");
        return;
    }
    let seed = std::env::var("LAYERMARK_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    // What passes once passes again, as far as the kernel's scheduling lets it.
    let seed = seed.unwrap_or(1);
    eprintln!("hostile: LAYERMARK_SEED={seed}");
    let rounds = std::env::var("LAYERMARK_SWAPS").map_or(ROUNDS, |n| n.parse().expect("rounds"));
    let dir = common::disk_dir();
    let victim = victim_in(dir.path());
    let before = machine::inventory(&victim);
    let mut random = Random(seed);
    let (mut all, mut good, mut ended, mut runs) = (Tally::default(), 0, 0, 0);
    while all.rounds() < rounds {
        assert!(runs < rounds, "{all:?} after {runs} runs");
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("a directory");
        chown(&home, Some(NOBODY), Some(NOBODY)).expect("chown");
        let (tally, end) = one_run(dir.path(), &victim, &mut random, runs % 3 == 2);
        runs += 1;
        all.work += tally.work;
        all.layer += tally.layer;
        all.above += tally.above;
        all.refused += tally.refused;
        assert_eq!(machine::inventory(&victim), before, "{tally:?} {end:?}");
        // Swapped between its making and its opening, a directory is never seen again.
        let lost = |dir: &PathBuf| fs::read_dir(dir).is_ok_and(|mut d| d.next().is_none());
        let disturbed = end
            .as_ref()
            .is_none_or(|(code, _)| !matches!(code, Some(0 | 4)));
        let left: Vec<_> = left(&home)
            .into_iter()
            .filter(|path| !(disturbed && lost(path)))
            .collect();
        assert!(left.is_empty(), "left: {left:?} after {tally:?} {end:?}");
        if let Some((code, words)) = end {
            assert!(!words.contains("panicked"), "{words}");
            // A run may find that it cannot begin; it does not fail in any other way.
            assert!(matches!(code, Some(0 | 2 | 3 | 4)), "{code:?} {words}");
            ended += 1;
            good += u32::from(matches!(code, Some(0 | 4)));
        }
        fs::remove_dir_all(&home).expect("clean up");
    }
    machine::nothing_left(dir.path(), &[]);
    eprintln!("hostile: {all:?} in {runs} runs, {good} of {ended} undisturbed");
    assert!(good > 0, "{good} of {ended} runs measured anything");
    assert!(
        all.work > 0 && all.layer > 0 && all.above > 0 && all.refused > 0,
        "{all:?}"
    );
}

/// Whoever reads `/proc/net/unix` knows where a launched program reports that it is ready.
#[test]
fn nobody_else_can_say_that_a_launched_program_is_ready() {
    if !is_root() {
        return skipped("only root becomes another user");
    }
    let args = [
        "-l",
        "native",
        "--no-control",
        "--runs",
        "1",
        "--timeout",
        "3s",
        "--ready",
        "notify",
        "--json",
        "--",
        "sleep",
        "60",
    ];
    let lm = Lm::new();
    let work = lm.work();
    let (child, dir) = lm.args(["launch", "--dir"]).args([work]).args(args).start();
    let (over, said) = (AtomicBool::new(false), AtomicBool::new(false));
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            become_nobody();
            let socket = UnixDatagram::unbound().expect("a socket");
            while !over.load(Ordering::Relaxed) {
                let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
                for name in sockets.lines().filter_map(|l| l.split_once(" @layermark/")) {
                    let name = format!("layermark/{}", name.1);
                    let at = SocketAddr::from_abstract_name(name).expect("an address");
                    let sent = socket.send_to_addr(b"READY=1", &at);
                    said.fetch_or(sent.is_ok(), Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let output = output(child);
        over.store(true, Ordering::Relaxed);
        output
    });
    let said_by_us = common::Said::from(output, dir);
    assert!(
        said.into_inner(),
        "it was never said: {}",
        said_by_us.stderr
    );
    let told = format!("{}{}", said_by_us.stderr, said_by_us.stdout);
    assert!(told.contains("was not ready (notify) after"), "{told}");
}
