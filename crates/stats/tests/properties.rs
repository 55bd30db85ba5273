//! Properties that hold for any input.

use layermark_stats as stats;
use layermark_stats::{Interval, Pair, Verdict};
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
        .map(|(d, block)| Pair::new((block / 5, block), native * d.exp(), native))
        .collect()
}

/// Reports of a few cells, some of them noisy, some constant, some short.
fn families() -> impl Strategy<Value = Vec<Vec<Pair>>> {
    let cell = (-1.0..1.0_f64, 0.0..0.2_f64, ratios(0..24), 1e-6..1e3_f64);
    let cell = cell.prop_map(|(centre, noise, d, native)| {
        let d: Vec<f64> = d.iter().map(|x| 0.1 * centre + noise * x).collect();
        pairs(&d, native)
    });
    prop::collection::vec(cell, 1..12)
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
    fn the_interval_contains_the_estimate_and_agrees_with_its_p(x in ratios(3..70)) {
        let cell: Vec<(u32, f64)> = x.iter().map(|d| (0, *d)).collect();
        let e = stats::estimate(&[cell.into()], 0.95)[0].expect("finite");
        let i = e.interval.expect("three and more");
        prop_assert!(i.contains(e.mean));
        prop_assert!((e.p - 0.05).abs() < 1e-9 || (e.p < 0.05) != i.contains(0.0));
    }

    #[test]
    fn a_higher_level_is_wider(x in ratios(3..70)) {
        let t = stats::Trimmed::of(&x).expect("finite");
        let (narrow, wide) = (t.interval(0.95).expect("n >= 3"), t.interval(0.99).expect("n >= 3"));
        prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
    }

    /// Of whatever family: where a word has a direction, the interval printed beside it leaves 1 out
    /// on that side; where it is "same", the interval lies within delta and nobody else's word could
    /// have been put there; and the difference has the sign of the ratio.
    #[test]
    fn word_and_interval_never_contradict(family in families(), delta in 0.0..0.3_f64) {
        let cells: Vec<stats::Cell<Pair>> = family.into_iter().map(Into::into).collect();
        let compared = stats::compare_all(&cells, 0.95, 1);
        for (j, c) in stats::judge(&compared, delta).iter().zip(&compared) {
            let Some(c) = c else {
                prop_assert_eq!(j.verdict, Verdict::Undecided);
                continue;
            };
            let Some(i) = c.ratio_interval else {
                prop_assert_eq!(j.verdict, Verdict::Undecided);
                continue;
            };
            prop_assert!(i.contains(c.ratio) || c.ratio_interval.is_some_and(|i| i.width() < 1e-9));
            let d = c.diff_interval.expect("as the ratio's");
            prop_assert!((c.diff > 0.0) == (c.ratio > 1.0) || c.diff.abs() < 1e-12);
            prop_assert!((d.low > 0.0) == (i.low > 1.0) || d.low.abs() < 1e-9);
            prop_assert!((d.high < 0.0) == (i.high < 1.0) || d.high.abs() < 1e-9);
            match j.verdict {
                Verdict::Slower | Verdict::ProbablySlower => {
                    prop_assert!(i.low > 1.0 && c.ratio > 1.0 && c.p <= 0.05);
                }
                Verdict::Faster | Verdict::ProbablyFaster => {
                    prop_assert!(i.high < 1.0 && c.ratio < 1.0 && c.p <= 0.05);
                }
                Verdict::Same => {
                    let slack = 1.0 + 1e-12;
                    prop_assert!(i.high <= (1.0 + delta) * slack && i.low * (1.0 + delta) * slack >= 1.0);
                    prop_assert!(j.margin.is_some_and(|m| m <= delta * slack + 1e-12));
                }
                // What is known is said, whatever its size.
                Verdict::Undecided => prop_assert!(j.p_adjusted > 0.05 || !c.steady),
            }
            // The stronger word is never given where the weaker one would be refused.
            if j.p_adjusted <= 0.05 {
                prop_assert!(!matches!(j.verdict, Verdict::ProbablySlower | Verdict::ProbablyFaster));
            }
        }
    }

    #[test]
    fn estimates_move_and_scale_with_the_data(x in ratios(6..40), scale in 0.01..100.0_f64, shift in -5.0..5.0_f64) {
        let y: Vec<f64> = x.iter().map(|v| v * scale + shift).collect();
        let (a, b) = (stats::trimmed_mean(&x).expect("ok"), stats::trimmed_mean(&y).expect("ok"));
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
    fn corrections_keep_the_order_and_never_help(p in prop::collection::vec(0.0..1.0_f64, 1..20)) {
        let (adjusted, weak) = (stats::holm(&p), stats::benjamini_hochberg(&p));
        for i in 0..p.len() {
            prop_assert!(adjusted[i] >= weak[i] && weak[i] >= p[i] && adjusted[i] <= 1.0);
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
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn swapping_the_layers_inverts_the_ratio(d in ratios(4..10), native in 1e-9..1e3_f64) {
        let there = pairs(&d, native);
        let back: Vec<Pair> = there
            .iter()
            .map(|p| Pair::new((p.session, p.block), p.native, p.layer))
            .collect();
        let a = stats::compare(&there, 0.95, 5).expect("valid");
        let b = stats::compare(&back, 0.95, 5).expect("valid");
        prop_assert!(close(a.ratio, 1.0 / b.ratio) && close(a.p, b.p));
        prop_assert!((a.diff > 0.0) == (b.diff < 0.0) || a.diff.abs() < 1e-12 * native);
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
    fn sessions_never_narrow(d in ratios(6..12)) {
        let cells = |sessions: bool| -> Vec<(u32, f64)> {
            d.iter().zip(0..).map(|(d, i)| (if sessions { i / 3 } else { 0 }, *d)).collect()
        };
        let of = |sessions| stats::estimate(&[cells(sessions).into()], 0.95)[0].expect("finite");
        let (one, several) = (of(false), of(true));
        prop_assert!(several.error >= one.error && several.effective_n <= several.n as f64);
        prop_assert!(close(several.mean, one.mean));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn nothing_panics(x in anything(), y in anything(), level in any::<f64>(), n in any::<usize>()) {
        let _ = (stats::median(&x), stats::mad(&x), stats::mean(&x), stats::cv(&x));
        let _ = (stats::quantile(&x, level), stats::outliers(&x), stats::holm(&x));
        let _ = (stats::benjamini_hochberg(&x), stats::Trimmed::of(&x));
        for level in [level, 0.95] {
            let _ = stats::Trimmed::of(&x).map(|t| t.interval(level));
            let mean = |v: &[f64]| stats::mean(v).unwrap_or(f64::NAN);
            let _ = stats::bca(&[x.clone(), y.clone()], mean, level, 20, 1);
            let cell = |v: &[f64]| v.iter().zip(0..).map(|(d, i)| (i % 3, *d)).collect::<Vec<(u32, f64)>>();
            let _ = stats::estimate(&[cell(&x).into(), cell(&y).into()], level);
        }
        let _ = stats::prior(&x.iter().copied().zip(y.iter().copied()).collect::<Vec<_>>());
        let _ = (stats::change_points(&x, 1), stats::segments(&x, &[n, 3, 1]));
        let _ = stats::change_points_of_many(&[x.clone(), y.clone()], 1);
        let _ = stats::is_look(n);
        let _ = stats::blocks_needed(n, level, x.first().copied().unwrap_or(1.0));
        let p: Vec<Pair> = x
            .iter()
            .zip(&y)
            .map(|(a, b)| Pair::new((0, 0), a.abs(), b.abs()))
            .take(7)
            .collect();
        let _ = stats::judge(&[stats::compare(&p, 0.95, 1), None], level);
    }
}
