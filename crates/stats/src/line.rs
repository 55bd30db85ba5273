//! A line fitted to cost over size: a fixed part, and a part per unit of size.

use crate::{all_finite, median};

/// Fewest sizes for a meaningful fit.
pub const MIN_SIZES: usize = 4;
/// Tuning constant of Huber's function: 95 % efficiency on normal errors.
const HUBER: f64 = 1.345;
/// From MAD to the standard deviation of a normal distribution.
const MAD_TO_SD: f64 = 1.4826;
/// Relative deviations below this count as equal, so that an exact fit has a scale.
const MIN_SCALE: f64 = 0.01;
const SCALE_TURNS: usize = 30;
const FIT_TURNS: usize = 200;

/// The line cost = `fixed` + `slope` * size, and how far the points lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Cost at size 0, at least 0, in the unit of the costs.
    pub fixed: f64,
    /// Cost of a unit of size, at least 0.
    pub slope: f64,
    /// Median of the deviations |ln(cost) - ln(line)|, no unit.
    pub typical: f64,
    /// Largest deviation |ln(cost) - ln(line)|, no unit.
    pub worst: f64,
    /// Index of the point that lies farthest away.
    pub worst_at: usize,
}

impl Line {
    /// Cost at a size.
    pub fn at(&self, size: f64) -> f64 {
        self.fixed + self.slope * size
    }
}

/// Fits cost = fixed + slope * size, both parts at least 0, to costs whose errors are relative.
///
/// Record sizes span decades, and so do costs. Least squares would fit the largest record only.
/// Pairwise slopes (Theil-Sen, Siegel) between small records are all noise. So this minimises the
/// sum of Huber's function of the residuals ln(cost) - ln(line) over their scale. (Huber, "Robust
/// estimation of a location parameter", 1964; k = 1.345.) The method is reweighted least squares.
/// (Holland & Welsch, "Robust regression using iteratively reweighted least-squares", 1977.) The
/// scale is 1.4826 times the median absolute residual, at least 0.01. It is recomputed after each
/// fit until it converges. The starting point is least squares of the relative errors.
///
/// A wrong size at the end of the range pulls its own part of the line, as in all M-estimates;
/// [`Line::worst`] then shows it. `None` below [`MIN_SIZES`] points, if a cost or size is not
/// finite, if a size is below 0 or a cost not above 0, or if all sizes are equal.
pub fn fit_line(sizes: &[f64], costs: &[f64]) -> Option<Line> {
    let n = sizes.len();
    let usable = n == costs.len()
        && n >= MIN_SIZES
        && all_finite(sizes)
        && all_finite(costs)
        && sizes.iter().all(|x| *x >= 0.0)
        && costs.iter().all(|y| *y > 0.0)
        && sizes.iter().any(|x| x.total_cmp(&sizes[0]).is_ne());
    if !usable {
        return None;
    }
    // Sizes and costs are rescaled to keep the squares far from overflow.
    let (sx, sy) = (largest(sizes), largest(costs));
    let x: Vec<f64> = sizes.iter().map(|v| v / sx).collect();
    let y: Vec<f64> = costs.iter().map(|v| v / sy).collect();
    let relative: Vec<f64> = y.iter().map(|v| 1.0 / (v * v)).collect();
    let mut line = weighted(&x, &y, &relative)?;
    let mut scale = scale_of(&residuals(&x, &y, line));
    for _ in 0..SCALE_TURNS {
        line = huber(&x, &y, line, scale)?;
        let next = scale_of(&residuals(&x, &y, line));
        let still = (next - scale).abs() <= 1e-9 * scale;
        scale = next;
        if still {
            break;
        }
    }
    let off: Vec<f64> = residuals(&x, &y, line).iter().map(|r| r.abs()).collect();
    let worst_at = (0..n).max_by(|a, b| off[*a].total_cmp(&off[*b]))?;
    Some(Line {
        fixed: line.0 * sy,
        slope: line.1 * sy / sx,
        typical: median(&off)?,
        worst: off[worst_at],
        worst_at,
    })
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
}

fn residuals(x: &[f64], y: &[f64], (a, b): (f64, f64)) -> Vec<f64> {
    x.iter()
        .zip(y)
        .map(|(x, y)| y.ln() - (a + b * x).max(f64::MIN_POSITIVE).ln())
        .collect()
}

fn scale_of(residuals: &[f64]) -> f64 {
    let sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    (MAD_TO_SD * median(&sizes).unwrap_or(0.0)).max(MIN_SCALE)
}

/// Sum of Huber's function.
fn loss(residuals: &[f64], scale: f64) -> f64 {
    let limit = HUBER * scale;
    residuals
        .iter()
        .map(|r| {
            if r.abs() <= limit {
                r * r / 2.0
            } else {
                limit * (r.abs() - limit / 2.0)
            }
        })
        .sum()
}

/// Gauss-Newton on the logarithm with Huber's weights. A step that increases the loss is halved.
fn huber(x: &[f64], y: &[f64], start: (f64, f64), scale: f64) -> Option<(f64, f64)> {
    let mut line = start;
    let mut now = loss(&residuals(x, y, line), scale);
    for _ in 0..FIT_TURNS {
        let r = residuals(x, y, line);
        let fitted: Vec<f64> = x.iter().map(|x| line.0 + line.1 * x).collect();
        // ln(line) is linear near the fit: the next one solves a weighted linear problem.
        let target: Vec<f64> = r.iter().zip(&fitted).map(|(r, f)| (1.0 + r) * f).collect();
        let weights: Vec<f64> = r
            .iter()
            .zip(&fitted)
            .map(|(r, f)| (HUBER * scale / r.abs().max(1e-300)).min(1.0) / (f * f))
            .collect();
        let goal = weighted(x, &target, &weights)?;
        let mut step = 1.0;
        let next = loop {
            let to = (
                line.0 + step * (goal.0 - line.0),
                line.1 + step * (goal.1 - line.1),
            );
            let at = loss(&residuals(x, y, to), scale);
            if at <= now {
                now = at;
                break Some(to);
            }
            step /= 2.0;
            if step < 1e-9 {
                break None;
            }
        };
        let Some(next) = next else { break };
        let moved = (next.0 - line.0).abs() + (next.1 - line.1).abs();
        line = next;
        if moved <= 1e-14 * (line.0 + line.1) {
            break;
        }
    }
    Some(line)
}

/// Weighted least squares of a line with both parts at least 0.
fn weighted(x: &[f64], y: &[f64], weights: &[f64]) -> Option<(f64, f64)> {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter()
            .zip(y)
            .zip(weights)
            .map(|((x, y), w)| w * f(*x, *y))
            .sum()
    };
    let (s, sx, sy) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
    let (sxx, sxy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let det = s * sxx - sx * sx;
    let free = ((sy * sxx - sx * sxy) / det, (s * sxy - sx * sy) / det);
    if free.0 >= 0.0 && free.1 >= 0.0 && free.0.is_finite() && free.1.is_finite() {
        return Some(free);
    }
    // The optimum is on the border: no slope, or no fixed part.
    let error = |(a, b): (f64, f64)| sum(&|x, y| (y - a - b * x).powi(2));
    let borders = [((sy / s).max(0.0), 0.0), (0.0, (sxy / sxx).max(0.0))];
    borders
        .into_iter()
        .filter(|l| l.0.is_finite() && l.1.is_finite())
        .min_by(|l, r| error(*l).total_cmp(&error(*r)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, relative: f64) -> bool {
        (a - b).abs() <= relative * b.abs()
    }

    #[test]
    fn an_exact_line_is_found_over_four_decades() {
        let x: Vec<f64> = (0..16).map(|i| f64::from(1 << i)).collect();
        let y: Vec<f64> = x.iter().map(|x| 118_000.0 + 0.31 * x).collect();
        let line = fit_line(&x, &y).unwrap();
        assert!(close(line.fixed, 118_000.0, 1e-9) && close(line.slope, 0.31, 1e-6));
        assert!(line.worst < 1e-9);
        let flat = fit_line(&x, &[118.0; 16]).unwrap();
        assert!(close(flat.fixed, 118.0, 1e-9) && flat.slope.abs() < 1e-12);
        let steep: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        let steep = fit_line(&x, &steep).unwrap();
        assert!(steep.fixed.abs() < 1e-9 && close(steep.slope, 2.0, 1e-9));
    }

    #[test]
    fn one_wrong_size_moves_it_little_and_is_named() {
        let x: Vec<f64> = (5..17).map(|i| f64::from(1 << i)).collect();
        let mut y: Vec<f64> = x.iter().map(|x| 900.0 + 0.1 * x).collect();
        y[4] *= 4.0;
        let line = fit_line(&x, &y).unwrap();
        assert!(close(line.fixed, 900.0, 0.02), "{line:?}");
        assert!(close(line.slope, 0.1, 0.02), "{line:?}");
        assert_eq!(line.worst_at, 4);
        assert!(line.worst > 1.2 && line.typical < 0.02);
    }

    #[test]
    fn bad_input_gives_nothing() {
        let x = [1.0, 2.0, 4.0, 8.0];
        assert!(fit_line(&x, &[1.0, 1.0, 2.0, 3.0]).is_some());
        assert!(fit_line(&x[..3], &[1.0, 1.0, 2.0]).is_none());
        assert!(fit_line(&x, &[1.0, 1.0, 2.0]).is_none());
        assert!(fit_line(&x, &[1.0, 0.0, 2.0, 3.0]).is_none());
        assert!(fit_line(&x, &[1.0, f64::NAN, 2.0, 3.0]).is_none());
        assert!(fit_line(&[4.0; 4], &[1.0, 1.0, 2.0, 3.0]).is_none());
        assert!(fit_line(&[-1.0, 2.0, 4.0, 8.0], &[1.0; 4]).is_none());
    }
}
