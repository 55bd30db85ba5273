//! CPU time of a server and of its child processes.

use std::{collections::HashMap, fs};

use crate::child;

/// A process and all its descendants. Ended ones count with the CPU time at which they were last
/// seen.
#[derive(Debug, Default)]
pub(crate) struct ProcessTree {
    head: Option<u32>,
    /// CPU time by process, ns.
    seen: HashMap<u32, u64>,
}

impl ProcessTree {
    pub(crate) fn of(head: Option<u32>) -> Self {
        Self {
            head,
            seen: HashMap::new(),
        }
    }

    /// CPU time of all of them so far, ns; it never decreases.
    pub(crate) fn cpu_ns(&mut self) -> u64 {
        let mut left: Vec<u32> = self.head.into_iter().collect();
        while let Some(pid) = left.pop() {
            left.extend(children(pid));
            // A process that has just ended keeps its last value.
            if let Ok(ns) = child::cpu_ns(pid) {
                let known = self.seen.entry(pid).or_default();
                *known = ns.max(*known);
            }
        }
        self.seen.values().sum()
    }
}

/// Processes that `pid` has started and not waited for.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, child::Process};

    #[test]
    fn children_count_also_when_they_have_ended() {
        assert_eq!(ProcessTree::of(None).cpu_ns(), 0);
        let script = "for n in 1 2 3 4 5 6 7 8 9; do :; done; cat & wait; read end";
        let mut process = Process::start(child::command("/bin/sh").args(["-c", script])).unwrap();
        let head = process.pid().unwrap();
        let mut process_tree = ProcessTree::of(Some(head));
        // The shell starts `cat`, which ends at once: a shell's background has no input.
        while process_tree.cpu_ns() == 0 {
            std::thread::yield_now();
        }
        let before = process_tree.cpu_ns();
        process.kill();
        process.wait(std::time::Duration::from_secs(5)).unwrap();
        assert!(before > 0 && process_tree.cpu_ns() >= before);
    }
}
