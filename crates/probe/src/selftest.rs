//! The cost of measuring on this machine. Runs at the start of every probe, in every layer.

use std::{hint::black_box, io, sync::OnceLock};

use layermark_model::{Limited, SelfTest};
use layermark_sys::cgroup;

use crate::{
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    engines::{self, After, RecordOrder, Task, Transfer},
    run::{
        drive::{OpRange, Step, drive},
        recorder::Recorder,
        waiting,
    },
};

/// Number of operations per batch.
const TURNS: u64 = 1000;
/// Number of batches, unless [`PART_NS`] is over.
const BATCHES: usize = 11;
/// Minimum number of batches, however long they take: the median must survive an interrupted one.
const LEAST: usize = 3;
/// Time limit of a part, ns, for a very slow clock.
const PART_NS: u64 = 4_000_000;

/// The clock of this process, chosen once.
pub fn source() -> Source {
    static SOURCE: OnceLock<Source> = OnceLock::new();
    *SOURCE.get_or_init(Source::detect)
}

/// Measures the clock, the empty loop, the null operation, and what it costs to read how long this thread waited for a CPU.
/// Each part has at least [`LEAST`] batches, and begins none after [`PART_NS`] otherwise.
pub fn self_test() -> SelfTest {
    let source = source();
    let mut recorder = Recorder::new();
    let clock_ns = median(|| match source {
        Source::Tsc { mult } => read_clock(Tsc { mult }),
        Source::Monotonic => read_clock(Monotonic),
    });
    let loop_ns = median(|| {
        let _ = black_box(drive(
            Some(source),
            OpRange::whole(TURNS),
            &mut recorder,
            &mut |_| {},
            &mut Nothing,
        ));
    });
    let null_ns = median(|| null_pass(source, &mut recorder));
    let delay_ns = waiting::delay_ns().map(|_| {
        median(|| {
            for _ in 0..TURNS {
                black_box(waiting::delay_ns());
            }
        })
    });
    SelfTest {
        clock_ns,
        loop_ns,
        null_ns,
        delay_ns,
        cpu_quota: cpu_quota(),
    }
}

/// The lowest CPU quota of this process's control groups, in CPUs.
fn cpu_quota() -> Option<f64> {
    let limits = cgroup::limits(std::process::id()).into_iter();
    let quotas = limits.filter(|limit| limit.of == Limited::Cpu);
    quotas.map(|limit| limit.rate).reduce(f64::min)
}

fn read_clock<C: Clock>(clock: C) {
    for _ in 0..TURNS {
        black_box(clock.now());
    }
}

fn null_pass(source: Source, recorder: &mut Recorder) {
    let mut buffer = [0; 8];
    let task = Task {
        record: buffer.len(),
        piece: buffer.len(),
        part: OpRange::whole(TURNS),
        size: 0,
        order: RecordOrder::Sequential,
        advice: None,
        depth: 1,
        transfer: Transfer::Read(&mut buffer),
        flush_each: None,
        after: After::Nothing,
        mark: None,
        check: None,
        clock: Some(source),
        recorder,
        beat: &mut |_| {},
    };
    if let Some(null) = engines::find("null") {
        let _ = black_box(null.runner().pass(&mut None, task));
    }
}

struct Nothing;

impl Step for Nothing {
    #[inline]
    fn run(&mut self, i: u64) -> io::Result<()> {
        black_box(i);
        Ok(())
    }
}

/// Median over batches, nanoseconds per operation.
fn median(mut batch: impl FnMut()) -> f64 {
    let begun = monotonic_ns();
    let mut each = Vec::with_capacity(BATCHES);
    while each.len() < BATCHES && (each.len() < LEAST || monotonic_ns() - begun < PART_NS) {
        let start = monotonic_ns();
        batch();
        each.push((monotonic_ns() - start) as f64 / TURNS as f64);
    }
    each.sort_by(f64::total_cmp);
    each[each.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_plausible() {
        let test = self_test();
        assert!(test.clock_ns > 0.1 && test.clock_ns < 20_000.0, "{test:?}");
        assert!(test.loop_ns > 0.1 && test.null_ns > 0.1, "{test:?}");
    }

    #[test]
    fn a_slow_part_has_few_batches_and_a_quick_one_no_more_than_allowed() {
        let batches = |each_ns| {
            let mut made = 0;
            median(|| {
                let begun = monotonic_ns();
                made += 1;
                while monotonic_ns() - begun < each_ns {}
            });
            made
        };
        assert_eq!(batches(PART_NS), LEAST);
        assert!((LEAST..=BATCHES).contains(&batches(0)));
    }
}
