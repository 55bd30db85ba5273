//! Which call may run next.

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

    /// The number of a call that waits for itself, through others; `None` if all can run to their end.
    pub fn cycle(&self, calls: &[Call]) -> Option<u32> {
        let mut done = vec![0usize; self.by_task.len()];
        // Tasks that each task's progress may let go on.
        let mut blocked: Vec<Vec<usize>> = vec![Vec::new(); self.by_task.len()];
        let mut ready: Vec<usize> = (0..self.by_task.len()).collect();
        while let Some(task) = ready.pop() {
            let before = done[task];
            while let Some(number) = self.by_task[task].get(done[task]) {
                let waits = &calls[*number as usize].waits;
                let unmet = |(of, count): &&(u32, u32)| done[*of as usize] < *count as usize;
                if let Some((of, _)) = waits.iter().find(unmet) {
                    blocked[*of as usize].push(task);
                    break;
                }
                done[task] += 1;
            }
            if done[task] > before {
                ready.append(&mut blocked[task]);
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
}
