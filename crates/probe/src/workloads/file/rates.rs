//! The threads' rates, and their common duration.

use layermark_model::ThreadRates;

use crate::run::drive::{Done, Span};

/// Work of a thread in a pass, or in all turns together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Did {
    span: Span,
    bytes: u64,
}

impl Did {
    /// From operations of this many bytes each.
    pub fn of(done: &Done, unit: u64) -> Self {
        Self {
            span: done.span,
            bytes: done.ops * unit,
        }
    }
}

/// Adds a turn to the earlier ones, by thread: the work each would have done in `elapsed_ns` at its
/// own speed.
pub fn add(sum: &mut Vec<Did>, turn: &[Did], elapsed_ns: u64) {
    sum.resize(turn.len(), Did::default());
    for (sum, did) in sum.iter_mut().zip(turn) {
        let share = elapsed_ns as f64 / did.span.net_ns() as f64;
        sum.span.end += elapsed_ns;
        sum.bytes += (did.bytes as f64 * share).round() as u64;
    }
}

/// Duration of a pass, nanoseconds: from the first thread's start to the last one's end. Only
/// preparation pauses a thread here; the mean of the pauses is subtracted.
pub fn from_first_to_last(did: &[Did]) -> u64 {
    let start = did.iter().map(|d| d.span.start).min().unwrap_or(0);
    let end = did.iter().map(|d| d.span.end).max().unwrap_or(0);
    let paused = did.iter().map(|d| d.span.paused).sum::<u64>() / did.len().max(1) as u64;
    let span = Span {
        start,
        end,
        paused,
        ..Span::default()
    };
    span.net_ns()
}

/// Rates of threads that did the same work, or worked for the same time; `None` for a single
/// thread.
pub fn of(threads: &[Did]) -> Option<ThreadRates> {
    if threads.len() < 2 {
        return None;
    }
    let start = threads.iter().map(|d| d.span.start).min()?;
    let first_end = threads.iter().map(|d| d.span.end).min()?;
    let most = threads.iter().map(|d| d.bytes).max()?.max(1) as f64;
    let lasted = |d: &Did| (d.span.end - d.span.start).max(1) as f64;
    let done = |d: &Did| {
        let share = first_end.saturating_sub(d.span.start) as f64 / lasted(d);
        share * d.bytes as f64
    };
    let rate = |d: &Did| {
        let worked = (lasted(d) - d.span.paused as f64).max(1.0);
        d.bytes as f64 * 1e9 / worked
    };
    let until = (first_end - start).max(1) as f64;
    Some(ThreadRates {
        each: threads.iter().map(rate).collect(),
        stonewall: threads.iter().map(done).sum::<f64>() * 1e9 / until,
        least_done: threads.iter().map(done).fold(most, f64::min) / most,
    })
}

/// Mean over several passes of the same threads.
pub fn mean(passes: &[ThreadRates]) -> Option<ThreadRates> {
    let threads = passes.first()?.each.len();
    let mean =
        |of: &dyn Fn(&ThreadRates) -> f64| passes.iter().map(of).sum::<f64>() / passes.len() as f64;
    Some(ThreadRates {
        each: (0..threads).map(|n| mean(&|r| r.each[n])).collect(),
        stonewall: mean(&|r| r.stonewall),
        least_done: mean(&|r| r.least_done),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(start: u64, end: u64, bytes: u64) -> Did {
        let span = Span {
            start,
            end,
            ..Span::default()
        };
        Did { span, bytes }
    }

    #[test]
    fn all_threads_count_in_the_minimum() {
        assert!(of(&[did(0, 10, 1)]).is_none());
        // The third one starts when the first has finished.
        let threads = [(0, 1000), (0, 2000), (1000, 5000)].map(|(a, b)| did(a, b, 4000));
        let rates = of(&threads).unwrap();
        assert_eq!(rates.each, [4e9, 2e9, 1e9]);
        assert_eq!((rates.slowest(), rates.fastest()), (1e9, 4e9));
        assert!((rates.mean() - 7e9 / 3.0).abs() < 1.0, "{rates:?}");
        // 4000 bytes of the first and 2000 of the second in 1000 ns.
        assert!((rates.stonewall - 6e9).abs() < 1.0, "{rates:?}");
        assert!(rates.least_done.abs() < 1e-9, "{rates:?}");
        assert_eq!(from_first_to_last(&threads), 5000);
    }

    #[test]
    fn passes_are_averaged_thread_by_thread() {
        let uneven = of(&[did(0, 1000, 4000), did(0, 2000, 4000)]).unwrap();
        let even = of(&[did(0, 1000, 4000), did(0, 1000, 4000)]).unwrap();
        assert!((even.least_done - 1.0).abs() < 1e-9 && (even.stonewall - 8e9).abs() < 1.0);
        let both = mean(&[uneven, even]).unwrap();
        assert_eq!(both.each, [4e9, 3e9]);
        assert!((both.least_done - 0.75).abs() < 1e-9 && (both.stonewall - 7e9).abs() < 1.0);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn what_was_not_work_is_no_time_of_a_thread() {
        let mut paused = did(0, 1500, 1000);
        paused.span.paused = 500;
        let rates = of(&[paused, did(0, 1500, 1000)]).unwrap();
        assert!((rates.each[0] - 1e9).abs() < 1.0, "{rates:?}");
        assert!(rates.each[1] < rates.each[0]);
    }

    /// One thread is twice as fast as the other. The result is the same whether they have the same
    /// work or the same time, and however long the last operation of a turn takes.
    #[test]
    fn turns_tell_of_threads_what_a_pass_does() {
        let pass = of(&[did(0, 1000, 4000), did(0, 2000, 4000)]).unwrap();
        let mut sum = Vec::new();
        for (at, more) in [(500, 0), (9000, 1000)] {
            let slow = did(at, at + 1000 + more, 2000 + 2 * more);
            add(&mut sum, &[did(at, at + 1000, 4000), slow], 1000);
        }
        let turns = of(&sum).unwrap();
        assert_eq!(turns.each, pass.each);
        assert!((turns.stonewall - pass.stonewall).abs() < 1.0);
        assert!((turns.least_done - pass.least_done).abs() < 1e-9);
    }
}
