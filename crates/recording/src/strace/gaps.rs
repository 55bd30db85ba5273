//! Time between the calls of each task, as a trace of `strace -ttt -T` shows it. Only the proportions are of use: strace
//! adds more to each gap than most programs compute there.

use std::collections::HashMap;

/// Gaps from this length on are counted together, us. What strace adds is far below it.
const LONG: usize = 1 << 10;
/// So many of the gaps are taken for what strace alone adds.
const IDLE: f64 = 0.1;
/// The most that it adds, us: a traced call takes about 37 longer. Behind more than this, the program has computed.
const ADDED: u64 = 100;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Gaps {
    tasks: HashMap<u32, Clock>,
    /// Of each call of the recording.
    calls: Vec<Sum>,
    /// How many gaps have so many microseconds.
    lengths: Vec<u64>,
}

/// Gaps of a task since its last call of the recording.
#[derive(Debug, Default)]
struct Clock {
    /// When its last call has ended, us.
    ended: Option<u64>,
    sum: Sum,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    us: u64,
    gaps: u64,
}

impl Gaps {
    /// A call of a task begins at this time, us.
    pub fn begins(&mut self, task: u32, at: Option<u64>) {
        let clock = self.tasks.entry(task).or_default();
        let Some((ended, at)) = clock.ended.take().zip(at) else {
            return;
        };
        let us = at.saturating_sub(ended);
        clock.sum.us = clock.sum.us.saturating_add(us);
        clock.sum.gaps += 1;
        self.lengths.resize(LONG + 1, 0);
        self.lengths[(us as usize).min(LONG)] += 1;
    }

    /// A call of a task has ended at this time, us.
    pub fn ends(&mut self, task: u32, at: Option<u64>) {
        self.tasks.entry(task).or_default().ended = at;
    }

    /// A task has a page fault at this time, us. What it did until then is part of the gap in which that is.
    pub fn faults(&mut self, task: u32, at: u64) {
        let clock = self.tasks.entry(task).or_default();
        if let Some(ended) = &mut clock.ended {
            clock.sum.us = clock.sum.us.saturating_add(at.saturating_sub(*ended));
            *ended = at.max(*ended);
        }
    }

    /// The next call of the recording is one of this task.
    pub fn call(&mut self, task: u32) {
        let clock = self.tasks.entry(task).or_default();
        self.calls.push(std::mem::take(&mut clock.sum));
    }

    /// What a task did before each call of the recording, without what strace adds, us; with one significant digit, for
    /// a smaller file.
    pub fn of_calls(&self) -> Vec<u32> {
        let all: u64 = self.lengths.iter().sum();
        let mut seen = 0;
        let idle = self.lengths.iter().position(|count| {
            seen += count;
            seen as f64 >= IDLE * all as f64
        });
        let idle = (idle.unwrap_or(0) as u64).min(ADDED);
        let own = |sum: &Sum| rounded(sum.us.saturating_sub(idle.saturating_mul(sum.gaps)));
        self.calls.iter().map(own).collect()
    }
}

/// A number with one significant digit.
fn rounded(number: u64) -> u32 {
    let number = number.min(u64::from(u32::MAX));
    let mut step = 1;
    while number / step >= 10 {
        step *= 10;
    }
    u32::try_from((number + step / 2) / step * step).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strace_adds_is_no_part_of_a_gap() {
        let mut gaps = Gaps::default();
        let mut now = 1_000;
        // 20 us each time, and 300 more before the third call of the recording, in two gaps.
        for (gap, kept) in [
            (20, true),
            (20, true),
            (120, false),
            (220, true),
            (20, true),
        ] {
            gaps.ends(7, Some(now));
            now += gap;
            gaps.begins(7, Some(now));
            if kept {
                gaps.call(7);
            }
        }
        gaps.call(8);
        assert_eq!(gaps.of_calls(), [0, 0, 300, 0, 0]);
    }

    #[test]
    fn a_program_that_computes_all_the_time_does_so_in_each_gap() {
        let mut gaps = Gaps::default();
        for at in 0..20 {
            gaps.ends(7, Some(at * 600));
            gaps.begins(7, Some(at * 600 + 500));
            gaps.call(7);
        }
        assert_eq!(gaps.of_calls(), [400; 20]);
    }

    /// A page fault is in the middle of a gap, to which strace adds once.
    #[test]
    fn a_gap_is_divided_by_a_page_fault() {
        let mut gaps = Gaps::default();
        gaps.faults(7, 500);
        for at in 1..=20 {
            gaps.ends(7, Some(at * 1000));
            if at == 20 {
                gaps.faults(7, 20_300);
                gaps.call(7);
                gaps.faults(7, 20_200);
            }
            gaps.begins(7, Some(at * 1000 + if at == 20 { 520 } else { 20 }));
        }
        gaps.call(7);
        assert_eq!(gaps.of_calls(), [300, 200]);
    }

    #[test]
    fn a_trace_without_times_has_none() {
        let mut gaps = Gaps::default();
        gaps.begins(1, None);
        gaps.ends(1, None);
        gaps.begins(1, Some(9));
        gaps.call(1);
        assert_eq!(gaps.of_calls(), [0]);
    }

    #[test]
    fn one_digit_is_kept() {
        let all = [0, 9, 14, 15, 96, 449, u64::MAX].map(rounded);
        assert_eq!(all, [0, 9, 10, 20, 100, 400, 4_000_000_000]);
    }
}
