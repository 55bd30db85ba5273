//! Properties that hold for any input.

use layermark_stats as stats;
use layermark_stats::{Interval, Pair};
use proptest::prelude::*;

fn ratios(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-0.5..0.5_f64, sizes)
}

fn anything() -> impl Strategy<Value = Vec<f64>> {
    let value = prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(0.0),
        Just(1.0),
    ];
    prop_oneof![
        prop::collection::vec(value, 0..24),
        (0..130_usize).prop_map(|n| vec![2.5; n]),
        prop::collection::vec(
            prop_oneof![Just(1.0), Just(f64::MAX), Just(f64::MIN)],
            90..120
        ),
    ]
}

fn pairs(d: &[f64], native: f64) -> Vec<Pair> {
    d.iter()
        .zip(0..)
        .map(|(d, block)| Pair {
            session: 0,
            block,
            layer: native * d.exp(),
            native,
        })
        .collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

fn close_interval(a: Option<Interval>, b: Option<Interval>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => close(a.low, b.low) && close(a.high, b.high),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn the_interval_contains_the_estimate(x in ratios(6..70)) {
        let estimate = stats::hodges_lehmann(&x).expect("finite");
        for level in [0.5, 0.8, 0.95] {
            let i = stats::signed_rank_interval(&x, level).expect("n >= 6");
            prop_assert!(i.low <= i.high && i.contains(estimate));
        }
    }

    #[test]
    fn a_higher_level_is_wider(x in ratios(8..70)) {
        let narrow = stats::signed_rank_interval(&x, 0.95).expect("n >= 8");
        let wide = stats::signed_rank_interval(&x, 0.99).expect("n >= 8");
        prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
    }

    #[test]
    fn the_interval_and_the_test_agree(x in ratios(6..50)) {
        let i = stats::signed_rank_interval(&x, 0.95).expect("n >= 6");
        prop_assert_eq!(stats::signed_rank_p(&x) <= 0.05, !i.contains(0.0));
    }

    #[test]
    fn estimates_move_and_scale_with_the_data(x in ratios(6..40), scale in 0.01..100.0_f64, shift in -5.0..5.0_f64) {
        let y: Vec<f64> = x.iter().map(|v| v * scale + shift).collect();
        let (a, b) = (stats::hodges_lehmann(&x).expect("ok"), stats::hodges_lehmann(&y).expect("ok"));
        prop_assert!(close(a * scale + shift, b));
        let (a, b) = (stats::median(&x).expect("ok"), stats::median(&y).expect("ok"));
        prop_assert!(close(a * scale + shift, b));
        let (a, b) = (stats::mad(&x).expect("ok"), stats::mad(&y).expect("ok"));
        prop_assert!(close(a * scale, b));
    }

    #[test]
    fn quantiles_are_in_order(x in ratios(1..40), p in 0.0..1.0_f64, q in 0.0..1.0_f64) {
        let at = |p: f64| stats::quantile(&x, p).expect("finite");
        prop_assert!(at(p.min(q)) <= at(p.max(q)));
        prop_assert!(x.iter().any(|v| *v <= at(p)) && x.iter().any(|v| *v >= at(p)));
    }

    #[test]
    fn holm_keeps_the_order_and_never_helps(p in prop::collection::vec(0.0..1.0_f64, 1..20)) {
        let adjusted = stats::holm(&p);
        for i in 0..p.len() {
            prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
            for j in 0..p.len() {
                prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
            }
        }
    }

    #[test]
    fn change_points_leave_room(x in prop::collection::vec(1.0..100.0_f64, 0..60), seed in any::<u64>()) {
        let found = stats::change_points(&x, seed);
        prop_assert_eq!(&found, &stats::change_points(&x, seed));
        for s in stats::segments(&x, &found) {
            prop_assert!(found.is_empty() || s.end - s.start >= stats::MIN_SEGMENT);
        }
    }

    #[test]
    fn the_needed_blocks_suffice(n in 6..500_usize, now in 0.01..2.0_f64, wanted in 0.01..2.0_f64) {
        let needed = stats::blocks_needed(n, now, wanted);
        prop_assert!(needed >= n);
        prop_assert!(now * (n as f64 / needed as f64).sqrt() <= wanted.max(now.min(wanted)) * (1.0 + 1e-9));
    }
}

proptest! {
    // The dependent cases run a bootstrap of 9,999 resamples: few cases, short series.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn swapping_the_layers_inverts_the_ratio(d in ratios(4..10), native in 1e-9..1e3_f64) {
        let there = pairs(&d, native);
        let back: Vec<Pair> = there
            .iter()
            .map(|p| Pair { layer: p.native, native: p.layer, ..*p })
            .collect();
        let a = stats::compare(&there, 0.95, 5).expect("valid");
        let b = stats::compare(&back, 0.95, 5).expect("valid");
        prop_assert!(close(a.ratio, 1.0 / b.ratio) && close(a.p, b.p));
        prop_assert!(close(a.diff, -b.diff));
        let inverse = b.ratio_interval.map(|i| Interval { low: 1.0 / i.high, high: 1.0 / i.low });
        prop_assert!(close_interval(a.ratio_interval, inverse));
    }

    #[test]
    fn the_unit_of_time_does_not_matter(d in ratios(4..10)) {
        let (seconds, nanoseconds) = (pairs(&d, 2e-6), pairs(&d, 2e3));
        let a = stats::compare(&seconds, 0.95, 5).expect("valid");
        let b = stats::compare(&nanoseconds, 0.95, 5).expect("valid");
        prop_assert!(close(a.ratio, b.ratio) && close(a.diff * 1e9, b.diff));
        prop_assert!(close_interval(a.ratio_interval, b.ratio_interval));
    }

    #[test]
    fn dependence_never_narrows(d in ratios(6..12)) {
        let c = stats::compare(&pairs(&d, 1.0), 0.95, 5).expect("valid");
        let exact = stats::signed_rank_interval(&d, 0.95).expect("n >= 6").exp();
        let i = c.ratio_interval.expect("n >= 6");
        prop_assert!(i.low <= exact.low * (1.0 + 1e-12) && i.high >= exact.high * (1.0 - 1e-12));
        prop_assert!(i.contains(c.ratio) && c.effective_n <= c.n as f64);
        prop_assert!(c.p >= stats::signed_rank_p(&d) - 1e-12);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn nothing_panics(x in anything(), y in anything(), level in any::<f64>(), n in any::<usize>()) {
        let _ = (stats::median(&x), stats::mad(&x), stats::mean(&x), stats::cv(&x));
        let _ = (stats::quantile(&x, level), stats::outliers(&x), stats::holm(&x));
        let _ = (stats::hodges_lehmann(&x), stats::signed_rank_p(&x), stats::min_blocks(level));
        for level in [level, 0.95] {
            let _ = stats::signed_rank_interval(&x, level);
            let mean = |v: &[f64]| stats::mean(v).unwrap_or(f64::NAN);
            let _ = stats::bca(&[x.clone(), y.clone()], mean, level, 20, 1);
            let _ = stats::stationary(&x, mean, level, 2.0, 20, 1);
        }
        let _ = (stats::autocorrelation(&x, n), stats::autocorrelation(&x, 1), stats::effective_n(&x));
        let _ = (stats::change_points(&x, 1), stats::segments(&x, &[n, 3, 1]));
        let _ = (stats::is_look(n), stats::next_look(n), stats::blocks_for_holm(n));
        let _ = stats::blocks_needed(n, level, x.first().copied().unwrap_or(1.0));
        let p: Vec<Pair> = x
            .iter()
            .zip(&y)
            .map(|(a, b)| Pair { session: 0, block: 0, layer: a.abs(), native: b.abs() })
            .take(7)
            .collect();
        let _ = stats::judge(&[stats::compare(&p, 0.95, 1), None], level, level);
    }
}
