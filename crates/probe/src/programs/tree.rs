//! The process tree of a program: its members, their resources, and their end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, Instant},
};

use layermark_model::{CpuUse, Stopped};
use rustix::process::{Pid, Signal, kill_process};

use super::sys::{self, Reaped};

/// Interval of checks for processes that were told to end.
const LOOK: Duration = Duration::from_millis(2);
/// Killed processes must have ended after this time.
const KILLED: Duration = Duration::from_secs(10);

/// All descendants of this process, which reaps them.
#[derive(Debug, Default)]
pub struct Tree {
    /// Processes that do not belong to the program, with their children.
    pub spared: BTreeSet<u32>,
    /// The program's own process.
    pub main: Option<u32>,
    /// Exit code of the program's own process, when it has ended.
    pub code: Option<i32>,
    ended: Sum,
}

/// Resources used by processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub processes: u64,
    pub cpu: CpuUse,
    pub major_faults: u64,
    pub input_blocks: u64,
    pub read_bytes: u64,
    pub peak_bytes: u64,
}

/// A line of `/proc/PID/stat` (proc(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stat {
    parent: u32,
    major_faults: u64,
    cpu: CpuUse,
    zombie: bool,
}

impl Tree {
    /// Forgets processes that have ended.
    pub fn clear(&mut self) {
        *self = Self {
            spared: std::mem::take(&mut self.spared),
            ..Self::default()
        };
    }

    /// Reaps all processes that have ended and adds up their resources.
    pub fn reap(&mut self) {
        while let Some(ended) = sys::reap() {
            let pid = ended.pid as u32;
            if self.spared.contains(&pid) {
                continue;
            }
            self.add(&ended);
        }
    }

    fn add(&mut self, ended: &Reaped) {
        if self.main == Some(ended.pid as u32) {
            self.code = Some(ended.code);
        }
        let sum = &mut self.ended;
        sum.processes += 1;
        sum.cpu.user_ns += ended.cpu.user_ns;
        sum.cpu.sys_ns += ended.cpu.sys_ns;
        sum.major_faults += ended.major_faults;
        sum.input_blocks += ended.input_blocks;
        sum.peak_bytes = sum.peak_bytes.max(ended.max_rss);
    }

    /// Resources that the tree has used so far. Zombies are read before they are reaped, because
    /// nothing else shows how much they have read.
    pub fn used(&mut self) -> Sum {
        let living = self.living();
        self.reap();
        let ended = self.ended;
        Sum {
            processes: living.processes + ended.processes,
            cpu: CpuUse {
                user_ns: living.cpu.user_ns + ended.cpu.user_ns,
                sys_ns: living.cpu.sys_ns + ended.cpu.sys_ns,
            },
            major_faults: living.major_faults + ended.major_faults,
            input_blocks: living.input_blocks + ended.input_blocks,
            read_bytes: living.read_bytes,
            peak_bytes: living.peak_bytes.max(ended.peak_bytes),
        }
    }

    /// Resources of the processes that have not been reaped.
    pub fn living(&self) -> Sum {
        let mut living = Sum::default();
        for (pid, stat) in &self.alive() {
            let io = io(*pid);
            living.read_bytes += io.0;
            if stat.zombie && stat.parent == std::process::id() {
                continue; // counted when it is waited for, and more finely
            }
            living.processes += 1;
            living.cpu.user_ns += stat.cpu.user_ns;
            living.cpu.sys_ns += stat.cpu.sys_ns;
            living.major_faults += stat.major_faults;
            living.input_blocks += io.1 / 512;
            living.peak_bytes += peak(*pid);
        }
        living
    }

    /// Ends the whole tree: `SIGTERM`, and `SIGKILL` after `grace`. Returns when no process is
    /// left.
    pub fn stop(&mut self, grace: Duration) -> Stopped {
        self.reap();
        if self.alive().is_empty() {
            return Stopped::Itself;
        }
        let start = Instant::now();
        let mut told = BTreeSet::new();
        while start.elapsed() < grace {
            for pid in self.alive().into_keys() {
                if told.insert(pid) {
                    signal(pid, Signal::TERM);
                    // A stopped process would not receive it.
                    signal(pid, Signal::CONT);
                }
            }
            thread::sleep(LOOK);
            self.reap();
            if self.alive().is_empty() {
                return Stopped::Term;
            }
        }
        let start = Instant::now();
        while start.elapsed() < KILLED {
            let alive = self.alive();
            if alive.is_empty() {
                break;
            }
            for pid in alive.into_keys() {
                signal(pid, Signal::KILL);
            }
            thread::sleep(LOOK);
            self.reap();
        }
        Stopped::Kill
    }

    /// Descendants of this process that are not spared.
    fn alive(&self) -> BTreeMap<u32, Stat> {
        let all = everybody();
        let me = std::process::id();
        let ours = |pid: u32| {
            let mut at = pid;
            // At most as many steps as there are processes. Parents form no loop, but an
            // inconsistent reading may show one.
            for _ in 0..all.len() {
                if self.spared.contains(&at) {
                    return false;
                }
                match all.get(&at).map(|s| s.parent) {
                    Some(parent) if parent == me => return true,
                    Some(parent) => at = parent,
                    None => return false,
                }
            }
            false
        };
        all.iter()
            .filter(|(pid, _)| **pid != me && ours(**pid))
            .map(|(pid, stat)| (*pid, *stat))
            .collect()
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

fn everybody() -> BTreeMap<u32, Stat> {
    let Ok(dir) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    dir.filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, parse(&text)?))
    })
    .collect()
}

/// Fields of proc(5), counted from 1: 3 state, 4 parent, 12 and 13 major faults, 14 to 17 CPU in
/// ticks. The second of each pair is for reaped children.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some(Stat {
        parent: number(4)? as u32,
        major_faults: number(12)? + number(13)?,
        cpu: CpuUse {
            user_ns: (number(14)? + number(16)?) * tick_ns,
            sys_ns: (number(15)? + number(17)?) * tick_ns,
        },
        zombie: fields.first() == Some(&"Z"),
    })
}

/// `rchar` and `read_bytes` of `/proc/PID/io`, including reaped children.
fn io(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|l| l.trim().parse().ok()).unwrap_or(0)
    };
    (value("rchar:"), value("read_bytes:"))
}

/// `VmHWM` of `/proc/PID/status`, bytes.
fn peak(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_stat_whatever_the_program_is_called() {
        let line = "71 (a) b (c)) S 7 1 1 0 -1 4194560 100 200 3 4 50 60 70 80 20 0 1 0 5 6 7\n";
        let stat = parse(line).unwrap();
        assert_eq!((stat.parent, stat.major_faults, stat.zombie), (7, 7, false));
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(stat.cpu.user_ns, 120 * tick);
        assert_eq!(stat.cpu.sys_ns, 140 * tick);
        assert_eq!(parse("71 (a"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn knows_its_own_peak() {
        assert!(peak(std::process::id()) > 100_000);
        assert_eq!(peak(u32::MAX), 0);
        assert!(everybody().contains_key(&std::process::id()));
    }
}
