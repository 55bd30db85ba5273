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
struct TrimmedCase {
    x: Vec<f64>,
    mean: f64,
    kept: usize,
    interval_95: Option<(f64, f64)>,
    p: Option<f64>,
}

#[test]
fn trimmed_means() {
    for c in cases::<TrimmedCase>("trimmed") {
        let t = stats::Trimmed::of(&c.x).expect("finite");
        close(t.mean, c.mean, 1e-12);
        assert_eq!(t.kept, c.kept);
        let actual = t.interval(0.95);
        assert_eq!(
            actual.is_some(),
            c.interval_95.is_some(),
            "n = {}",
            c.x.len()
        );
        if let (Some(actual), Some((low, high))) = (actual, c.interval_95) {
            close(actual.low, low, 1e-8);
            close(actual.high, high, 1e-8);
        }
        let cell: Vec<(u32, f64)> = c.x.iter().map(|x| (0, *x)).collect();
        let e = stats::estimate(&[cell.into()], 0.95)[0].expect("finite");
        close(e.p, c.p.unwrap_or(1.0), 1e-8);
    }
}

#[derive(Deserialize)]
struct Moderated {
    d: Vec<Vec<f64>>,
    prior_df: Option<f64>,
    prior_variance: f64,
    df: f64,
    low: Vec<f64>,
    high: Vec<f64>,
    p: Vec<f64>,
}

#[test]
fn moderated_t() {
    for c in cases::<Moderated>("moderated") {
        let trimmed = c.d.iter().map(|d| stats::Trimmed::of(d).expect("finite"));
        let variances: Vec<(f64, f64)> = trimmed.map(|t| (t.variance, t.df())).collect();
        let prior = stats::prior(&variances);
        close(prior.variance, c.prior_variance, 1e-9);
        match c.prior_df {
            Some(df) => close(prior.df, df, 1e-7),
            None => assert!(prior.df.is_infinite()),
        }
        let cell = |d: &Vec<f64>| {
            d.iter()
                .map(|x| (0, *x))
                .collect::<Vec<(u32, f64)>>()
                .into()
        };
        let cells: Vec<stats::Cell<_>> = c.d.iter().map(cell).collect();
        for (i, e) in stats::estimate(&cells, 0.95).into_iter().enumerate() {
            let e = e.expect("finite");
            let interval = e.interval.expect("enough");
            close(e.df, c.df, 1e-7);
            close(interval.low, c.low[i], 1e-7);
            close(interval.high, c.high[i], 1e-7);
            close(e.p, c.p[i], 1e-6);
        }
    }
}

#[derive(Deserialize)]
struct Holm {
    p: Vec<f64>,
    adjusted: Vec<f64>,
    benjamini_hochberg: Vec<f64>,
}

#[test]
fn holm_and_benjamini_hochberg() {
    for c in cases::<Holm>("holm") {
        for (actual, expected) in stats::benjamini_hochberg(&c.p)
            .into_iter()
            .zip(&c.benjamini_hochberg)
        {
            close(actual, *expected, 1e-12);
        }
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
