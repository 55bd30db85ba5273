use super::*;

#[test]
fn keeps_three_significant_digits() {
    let written: Vec<String> = [
        0.0,
        1.0,
        1.0204,
        13.14,
        420.4,
        12_345.0,
        0.001_234_5,
        9.999,
        -41.23,
        999.6,
    ]
    .into_iter()
    .map(sig3)
    .collect();
    assert_eq!(
        written,
        [
            "0", "1.00", "1.02", "13.1", "420", "12300", "0.00123", "10.0", "-41.2", "1000"
        ]
    );
    assert_eq!(sig3(f64::NAN), "-");
}

#[test]
fn two_times_share_a_unit() {
    assert_eq!(from_to(2_100.0, 6_400.0, 2), "2.1 -> 6.4 ms");
    assert_eq!(from_to(0.881, 23.7, 2), "880 ns -> 24 us");
    assert_eq!(from_to(2_103.0, 2_354.0, 3), "2.10 -> 2.35 ms");
}

#[test]
fn chooses_units_that_fit() {
    assert_eq!(time(0.512), "512 ns");
    assert_eq!(time(12.04), "12.0 us");
    assert_eq!(time(41_230.0), "41.2 ms");
    assert_eq!(time(999.9), "1.00 ms");
    assert_eq!(time(2_500_000.0), "2.50 s");
    assert_eq!(extra(12.0), "+12.0 us");
    assert_eq!(time_span([900.0, 1_100.0]), "0.900 to 1.10 ms");
    assert_eq!(value(1.9e9, "B/s"), "1.90 GB/s");
    assert_eq!(value(420_400.0, "ops/s"), "420 kops/s");
    assert_eq!(value(1523.4, "scripts/h"), "1520 scripts/h");
}

#[test]
fn no_figure_has_more_digits_than_its_interval_supports() {
    let e = |estimate, low, high| Estimate {
        estimate,
        interval: Some([low, high]),
        average: None,
    };
    // Microseconds: 0.00671 ns, with an interval of about half a nanosecond either way.
    assert_eq!(extra_of(&e(6.71e-6, -5e-4, 6e-4)), "0.0 ns");
    assert_eq!(extra_of(&e(-6.71e-6, -5e-4, 6e-4)), "0.0 ns");
    assert_eq!(extra_of(&e(12.04, 10.0, 14.0)), "+12.0 us");
    assert_eq!(extra_of(&e(12.04, 4.0, 20.0)), "+12 us");
    assert_eq!(extra_of(&e(-0.986, -2.05, 0.08)), "-1.0 us");
    assert_eq!(
        time_with(&e(41_230.0, 40_100.0, 42_300.0)),
        "41.2 ms (40.1 to 42.3 ms)"
    );
    assert_eq!(
        time_with(&e(41_230.0, 20_000.0, 63_000.0)),
        "41 ms (20 to 63 ms)"
    );
    assert_eq!(time_of(&e(999.96, 999.0, 1_001.0)), "1.00 ms");
    assert_eq!(
        time_of(&Estimate {
            estimate: 12.04,
            interval: None,
            average: None,
        }),
        "12.0 us"
    );
    assert_eq!(ratio_with(&e(735.0, 619.0, 922.0)), "740x (620-920)");
    assert_eq!(ratio_with(&e(1.064, 1.05, 1.08)), "1.06x (1.05-1.08)");
    assert_eq!(ratio_with(&e(1.8, 0.9, 2.9)), "1.8x (0.9-2.9)");
    assert_eq!(
        ratio_with(&e(0.0333, 0.0328, 0.0338)),
        "30.0x faster (29.6-30.5)"
    );
    assert_eq!(ratio_with(&e(0.5, 0.01, 25.0)), "0.5x (0.01-25.0)");
    assert_eq!(ratio_of(&e(1.0, 1.0, 1.0)), "1.00");
}

#[test]
fn writes_ratios_shares_and_lists() {
    assert_eq!(ratio_span([0.991, 1.018]), "0.99-1.02");
    assert_eq!(ratio(13.14), "13.1");
    assert_eq!(ratio(0.031), "0.0310");
    assert_eq!(percent(0.041), "4.1 %");
    assert_eq!(percent(0.04), "4 %");
    assert_eq!(percent(0.4), "40 %");
    assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    assert_eq!(list::<&str>(&[]), "");
    assert_eq!(count(1, "block"), "1 block");
}

#[test]
fn a_rare_share_is_not_rounded_to_none() {
    let of = [(18, 892), (1, 50), (1, 3_000), (20, 21), (0, 5), (1, 1)];
    let texts = of.map(|(some, all)| percent_of(some, all));
    assert_eq!(texts, ["2 %", "2 %", "0.033 %", "95 %", "0 %", "100 %"]);
}

#[test]
fn ratios_have_as_many_digits_as_they_need() {
    let shown = [1.064, 1.996, 9.96, 642.4, 0.5, 0.0342, 0.0996].map(times_about);
    let expected = [
        "1.06x",
        "2.0x",
        "10x",
        "642x",
        "2.0x faster",
        "29x faster",
        "10x faster",
    ];
    assert_eq!(shown, expected);
    let wide = Estimate {
        estimate: 735.0,
        interval: Some([619.0, 922.0]),
        average: None,
    };
    assert_eq!(times(&wide), "740x");
}

#[test]
fn a_small_share_of_a_throughput_is_not_faster() {
    let share = Estimate {
        estimate: 0.2,
        interval: Some([0.19, 0.21]),
        average: None,
    };
    assert_eq!(share_with(&share), "0.20x (0.19-0.21)");
}

#[test]
fn a_small_ratio_is_written_as_how_much_faster() {
    let e = |estimate, low, high| Estimate {
        estimate,
        interval: Some([low, high]),
        average: None,
    };
    let fast = e(0.004_03, 0.003_9, 0.004_17);
    assert_eq!(times(&fast), "248x faster");
    assert_eq!(ratio_of(&fast), "248x faster");
    assert_eq!(gain(&fast), "248x");
    assert_eq!(ratio_with(&fast), "248x faster (240-256)");
    assert_eq!(
        Written::of(&fast).ends(),
        Some(["240".to_owned(), "256".to_owned()])
    );
    assert_eq!(times(&e(0.5, 0.49, 0.51)), "2.0x faster");
    assert_eq!(times(&e(0.51, 0.5, 0.52)), "1.96x faster");
    assert_eq!(ratio_with(&e(0.95, 0.94, 0.96)), "1.05x faster (1.04-1.06)");
    // Its interval reaches 1, there is none, or it is rounded to 1.
    assert_eq!(times(&e(0.92, 0.69, 1.21)), "0.92x");
    let interval = None;
    assert_eq!(
        times(&Estimate {
            interval,
            ..exact(0.4)
        }),
        "0.40x"
    );
    assert_eq!(times(&e(0.996, 0.994, 0.998)), "1.00x");
    assert_eq!(of_baseline(0.8, "native"), "1.25x faster than native");
    assert_eq!(of_baseline(0.004_03, "native"), "248x faster than native");
    assert_eq!(of_baseline(1.8, "`a`"), "1.80x `a`'s time");
}

#[test]
fn a_noisy_estimate_has_its_half_width() {
    let e = |estimate, low, high| Estimate {
        estimate,
        interval: Some([low, high]),
        average: None,
    };
    let shown = |e: Estimate| noisy(&e).expect("an interval");
    assert_eq!(shown(e(0.97, 0.925, 1.016)), "0.97 \u{b1}5%");
    assert_eq!(shown(e(1.8, 0.9, 2.9)), "1.8 \u{b1}62%");
    assert_eq!(shown(e(0.5, 0.01, 25.0)), "0.5 \u{b1}>100%");
    assert_eq!(
        shown(e(0.004_03, 0.003_9, 0.004_17)),
        "248x faster \u{b1}4%"
    );
    let interval = None;
    assert_eq!(
        noisy(&Estimate {
            interval,
            ..exact(1.0)
        }),
        None
    );
}

#[test]
fn whole_numbers_are_grouped() {
    let texts = [0.0, 7.0, 999.0, 1000.4, 9412.0, 1_234_567.0].map(thousands);
    assert_eq!(texts, ["0", "7", "999", "1,000", "9,412", "1,234,567"]);
}
