//! The process tree of a program: its members, their resources, and their end.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use layermark_model::{CpuUse, Stopped};
use layermark_sys::process::{self, Io, Stat};
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
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        for (pid, stat) in &self.alive() {
            let io = Io::of(*pid);
            living.read_bytes += io.read_by_calls;
            if stat.state == 'Z' && stat.parent == std::process::id() {
                continue; // counted when it is waited for, and more finely
            }
            living.processes += 1;
            living.cpu.user_ns += stat.user_ticks * tick_ns;
            living.cpu.sys_ns += stat.kernel_ticks * tick_ns;
            living.major_faults += stat.major_faults;
            living.input_blocks += io.read / 512;
            living.peak_bytes += process::peak_memory(*pid);
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
        let all: BTreeMap<u32, Stat> = process::all()
            .filter_map(|pid| Some((pid, Stat::of(pid)?)))
            .collect();
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
