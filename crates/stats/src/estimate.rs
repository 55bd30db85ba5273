//! The estimator of a ratio: its value, its interval, and the p of "it is 1". The report uses no
//! other.

use std::collections::BTreeMap;

use crate::moderate::{Prior, prior};
use crate::special::{f_p, log_chi2_mean, log_chi2_variance, t_p, t_quantile};
use crate::trimmed::{MIN_VALUES, Trimmed, TwoMeans, trimmed_mean};
use crate::{Interval, normal_cdf};

/// One block of one point, in a layer and natively.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Session, numbered in the order in which they ran.
    pub session: u32,
    /// Block, numbered within the session or over the run, in the order in which they ran.
    pub block: u32,
    /// Cost in the layer: time per operation, in seconds or nanoseconds; above 0.
    pub layer: f64,
    /// Cost natively, in the same unit; above 0.
    pub native: f64,
    /// The block's d, twice: against native's own turns, and against those of its control. Both are the same where the
    /// control has none.
    pub ln_ratios: [f64; 2],
}

/// What a block says of a cell: see [`Pair::ln_ratios`]. A value without a control is there twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockValue {
    /// Session, numbered in the order in which they ran.
    pub session: u32,
    /// Logarithms of a cost, or of a cost over native's.
    pub both: [f64; 2],
}

impl From<(u32, f64)> for BlockValue {
    fn from((session, value): (u32, f64)) -> Self {
        Self {
            session,
            both: [value; 2],
        }
    }
}

impl Pair {
    /// A block with one cost on either side.
    pub fn new((session, block): (u32, u32), layer: f64, native: f64) -> Self {
        Self {
            session,
            block,
            layer,
            native,
            ln_ratios: [layer.ln() - native.ln(); 2],
        }
    }

    /// A block of rounds, each with the layer's cost and native's, and of the same rounds with its control's cost. There
    /// are none of these without a control. Each d is the 20 % trimmed mean over the rounds of the logarithm of their
    /// ratio, and the costs are typical ones: see [`typical`]. NaN without rounds.
    ///
    /// Native and its control are not averaged within a round. Times of turns are skewed, and the logarithm of one turn
    /// over the mean of two others is skewed differently, so its trimmed mean is not 0 where all three are alike. Two
    /// means that are each symmetric then have a mean that is.
    pub fn of_rounds(
        (session, block): (u32, u32),
        native: &[[f64; 2]],
        control: &[[f64; 2]],
    ) -> Self {
        let own = RoundMeans::of(native);
        let others = if control.is_empty() {
            own
        } else {
            RoundMeans::of(control)
        };
        let level = f64::midpoint(own.level, others.level);
        let ln_ratios = [own.ln_ratio, others.ln_ratio];
        let [layer, native] = sides(level, f64::midpoint(own.ln_ratio, others.ln_ratio));
        Self {
            session,
            block,
            layer,
            native,
            ln_ratios,
        }
    }

    /// Whether the control took turns too.
    pub fn has_control(&self) -> bool {
        self.ln_ratios[0].to_bits() != self.ln_ratios[1].to_bits()
    }

    /// The pair by native's own turns alone. Its costs are those of both.
    #[must_use]
    pub fn without_control(&self) -> Self {
        Self {
            ln_ratios: [self.ln_ratios[0]; 2],
            ..*self
        }
    }

    /// The block's d: the mean of those against native's own turns and against its control's.
    pub fn ln_ratio(&self) -> f64 {
        f64::midpoint(self.ln_ratios[0], self.ln_ratios[1])
    }

    /// What the block says of its cell.
    pub fn value(&self) -> BlockValue {
        BlockValue {
            session: self.session,
            both: self.ln_ratios,
        }
    }
}

/// Trimmed means over the rounds of a block.
#[derive(Clone, Copy)]
struct RoundMeans {
    ln_ratio: f64,
    level: f64,
}

impl RoundMeans {
    fn of(rounds: &[[f64; 2]]) -> Self {
        let logs = rounds.iter().map(|[layer, native]| (layer / native).ln());
        let logs: Vec<f64> = logs.collect();
        Self {
            ln_ratio: trimmed_mean(&logs).unwrap_or(f64::NAN),
            level: level(rounds),
        }
    }
}

/// The typical costs of a layer and of native, whose ratio has the logarithm `ln_ratio`.
///
/// Their level, the geometric mean of both sides, is the 20 % trimmed mean over the same rounds or
/// blocks as `ln_ratio`. Two means that are trimmed each on its own have another ratio: stalls on
/// one side would leave a time, native's time and a ratio that contradict each other.
pub(crate) fn typical(both: &[[f64; 2]], ln_ratio: f64) -> [f64; 2] {
    sides(level(both), ln_ratio)
}

/// Logarithm of the geometric mean of both sides, trimmed over rounds or blocks.
fn level(both: &[[f64; 2]]) -> f64 {
    let level = |[layer, native]: &[f64; 2]| f64::midpoint(layer.ln(), native.ln());
    let levels: Vec<f64> = both.iter().map(level).collect();
    trimmed_mean(&levels).unwrap_or(f64::NAN)
}

fn sides(level: f64, ln_ratio: f64) -> [f64; 2] {
    [0.5, -0.5].map(|side| (level + side * ln_ratio).exp())
}

/// The blocks of one comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell<B> {
    /// Cells with the same number are of one operation, so their blocks vary in the same way. A report has one number for
    /// each point.
    pub operation: usize,
    /// In any order.
    pub blocks: Vec<B>,
}

/// A cell among others of the same operation.
impl<B> From<Vec<B>> for Cell<B> {
    fn from(blocks: Vec<B>) -> Self {
        Self {
            operation: 0,
            blocks,
        }
    }
}

/// Fewest cells of one operation that share a variance of their own. The spread of fewer variances says too little about
/// whether they are alike.
const FEWEST_ALIKE: usize = 6;

/// The logarithm of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Blocks.
    pub n: usize,
    /// 20 % trimmed mean of the blocks' d; with a control, the mean of both.
    pub mean: f64,
    /// Its standard error; NaN below [`MIN_VALUES`] blocks.
    pub error: f64,
    /// Degrees of freedom of `error`.
    pub df: f64,
    /// Whether sessions differ by more than their blocks explain. `error` is then that of the
    /// sessions.
    pub sessions_differ: bool,
    /// Equivalent number of independent blocks: fewer than `n` if sessions differ.
    pub effective_n: f64,
    /// The interval of `mean`. `None` below [`MIN_VALUES`] blocks.
    pub interval: Option<Interval>,
    /// Two-sided p of "the mean is 0", from the same t: below 1 - level exactly if `interval`
    /// excludes 0.
    pub p: f64,
}

/// Estimates all cells of a report together, each from its values of d with their sessions. `None` for
/// a cell without a value, or with one that is not finite.
///
/// * The mean is the 20 % trimmed mean. With a control it is the mean of two, and its variance is that of the means of
///   both winsorised values of each block (Yuen 1974). It has h - 1 degrees of freedom for h kept values.
/// * The variance is shrunk towards that of the other cells (moderated t, Smyth 2004): those of the same operation, or all
///   where these are too few. The prior counts for at most as many degrees of freedom as the cell has itself.
/// * A component between sessions is added if it is significant: in this cell (F test of the sessions'
///   means at 1 %), or in all cells together (mean of ln F at 5 %). The error is then that of the
///   sessions' means, moderated in the same way if it is significant in all cells together.
/// * Interval and p come from this one t.
pub fn estimate<B: Copy + Into<BlockValue>>(
    cells: &[Cell<B>],
    level: f64,
) -> Vec<Option<Estimate>> {
    estimate_with(cells, Between::WhenItShows, level)
}

/// When the component between sessions is part of the error.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Between {
    WhenItShows,
    /// The other sample has other sessions, so their effects do not cancel.
    Always,
}

/// [`estimate`], with a rule for the component between sessions.
pub(crate) fn estimate_with<B: Copy + Into<BlockValue>>(
    cells: &[Cell<B>],
    when: Between,
    level: f64,
) -> Vec<Option<Estimate>> {
    let always = when == Between::Always;
    let cells: Vec<Option<CellSums>> = cells.iter().map(CellSums::of).collect();
    let known = || cells.iter().flatten().filter(|c| c.all.kept >= MIN_VALUES);
    let priors = Priors::of(known());
    let within: Vec<(f64, f64)> = known()
        .filter_map(|c| c.sessions.map(|s| (s.within, s.within_df)))
        .collect();
    let prior_within = prior(&within);
    let of_sessions: Vec<Sessions> = known()
        .filter_map(|c| Some(c.sessions?.moderated(&prior_within)))
        .collect();
    let shared = (always || differ_everywhere(&of_sessions)).then(|| {
        let between: Vec<(f64, f64)> = of_sessions.iter().map(|s| (s.between, s.df)).collect();
        prior(&between)
    });
    cells
        .iter()
        .map(|cell| {
            let cell = cell.as_ref()?;
            let sessions = cell.sessions.map(|s| s.moderated(&prior_within));
            Some(cell.estimate(priors.of_blocks(cell), sessions, shared.as_ref(), level))
        })
        .collect()
}

/// The variance that blocks share: of each operation, and of all.
struct Priors {
    of_all: Prior,
    by_operation: BTreeMap<usize, Prior>,
}

impl Priors {
    fn of<'a>(cells: impl Iterator<Item = &'a CellSums>) -> Self {
        let mut by_operation: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
        for cell in cells {
            let own = by_operation.entry(cell.operation).or_default();
            own.push((cell.all.variance, cell.all.df()));
        }
        let all: Vec<(f64, f64)> = by_operation.values().flatten().copied().collect();
        let alike = by_operation
            .into_iter()
            .filter(|(_, variances)| variances.len() >= FEWEST_ALIKE);
        Self {
            of_all: prior(&all),
            by_operation: alike
                .map(|(at, variances)| (at, prior(&variances)))
                .collect(),
        }
    }

    fn of_blocks(&self, cell: &CellSums) -> &Prior {
        self.by_operation
            .get(&cell.operation)
            .unwrap_or(&self.of_all)
    }
}

/// A cell's values, summarised.
struct CellSums {
    operation: usize,
    n: usize,
    all: Trimmed,
    sessions: Option<Sessions>,
}

/// How a cell's sessions differ, and how the blocks within them differ.
#[derive(Clone, Copy)]
struct Sessions {
    /// Variance between the sessions' means, on the scale of one block.
    between: f64,
    /// Degrees of freedom of `between`.
    df: f64,
    /// Variance of blocks within sessions.
    within: f64,
    /// Degrees of freedom of `within`.
    within_df: f64,
}

impl Sessions {
    /// Computed from winsorised values, and scaled like the winsorised variance. `None` with only
    /// one session, or if there are no degrees of freedom to separate blocks from sessions.
    fn of(values: &[BlockValue], means: &TwoMeans) -> Option<Self> {
        let (all, held) = (&means.both, &means.held);
        let mut by_session: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (block, value) in values.iter().zip(held) {
            by_session.entry(block.session).or_default().push(*value);
        }
        let (n, k) = (held.len(), by_session.len());
        if k < 2 || all.kept <= k {
            return None;
        }
        let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
        let centre = mean(held);
        let (mut between, mut within) = (0.0, 0.0);
        for session in by_session.values() {
            let own = mean(session);
            between += session.len() as f64 * (own - centre).powi(2);
            within += session.iter().map(|x| (x - own).powi(2)).sum::<f64>();
        }
        let scale = (n - 1) as f64 / (all.kept - 1) as f64;
        Some(Self {
            between: between / (k - 1) as f64 * scale,
            df: (k - 1) as f64,
            within: within / (n - k) as f64 * scale,
            within_df: (all.kept - k) as f64,
        })
    }

    fn moderated(self, within: &Prior) -> Self {
        let (variance, df) = within.moderate(self.within, self.within_df, self.within_df);
        Self {
            within: variance,
            within_df: df,
            ..self
        }
    }

    /// Whether they differ in this cell.
    fn differ(&self) -> bool {
        f_p(self.between / self.within, self.df, self.within_df) < 0.01
    }
}

/// Whether sessions differ by more than chance over all cells together, even if no cell shows it
/// alone.
fn differ_everywhere(cells: &[Sessions]) -> bool {
    let usable = |s: &&Sessions| s.between > 0.0 && s.within > 0.0;
    let (mut excess, mut variance) = (0.0, 0.0);
    for s in cells.iter().filter(usable) {
        let expected = log_chi2_mean(s.df) - log_chi2_mean(s.within_df);
        // Limits the weight of one cell whose sessions happen to agree to the last digit.
        excess += (s.between / s.within).max(1e-3).ln() - expected;
        variance += log_chi2_variance(s.df) + log_chi2_variance(s.within_df);
    }
    variance > 0.0 && normal_cdf(excess / f64::sqrt(variance)) > 0.95
}

impl CellSums {
    fn of<B: Copy + Into<BlockValue>>(cell: &Cell<B>) -> Option<Self> {
        let values: Vec<BlockValue> = cell.blocks.iter().map(|v| (*v).into()).collect();
        let side = |at: usize| values.iter().map(|v| v.both[at]).collect::<Vec<f64>>();
        let means = TwoMeans::of(&side(0), &side(1))?;
        Some(Self {
            operation: cell.operation,
            n: values.len(),
            sessions: Sessions::of(&values, &means),
            all: means.both,
        })
    }

    fn estimate(
        &self,
        blocks: &Prior,
        sessions: Option<Sessions>,
        shared: Option<&Prior>,
        level: f64,
    ) -> Estimate {
        let (kept, own_df) = (self.all.kept as f64, self.all.df());
        let (of_blocks, df) = blocks.moderate(self.all.variance, own_df, own_df);
        let by_sessions = sessions
            .filter(|s| shared.is_some() || s.differ())
            .map(|s| match shared {
                Some(prior) => prior.moderate(s.between, s.df, own_df),
                None => (s.between, s.df),
            })
            .filter(|(variance, _)| *variance > of_blocks);
        let (variance, df) = by_sessions.unwrap_or((of_blocks, df));
        let worth = if variance > 0.0 {
            of_blocks / variance
        } else {
            1.0
        };
        let mut estimate = Estimate {
            n: self.n,
            mean: self.all.mean,
            error: f64::NAN,
            df,
            sessions_differ: by_sessions.is_some(),
            effective_n: self.n as f64 * worth,
            interval: None,
            p: 1.0,
        };
        if self.all.kept < MIN_VALUES || !(level > 0.0 && level < 1.0) {
            return estimate;
        }
        estimate.error = (variance / kept).sqrt();
        estimate.concluded(level)
    }
}

impl Estimate {
    /// Adds interval and p, from the t that mean, error and degrees of freedom make.
    fn concluded(self, level: f64) -> Self {
        let reach = t_quantile(level, self.df) * self.error;
        Self {
            p: if self.mean == 0.0 || self.error.is_nan() {
                1.0
            } else {
                t_p(self.mean / self.error, self.df)
            },
            interval: reach.is_finite().then_some(Interval {
                low: self.mean - reach,
                high: self.mean + reach,
            }),
            ..self
        }
    }

    /// The difference of this mean from that of an unpaired sample: Yuen's two-sample t (1974),
    /// with the degrees of freedom of Welch (1947).
    pub(crate) fn minus(&self, other: &Self, level: f64) -> Self {
        let [own, others] = [self.error.powi(2), other.error.powi(2)];
        let variance = own + others;
        let shares = own.powi(2) / self.df + others.powi(2) / other.df;
        Self {
            n: self.n.min(other.n),
            mean: self.mean - other.mean,
            error: variance.sqrt(),
            df: if shares > 0.0 {
                variance.powi(2) / shares
            } else {
                self.df.min(other.df)
            },
            sessions_differ: self.sessions_differ || other.sessions_differ,
            effective_n: self.effective_n.min(other.effective_n),
            interval: None,
            p: 1.0,
        }
        .concluded(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(d: &[f64], sessions: u32) -> Cell<(u32, f64)> {
        let n = d.len() as u32;
        let at = |(i, d): (usize, &f64)| (i as u32 * sessions / n, *d);
        d.iter().enumerate().map(at).collect::<Vec<_>>().into()
    }

    const NOISE: [f64; 9] = [0.01, -0.02, 0.015, 0.0, -0.01, 0.02, -0.015, 0.005, -0.005];

    #[test]
    fn a_block_of_rounds_is_their_trimmed_mean() {
        let rounds = [0.1, 0.2, 0.3, 0.4, 9.0].map(|d: f64| [d.exp(), 1.0]);
        let p = Pair::of_rounds((0, 3), &rounds, &[]);
        assert!((p.ln_ratio() - 0.3).abs() < 1e-12);
        assert_eq!((p.session, p.block), (0, 3));
        // Both costs are of the rounds that the ratio keeps: their level is exp(0.15).
        assert!((p.layer / p.native).ln() - 0.3 < 1e-12);
        assert!(((p.layer * p.native).ln() - 0.3).abs() < 1e-12, "{p:?}");
        assert!(Pair::of_rounds((0, 3), &[], &[]).ln_ratio().is_nan());
    }

    #[test]
    fn alone_it_is_yuens_t() {
        let e = estimate(&[cell(&NOISE, 1)], 0.95)[0].unwrap();
        let own = Trimmed::of(&NOISE).unwrap();
        let i = own.interval(0.95).unwrap();
        assert_eq!((e.mean, e.df, e.interval), (own.mean, own.df(), Some(i)));
        assert!(!e.sessions_differ && (e.effective_n - 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_cell_that_is_quiet_by_luck_is_not_believed() {
        let lucky: Vec<f64> = NOISE.iter().map(|x| 0.004 + x / 4.0).collect();
        let alone = estimate(&[cell(&lucky, 1)], 0.95)[0].unwrap();
        let mut cells = vec![cell(&lucky, 1)];
        cells.extend((1..8).map(|i| {
            let other: Vec<f64> = NOISE
                .iter()
                .map(|x| x * (0.9 + 0.02 * f64::from(i)))
                .collect();
            cell(&other, 1)
        }));
        let among = estimate(&cells, 0.95)[0].unwrap();
        assert!(alone.p < 0.05 && among.p > 0.05, "{alone:?} {among:?}");
        assert!(among.df > alone.df && among.df <= 2.0 * alone.df);
    }

    #[test]
    fn cells_share_the_noise_of_their_operation_if_it_has_enough_of_them() {
        let of = |operation, scale: f64| Cell {
            operation,
            ..cell(&NOISE.map(|x| scale * x), 1)
        };
        // A noisy operation in seven layers, a quiet one in seven, and one in two.
        let scales = [(0, 7, 8.0), (1, 7, 1.0), (2, 2, 3.0)];
        let cells = scales.iter().flat_map(|&(operation, layers, scale)| {
            (0..layers).map(move |i| of(operation, scale * (1.0 + 0.05 * f64::from(i))))
        });
        let apart: Vec<_> = cells.collect();
        let at_once: Vec<_> = apart.iter().map(|c| c.blocks.clone().into()).collect();
        let [apart, at_once] = [apart, at_once].map(|cells| estimate(&cells, 0.95));
        let of_one = |all: &[Option<Estimate>], at: usize| all[at].unwrap();
        for at in [0, 7] {
            let (own, all) = (of_one(&apart, at), of_one(&at_once, at));
            assert!(own.df > all.df, "{own:?} {all:?}");
        }
        // What blocks vary by in other operations does not hide a difference.
        assert!(of_one(&apart, 7).error < of_one(&at_once, 7).error);
        assert_eq!(apart[14], at_once[14], "too few of its own");
    }

    #[test]
    fn sessions_that_differ_are_what_is_counted() {
        let stepped: Vec<f64> = NOISE
            .iter()
            .zip(0..)
            .map(|(x, i)| x + 0.2 * f64::from(i / 3))
            .collect();
        let one = estimate(&[cell(&stepped, 1)], 0.95)[0].unwrap();
        let three = estimate(&[cell(&stepped, 3)], 0.95)[0].unwrap();
        assert!(
            three.sessions_differ && three.effective_n < 5.0,
            "{three:?}"
        );
        assert!(three.df < one.df && three.error > one.error);
        let even = estimate(&[cell(&NOISE, 3)], 0.95)[0].unwrap();
        assert!(!even.sessions_differ);
    }

    #[test]
    fn a_component_too_small_to_show_in_one_cell_shows_in_forty() {
        let shifts = [0.008, -0.011, 0.006];
        let shifted = |sign: f64| -> Vec<f64> {
            let shift = |i: usize| sign * shifts[i / 3];
            NOISE
                .iter()
                .enumerate()
                .map(|(i, x)| x + shift(i))
                .collect()
        };
        let cells: Vec<_> = (0..40)
            .map(|i| cell(&shifted(if i % 2 == 0 { 1.0 } else { -1.0 }), 3))
            .collect();
        assert!(!estimate(&cells[..1], 0.95)[0].unwrap().sessions_differ);
        assert!(
            estimate(&cells, 0.95)
                .iter()
                .all(|e| e.unwrap().sessions_differ)
        );
    }

    #[test]
    fn two_samples_are_yuens_two_sample_t() {
        let slower: Vec<f64> = NOISE.iter().map(|x| 0.1 + 2.0 * x).collect();
        let [old, new] = [&NOISE[..], &slower].map(|d| estimate(&[cell(d, 1)], 0.95)[0].unwrap());
        let change = new.minus(&old, 0.95);
        assert!((change.mean - 0.1).abs() < 1e-12);
        // Four times the variance on one side: df (1 + 4)^2 / (1 + 16) times those of one sample.
        assert!((change.df - old.df * 25.0 / 17.0).abs() < 1e-9);
        assert!((change.error - old.error * 5.0f64.sqrt()).abs() < 1e-12);
        let i = change.interval.unwrap();
        assert!(i.low > 0.0 && change.p < 0.05 && (i.low + i.high - 0.2).abs() < 1e-12);
        let back = old.minus(&new, 0.95);
        assert!((back.mean + change.mean).abs() < 1e-12 && (back.p - change.p).abs() < 1e-12);
        let few = estimate(&[vec![(0, 0.1), (0, 0.2)].into()], 0.95)[0].unwrap();
        let none = new.minus(&few, 0.95);
        assert_eq!((none.interval, none.p, none.n), (None, 1.0, 2));
    }

    #[test]
    fn sessions_of_two_runs_are_counted_without_being_asked() {
        let shifted = |i: usize| NOISE[i] + [0.02, -0.02, 0.0][i / 3];
        let d: Vec<f64> = (0..9).map(shifted).collect();
        let of = |between| estimate_with(&[cell(&d, 3)], between, 0.95)[0].unwrap();
        let (shown, always) = (of(Between::WhenItShows), of(Between::Always));
        assert!(!shown.sessions_differ && always.sessions_differ);
        assert!(always.error > shown.error && always.df < shown.df);
        let one = estimate_with(&[cell(&d, 1)], Between::Always, 0.95)[0].unwrap();
        assert!(!one.sessions_differ, "one session tells nothing of others");
    }

    #[test]
    fn too_little_is_an_estimate_without_interval() {
        let all = estimate(
            &[vec![], vec![(0, 0.3), (0, 0.5)], vec![(0, f64::NAN)]].map(Cell::from),
            0.95,
        );
        assert!(all[0].is_none() && all[2].is_none());
        let two = all[1].unwrap();
        assert_eq!((two.interval, two.p, two.n), (None, 1.0, 2));
        let constant = estimate(&[cell(&[0.25; 8], 2)], 0.95)[0].unwrap();
        assert_eq!((constant.p, constant.interval.unwrap().width()), (0.0, 0.0));
        assert!((estimate(&[cell(&[0.0; 8], 1)], 0.95)[0].unwrap().p - 1.0).abs() < 1e-15);
    }
}
