//! Against values from `SciPy` and from brute force, made by `fixtures/make.py`.

use std::path::Path;

use layermark_stats as stats;
use layermark_stats::Interval;
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
struct Fixture<T> {
    cases: Vec<T>,
}

fn cases<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.json"));
    let text = std::fs::read_to_string(&path).expect("fixture");
    let fixture: Fixture<T> = serde_json::from_str(&text).expect("fixture parses");
    assert!(!fixture.cases.is_empty());
    fixture.cases
}

#[track_caller]
fn close(actual: f64, expected: f64, relative: f64) {
    let error = (actual - expected).abs();
    assert!(
        error <= relative * expected.abs() + 1e-15,
        "{actual} is not {expected}"
    );
}

#[derive(Deserialize)]
struct Robust {
    x: Vec<f64>,
    median: f64,
    mad: f64,
    mean: f64,
    cv: Option<f64>,
    quantiles: std::collections::BTreeMap<String, f64>,
}

#[test]
fn location_and_spread() {
    for c in cases::<Robust>("robust") {
        close(stats::median(&c.x).expect("finite"), c.median, 1e-12);
        close(stats::mad(&c.x).expect("finite"), c.mad, 1e-12);
        close(stats::mean(&c.x).expect("finite"), c.mean, 1e-12);
        assert_eq!(stats::cv(&c.x).is_some(), c.cv.is_some());
        if let Some(cv) = c.cv {
            close(stats::cv(&c.x).expect("some"), cv, 1e-10);
        }
        for (p, expected) in &c.quantiles {
            let p = p.parse().expect("a number");
            close(stats::quantile(&c.x, p).expect("finite"), *expected, 1e-10);
        }
    }
}

#[derive(Deserialize)]
struct SignedRank {
    x: Vec<f64>,
    hodges_lehmann: f64,
    interval_95: Option<(f64, f64)>,
    interval_99: Option<(f64, f64)>,
    p: f64,
}

#[test]
fn signed_rank() {
    for c in cases::<SignedRank>("signed_rank") {
        close(
            stats::hodges_lehmann(&c.x).expect("finite"),
            c.hodges_lehmann,
            1e-12,
        );
        close(stats::signed_rank_p(&c.x), c.p, 1e-9);
        for (level, expected) in [(0.95, c.interval_95), (0.99, c.interval_99)] {
            let actual = stats::signed_rank_interval(&c.x, level);
            assert_eq!(actual.is_some(), expected.is_some(), "n = {}", c.x.len());
            if let (Some(actual), Some((low, high))) = (actual, expected) {
                close(actual.low, low, 1e-12);
                close(actual.high, high, 1e-12);
            }
        }
    }
}

/// The depression scores of Hollander & Wolfe, examples 3.1, 3.3 and 3.4, and the example of R's
/// `wilcox.test`: estimate -0.46, interval (-0.786, -0.010), p = 0.03906.
#[test]
#[expect(clippy::approx_constant, reason = "a score of 3.14, not pi")]
fn signed_rank_of_the_textbook() {
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let d: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    close(stats::hodges_lehmann(&d).expect("finite"), -0.46, 1e-9);
    close(stats::signed_rank_p(&d), 0.039_062_5, 1e-9);
    let i = stats::signed_rank_interval(&d, 0.95).expect("n = 9");
    close(i.low, -0.786, 1e-9);
    close(i.high, -0.010, 1e-9);
}

#[derive(Deserialize)]
struct Holm {
    p: Vec<f64>,
    adjusted: Vec<f64>,
}

#[test]
fn holm() {
    for c in cases::<Holm>("holm") {
        for (actual, expected) in stats::holm(&c.p).into_iter().zip(c.adjusted) {
            close(actual, expected, 1e-12);
        }
    }
}

#[derive(Deserialize)]
struct Bootstrap {
    x: Vec<f64>,
    statistic: String,
    low: f64,
    high: f64,
}

/// `SciPy` used 99,999 resamples of its own generator, so the ends agree within Monte Carlo error:
/// 5 % of the width with 5,000 resamples (the end of a 95 % interval has a standard error of 2 %).
#[test]
fn bca() {
    for c in cases::<Bootstrap>("bootstrap") {
        let statistic = |x: &[f64]| match c.statistic.as_str() {
            "mean" => x.iter().sum::<f64>() / x.len() as f64,
            _ => stats::quantile(x, 0.9).expect("finite"),
        };
        let blocks = std::slice::from_ref(&c.x);
        let Interval { low, high } = stats::bca(blocks, statistic, 0.95, 5000, 3).expect("enough");
        let tolerance = 0.05 * (c.high - c.low);
        assert!(
            (low - c.low).abs() < tolerance,
            "{low} is not {}, n = {}",
            c.low,
            c.x.len()
        );
        assert!(
            (high - c.high).abs() < tolerance,
            "{high} is not {}, n = {}",
            c.high,
            c.x.len()
        );
    }
}

#[derive(Deserialize)]
struct Autocorrelation {
    x: Vec<f64>,
    lags: Vec<f64>,
}

#[test]
fn autocorrelation() {
    for c in cases::<Autocorrelation>("autocorrelation") {
        for (lag, expected) in c.lags.iter().enumerate() {
            close(stats::autocorrelation(&c.x, lag), *expected, 1e-9);
        }
    }
}

#[derive(Deserialize)]
struct Change {
    x: Vec<f64>,
    change_points: Vec<usize>,
}

#[test]
fn change_points() {
    for c in cases::<Change>("change") {
        assert_eq!(
            stats::change_points(&c.x, 1),
            c.change_points,
            "n = {}",
            c.x.len()
        );
    }
}

#[derive(Deserialize)]
struct LineCase {
    x: Vec<f64>,
    y: Vec<f64>,
    fixed: f64,
    slope: f64,
    typical: f64,
    worst: f64,
}

#[test]
fn line() {
    for c in cases::<LineCase>("line") {
        let line = stats::fit_line(&c.x, &c.y).expect("a line");
        // A part that is not there is not quite 0 in SciPy.
        let (cheapest, largest) = (c.y[0], c.x[c.x.len() - 1]);
        let part = |actual: f64, expected: f64, all: f64| {
            assert!(
                (actual - expected).abs() <= 1e-6 * expected.abs() + 1e-9 * all,
                "{actual} is not {expected}"
            );
        };
        part(line.fixed, c.fixed, cheapest);
        part(line.slope, c.slope, cheapest / largest);
        close(line.typical, c.typical, 1e-5);
        close(line.worst, c.worst, 1e-5);
    }
}
