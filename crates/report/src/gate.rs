//! Checks results against gates.

use layermark_model::{Gate, GateError, Unit};
use layermark_stats::{self as stats, Interval};

use crate::{
    group,
    statements::{
        MOST,
        gate::{FailedGates, Held, Lacks, Repeated},
    },
    types::{GateRow, GateState, Missing, Report, ResultRow, Statement, Verdict},
    words::{Names, Words},
};

impl Report {
    /// Refuses gates that name a layer or a point without a result.
    pub fn check_gates(&self, gates: &[Gate]) -> Result<(), GateError> {
        let layers: Vec<&str> = self.layers_with(|row| row.verdict != Verdict::Baseline);
        let points = self.points();
        gates
            .iter()
            .try_for_each(|gate| gate.check(&layers, &points))
    }

    /// Checks the results against gates: each point in each layer that a gate applies to. A gate
    /// without a layer applies to all compared layers. The baseline of two runs is included only if
    /// there is nothing else. Undecided results fail only if `undecided_fails`.
    pub fn hold_to(&mut self, gates: &[Gate], undecided_fails: bool) {
        let held = gates.iter().flat_map(|gate| self.cells(gate));
        let mut held: Vec<GateRow> = held.collect();
        for row in held
            .iter_mut()
            .filter(|row| undecided_fails && row.state == GateState::Undecided)
        {
            row.state = GateState::Failed;
        }
        let failed = failed(&held).map(|failed| Statement {
            layer: failed.first.layer.clone(),
            text: failed.words(&self.names()).into(),
            ..Statement::default()
        });
        if let Some(failed) = failed {
            self.verdicts.insert(0, failed.clone());
            self.findings.insert(0, failed);
            if self.findings.len() > MOST {
                // The last one may be about undecided results.
                self.findings.remove(MOST - 1);
            }
        }
        self.gates = held;
    }

    /// Gates that a result has failed.
    pub fn failed_gates(&self) -> impl Iterator<Item = &GateRow> {
        let failed = |g: &&GateRow| g.state == GateState::Failed;
        self.gates.iter().filter(failed)
    }

    fn layers_with(&self, keep: impl Fn(&ResultRow) -> bool) -> Vec<&str> {
        let rows = self.results.iter().filter(|row| keep(row));
        group::distinct(rows.map(|row| row.layer.as_str()))
    }

    /// Whether it is the baseline of two runs, whose change is the machine's.
    fn drifts(&self, layer: &str) -> bool {
        let compared = self.compared.as_ref();
        compared.is_some_and(|c| c.baseline.as_deref() == Some(layer))
    }

    /// The cells that a gate applies to. Named cells that were not measured are included; points
    /// that a layer cannot do are not.
    fn cells(&self, gate: &Gate) -> Vec<GateRow> {
        let points = self.points_of(gate);
        let mut told: Vec<(&str, &str, Option<&ResultRow>)> = Vec::new();
        for layer in self.layers_of(gate) {
            let known = self.results.iter().any(|r| r.layer == layer);
            for point in &points {
                let row = self.row_at(layer, point);
                let gone = gate.point.is_some() || self.is_missing(layer, point);
                if row.is_some() || !known || gone {
                    told.push((layer, point, row));
                }
            }
        }
        // If the plan requests no verdict, the gate does, for all its cells at once.
        let described = |row: Option<&ResultRow>| {
            let row = row.filter(|r| r.verdict == Verdict::Descriptive)?;
            row.p
        };
        let p: Vec<f64> = told
            .iter()
            .filter_map(|(.., row)| described(*row))
            .collect();
        let mut adjusted = stats::holm(&p).into_iter();
        let with = (self.delta, &self.names());
        told.into_iter()
            .map(|(layer, point, row)| {
                let p = match described(row) {
                    Some(_) => adjusted.next(),
                    None => row.and_then(|r| r.p_adjusted),
                };
                held(gate, (layer, point), row, p.unwrap_or(1.0), with)
            })
            .collect()
    }

    fn row_at(&self, layer: &str, point: &str) -> Option<&ResultRow> {
        let mut rows = self.results.iter();
        rows.find(|r| r.layer == layer && r.label == point)
    }

    fn layers_of<'a>(&'a self, gate: &'a Gate) -> Vec<&'a str> {
        if let Some(name) = gate.layer.as_deref() {
            return vec![name];
        }
        let mut layers = self.layers_with(|row| row.verdict != Verdict::Baseline);
        if layers.len() > 1 {
            layers.retain(|layer| !self.drifts(layer));
        }
        let gone = self.missing().map(|m| m.layer.as_str());
        let gone = gone.filter(|layer| !self.drifts(layer));
        group::distinct(layers.into_iter().chain(self.failed_layers()).chain(gone))
    }

    fn points_of<'a>(&'a self, gate: &'a Gate) -> Vec<&'a str> {
        if let Some(point) = gate.point.as_deref() {
            return vec![point];
        }
        let missing = self.missing().map(|m| m.point.as_str());
        group::distinct(self.points().into_iter().chain(missing))
    }

    /// What the older of two runs has, and the newer one does not.
    fn missing(&self) -> impl Iterator<Item = &Missing> {
        self.compared.iter().flat_map(|c| &c.missing)
    }

    fn is_missing(&self, layer: &str, point: &str) -> bool {
        self.missing().any(|m| m.layer == layer && m.point == point)
    }

    /// Requested layers that could not be measured at all.
    fn failed_layers(&self) -> impl Iterator<Item = &str> {
        let all = self.left_out.iter().filter(|l| l.point.is_none());
        let of_a_run = all.filter(|_| self.compared.is_none());
        of_a_run.map(|l| l.layer.as_str())
    }
}

fn held(
    gate: &Gate,
    (layer, point): (&str, &str),
    row: Option<&ResultRow>,
    p: f64,
    (delta, names): (f64, &Names),
) -> GateRow {
    let kept = row.and_then(|row| keeps_to(gate, row, p, delta));
    let row = row.filter(|row| row.trials > 0);
    let open = row.filter(|_| kept.is_none());
    let held = Held {
        row,
        limit: gate.limit,
        lacks: open.and_then(|row| lacks(gate, row, delta)),
    };
    GateRow {
        gate: gate.to_string(),
        layer: layer.into(),
        point: point.into(),
        limit: gate.limit,
        state: match kept {
            Some(true) => GateState::Passed,
            Some(false) => GateState::Failed,
            None => GateState::Undecided,
        },
        text: held.words(names).into(),
    }
}

/// What an undecided result lacks.
fn lacks(gate: &Gate, row: &ResultRow, delta: f64) -> Option<Lacks> {
    let is_other = matches!(row.verdict, Verdict::Untrusted | Verdict::Baseline);
    if is_other || row.withheld.is_some() {
        return None;
    }
    let of = match row.meaning.unit {
        Unit::Launch => Repeated::Launch,
        _ => Repeated::Block,
    };
    let missing = stats::MIN_BLOCKS.saturating_sub(row.blocks);
    let needed = missing > 0;
    let more = if needed {
        missing
    } else {
        more_blocks(gate.limit, row, delta)?
    };
    Some(Lacks { more, of, needed })
}

/// The z of [`stats::GATE_ALPHA`] over that of an interval: 3.29 over 1.96.
const GATE_WIDTHS: f64 = 1.68;
/// A result that needs more than this many times its blocks is at the limit itself.
const MOST_TIMES: f64 = 100.0;

/// Further blocks that would make the interval narrow enough if the estimate stayed the same. Its
/// width is proportional to one over the square root of their number. `None` if its width is not
/// the problem.
fn more_blocks(limit: Option<f64>, row: &ResultRow, delta: f64) -> Option<usize> {
    let ratio = row.ratio?;
    let (at, half) = (ratio.estimate.ln(), ratio.half_width()?);
    let most = limit.map_or(delta.ln_1p(), f64::ln);
    let wanted = match limit {
        _ if at > most => (at / GATE_WIDTHS).min(limit.map_or(at, |_| at - most)),
        Some(_) => most - at,
        None => (most - at.abs()).max(-at),
    };
    let times = (half / wanted).powi(2);
    let more = (row.blocks as f64 * (times - 1.0)).ceil();
    (wanted > 0.0 && times <= MOST_TIMES && more >= 1.0).then_some(more as usize)
}

/// `None` if the data does not decide. `p` is corrected for the number of cells.
fn keeps_to(gate: &Gate, row: &ResultRow, p: f64, delta: f64) -> Option<bool> {
    let interval = row.ratio.and_then(|e| e.interval);
    let interval = interval.map(|[low, high]| Interval { low, high });
    let word = match row.verdict {
        Verdict::Same => stats::Verdict::Same,
        Verdict::Slower => stats::Verdict::Slower,
        Verdict::Faster => stats::Verdict::Faster,
        Verdict::Untrusted | Verdict::Baseline => return None,
        // Too much of its time waited for a CPU: the ratio is not the layer's.
        Verdict::Undecided if row.withheld.is_some() => return None,
        Verdict::Descriptive if interval.is_some_and(|i| i.low > 1.0) => stats::Verdict::Slower,
        Verdict::Descriptive | Verdict::Undecided => stats::Verdict::Undecided,
    };
    let ratio = row.ratio.map(|r| r.estimate);
    let typical = stats::keeps_to(gate.limit, delta, word, p, ratio, interval);
    // With stalls, the average must meet the same limit.
    let average = row.ratio.filter(|_| row.has_stalls());
    let average = average.and_then(|r| r.average?.interval);
    let most = gate.limit.unwrap_or(1.0 + delta);
    match average {
        Some([low, _]) if low > most => Some(false),
        Some([_, high]) if high > most => typical.filter(|keeps| !keeps),
        _ => typical,
    }
}

/// The failed gates. `None` without one.
fn failed(gates: &[GateRow]) -> Option<FailedGates<'_>> {
    let failed = || gates.iter().filter(|g| g.state == GateState::Failed);
    let mut layers: Vec<&str> = failed().map(|g| g.layer.as_str()).collect();
    layers.sort_unstable();
    layers.dedup();
    Some(FailedGates {
        failed: failed().count(),
        of: gates.len(),
        layers,
        first: failed().next()?,
    })
}

#[cfg(test)]
mod tests {
    use layermark_model::Meaning;

    use super::*;
    use crate::{types::Estimate, words::said};

    fn launches(blocks: usize, estimate: f64, half: f64) -> ResultRow {
        let interval = (blocks >= stats::MIN_BLOCKS).then(|| [estimate / half, estimate * half]);
        ResultRow {
            trials: blocks,
            blocks,
            verdict: Verdict::Undecided,
            ratio: Some(Estimate::new(estimate, interval)),
            meaning: Meaning {
                unit: Unit::Launch,
                ..Meaning::default()
            },
            ..ResultRow::default()
        }
    }

    fn told(gate: &str, row: &ResultRow) -> String {
        let gate = gate.parse().unwrap();
        assert_eq!(keeps_to(&gate, row, 1.0, 0.05), None);
        lacks(&gate, row, 0.05).map_or_else(String::new, |lacks| said(&lacks))
    }

    #[test]
    fn what_cannot_be_told_says_what_it_lacks() {
        let few = |n| told("slower=10%", &launches(n, 1.02, 1.2));
        assert_eq!(few(1), "2 more launches are needed");
        assert_eq!(few(2), "1 more launch is needed");
        // 1.01 with a limit of 1.10: a half-width of 9 % of the logarithm instead of 17 % takes
        // 3.65 times the launches.
        let within = launches(10, 1.01, 1.177);
        assert_eq!(
            told("slower=10%", &within),
            "about 27 more launches may tell"
        );
        let mut blocks = within.clone();
        blocks.meaning.unit = Unit::Operation;
        assert_eq!(
            told("slower=10%", &blocks),
            "about 27 more repeats may tell"
        );
        // At the limit itself no number helps, and for untrusted results more launches are not the
        // solution.
        assert_eq!(told("slower=10%", &launches(10, 1.1, 1.2)), "");
        blocks.verdict = Verdict::Untrusted;
        assert_eq!(told("slower=10%", &blocks), "");
        // Beyond the limit, the interval has to leave it. Without a limit it has to leave 1, far
        // enough for p.
        assert_eq!(
            told("slower=10%", &launches(10, 1.2, 1.1)),
            "about 2 more launches may tell"
        );
        assert_eq!(
            told("slower", &launches(10, 1.2, 1.2)),
            "about 19 more launches may tell"
        );
    }
}
