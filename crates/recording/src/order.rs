//! Which call may run next.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::Call;

/// Calls of a recording by task, and how far each task is.
pub struct Pending {
    /// Numbers of each task's calls.
    pub by_task: Vec<Vec<u32>>,
}

impl Pending {
    /// Groups calls by task. Numbers of tasks must be below `tasks`.
    pub fn new(calls: &[Call], tasks: usize) -> Self {
        let mut by_task = vec![Vec::new(); tasks];
        for (number, call) in (0u32..).zip(calls) {
            by_task[call.task as usize].push(number);
        }
        Self { by_task }
    }

    /// The number of a call that waits for itself, through others; `None` if all can run to their end. Each wait is
    /// looked at twice at most: a hostile order takes no longer than another one.
    pub fn cycle(&self, calls: &[Call]) -> Option<u32> {
        let tasks = self.by_task.len();
        let mut done = vec![0usize; tasks];
        // How many waits of each task's next call are over.
        let mut met = vec![0usize; tasks];
        // For each task, how many of its calls let which tasks go on.
        let mut blocked: Vec<BinaryHeap<Reverse<(usize, usize)>>> = vec![BinaryHeap::new(); tasks];
        let mut ready: Vec<usize> = (0..tasks).collect();
        while let Some(task) = ready.pop() {
            'calls: while let Some(number) = self.by_task[task].get(done[task]) {
                for (of, count) in &calls[*number as usize].waits[met[task]..] {
                    let (of, count) = (*of as usize, *count as usize);
                    if done[of] < count {
                        blocked[of].push(Reverse((count, task)));
                        break 'calls;
                    }
                    met[task] += 1;
                }
                (done[task], met[task]) = (done[task] + 1, 0);
            }
            while let Some(Reverse((count, other))) = blocked[task].peek().copied()
                && count <= done[task]
            {
                blocked[task].pop();
                ready.push(other);
            }
        }
        let mut stuck = self.by_task.iter().zip(&done);
        stuck.find_map(|(own, done)| own.get(*done).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CallKind;

    fn call(task: u32, waits: &[(u32, u32)]) -> Call {
        Call {
            task,
            waits: waits.to_vec(),
            ..Call::new(CallKind::Stat)
        }
    }

    #[test]
    fn a_cycle_is_found() {
        let good = [call(0, &[]), call(1, &[(0, 1)]), call(0, &[(1, 1)])];
        assert_eq!(Pending::new(&good, 2).cycle(&good), None);
        let bad = [call(0, &[(1, 1)]), call(1, &[(0, 1)])];
        assert_eq!(Pending::new(&bad, 2).cycle(&bad), Some(0));
        let own = [call(0, &[]), call(0, &[(0, 2)])];
        assert_eq!(Pending::new(&own, 1).cycle(&own), Some(1));
        let three = [call(0, &[(1, 1)]), call(1, &[(2, 1)]), call(2, &[])];
        assert_eq!(Pending::new(&three, 3).cycle(&three), None);
    }

    /// Two tasks let each other go on in turn, and 250 others wait for the last turn after 250 other waits. If each turn
    /// looked at all of these again, it would be 10^10 waits.
    #[test]
    fn a_hostile_order_is_looked_at_once() {
        const TURNS: u32 = 200_000;
        let mut calls = Vec::new();
        for turn in 0..TURNS {
            calls.push(call(0, &[(1, turn)]));
            calls.push(call(1, &[(0, turn + 1)]));
        }
        let mut waits: Vec<(u32, u32)> = (2..252).map(|task| (task, 0)).collect();
        waits.push((0, TURNS));
        calls.extend((2..252).map(|task| call(task, &waits)));
        assert_eq!(Pending::new(&calls, 252).cycle(&calls), None);
        calls.push(call(0, &[(251, 2)]));
        assert_eq!(
            Pending::new(&calls, 252).cycle(&calls),
            Some(calls.len() as u32 - 1)
        );
    }
}
