//! How evenly the threads of a pass got on.

use layermark_model::ThreadRates;

use crate::run::drive::Span;

/// Of one pass in which each thread moved so many bytes; `None` for a thread alone.
pub fn of_pass(spans: &[Span], bytes: u64) -> Option<ThreadRates> {
    if spans.len() < 2 {
        return None;
    }
    let start = spans.iter().map(|s| s.start).min()?;
    let first_end = spans.iter().map(|s| s.end).min()?;
    let lasted = |s: &Span| (s.end - s.start).max(1) as f64;
    let done = |s: &Span| first_end.saturating_sub(s.start) as f64 / lasted(s);
    let rate = |s: &Span| {
        let worked = (lasted(s) - s.paused as f64).max(1.0);
        bytes as f64 * 1e9 / worked
    };
    let until = (first_end - start).max(1) as f64;
    Some(ThreadRates {
        each: spans.iter().map(rate).collect(),
        stonewall: spans.iter().map(done).sum::<f64>() * bytes as f64 * 1e9 / until,
        least_done: spans.iter().map(done).fold(1.0, f64::min),
    })
}

/// The mean over passes of the same threads.
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

    fn span(start: u64, end: u64) -> Span {
        Span {
            start,
            end,
            paused: 0,
        }
    }

    #[test]
    fn all_threads_count_in_the_minimum() {
        assert_eq!(of_pass(&[span(0, 10)], 1), None);
        // The third one starts when the first is through.
        let spans = [span(0, 1000), span(0, 2000), span(1000, 5000)];
        let rates = of_pass(&spans, 4000).unwrap();
        assert_eq!(rates.each, [4e9, 2e9, 1e9]);
        assert_eq!((rates.slowest(), rates.fastest()), (1e9, 4e9));
        assert!((rates.mean() - 7e9 / 3.0).abs() < 1.0, "{rates:?}");
        // 4000 bytes of the first and 2000 of the second in 1000 ns.
        assert!((rates.stonewall - 6e9).abs() < 1.0, "{rates:?}");
        assert!(rates.least_done.abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn passes_are_averaged_thread_by_thread() {
        let uneven = of_pass(&[span(0, 1000), span(0, 2000)], 4000).unwrap();
        let even = of_pass(&[span(0, 1000), span(0, 1000)], 4000).unwrap();
        assert!((even.least_done - 1.0).abs() < 1e-9 && (even.stonewall - 8e9).abs() < 1.0);
        let both = mean(&[uneven, even]).unwrap();
        assert_eq!(both.each, [4e9, 3e9]);
        assert!((both.least_done - 0.75).abs() < 1e-9 && (both.stonewall - 7e9).abs() < 1.0);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn what_was_not_work_is_no_time_of_a_thread() {
        let paused = Span {
            paused: 500,
            ..span(0, 1500)
        };
        let rates = of_pass(&[paused, span(0, 1500)], 1000).unwrap();
        assert!((rates.each[0] - 1e9).abs() < 1.0, "{rates:?}");
        assert!(rates.each[1] < rates.each[0]);
    }
}
