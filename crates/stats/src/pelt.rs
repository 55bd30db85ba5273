//! PELT: Killick, Fearnhead & Eckley, "Optimal detection of changepoints with a linear
//! computational cost", JASA 2012; normal cost for a change in mean and variance.

/// Smallest variance of a segment of logarithms, absolute and as a share of the whole series'
/// variance. So noise below 0.1 % counts as none, and the coarse steps of a clock do not become
/// changes.
const VARIANCE_FLOOR: f64 = 1e-6;

/// Prefix sums, which give the cost of any segment in O(1).
struct Costs {
    sums: Vec<f64>,
    squares: Vec<f64>,
    floor: f64,
}

impl Costs {
    fn new(values: &[f64]) -> Self {
        // Centred on the median, because the sums of squares would cancel otherwise.
        let centre = crate::median(values).unwrap_or(0.0);
        let mut costs = Self {
            sums: vec![0.0],
            squares: vec![0.0],
            floor: 0.0,
        };
        let (mut sum, mut square) = (0.0, 0.0);
        for x in values {
            sum += x - centre;
            square += (x - centre).powi(2);
            costs.sums.push(sum);
            costs.squares.push(square);
        }
        let whole = square / values.len() as f64;
        costs.floor = VARIANCE_FLOOR * whole.max(1.0);
        costs
    }

    /// Twice the negative log likelihood of `[start, end)`, without the constant n ln 2 pi. It uses
    /// the best mean, and the best variance not below the floor.
    fn of(&self, start: usize, end: usize) -> f64 {
        let n = (end - start) as f64;
        let mean = (self.sums[end] - self.sums[start]) / n;
        let raw = (self.squares[end] - self.squares[start]) / n - mean * mean;
        let variance = raw.max(self.floor);
        n * (variance.ln() + raw.max(0.0) / variance)
    }
}

/// A possible start of the last segment, and the end from which it can be ignored.
struct Candidate {
    start: usize,
    until: usize,
}

/// The change points that minimise the cost plus `penalty` for each. No segment is shorter than
/// `shortest` (at least 1). Exact. Takes O(n) time with frequent changes, O(n^2) without changes.
pub(crate) fn split(values: &[f64], shortest: usize, penalty: f64) -> Vec<usize> {
    let n = values.len();
    if n < 2 * shortest {
        return Vec::new();
    }
    let costs = Costs::new(values);
    let mut best = vec![f64::INFINITY; n + 1];
    let mut previous = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates: Vec<Candidate> = Vec::new();
    for end in shortest..=n {
        let newest = end - shortest;
        if best[newest].is_finite() {
            candidates.push(Candidate {
                start: newest,
                until: usize::MAX,
            });
        }
        candidates.retain(|c| c.until > end);
        for c in &candidates {
            let total = best[c.start] + costs.of(c.start, end) + penalty;
            if total < best[end] {
                best[end] = total;
                previous[end] = c.start;
            }
        }
        for c in &mut candidates {
            // If a change here is better than this start, it stays better. The start is ignored as
            // soon as a segment from here is long enough.
            if c.until == usize::MAX && best[c.start] + costs.of(c.start, end) > best[end] {
                c.until = end + shortest;
            }
        }
    }
    walk_back(&previous, n)
}

fn walk_back(previous: &[usize], n: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = previous[n];
    while at > 0 {
        found.push(at);
        at = previous[at];
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Optimal partitioning without pruning.
    fn without_pruning(values: &[f64], shortest: usize, penalty: f64) -> Vec<usize> {
        let costs = Costs::new(values);
        let n = values.len();
        let mut best = vec![f64::INFINITY; n + 1];
        let mut previous = vec![0; n + 1];
        best[0] = -penalty;
        for end in shortest..=n {
            for start in 0..=end - shortest {
                let total = best[start] + costs.of(start, end) + penalty;
                if total < best[end] {
                    best[end] = total;
                    previous[end] = start;
                }
            }
        }
        walk_back(&previous, n)
    }

    #[test]
    fn pruning_changes_nothing() {
        let mut state: u64 = 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        for round in 0..20 {
            let x: Vec<f64> = (0..150)
                .map(|i| 10.0 + next() * if i % 50 < 25 { 1.0 } else { 4.0 } + f64::from(i / 40))
                .collect();
            for penalty in [3.0, 10.0, 40.0] {
                let (a, b) = (split(&x, 5, penalty), without_pruning(&x, 5, penalty));
                assert_eq!(a, b, "round {round}, penalty {penalty}");
            }
        }
    }
}
