//! What the placeholders in a claim's text stand for.

use std::borrow::Cow;

use layermark_model::{Predicate, Quotient, format_size};
use layermark_stats::Comparison;

use super::{LISTED, Sides};
use crate::{
    code_span::{self, code},
    number as text,
    studies::{
        Data,
        rows::{estimate, geometric_mean, host_cpu, request_size, spread},
    },
    types::{ResultRow, Verdict},
};

impl<'a> Sides<'a> {
    /// What a placeholder stands for.
    pub(super) fn figure(&self, placeholder: &str, yes: usize, why: &str) -> String {
        let points = text::count(self.points(), self.each());
        let is_time =
            !matches!(&self.claim.holds, Predicate::Ratio(of, ..) if *of != Quotient::Time);
        match placeholder {
            "layer" => code(self.layer),
            "against" => code(self.against),
            "n" => points,
            "yes" => yes.to_string(),
            "same" => self.count(Verdict::Same).to_string(),
            "slower" => self.count(Verdict::Slower).to_string(),
            "faster" => self.count(Verdict::Faster).to_string(),
            "mean" => self.mean(),
            "spread" if self.ratios().len() < self.points() => self.spread(&points),
            "spread" => self.spread(""),
            "verdicts" => self.each_verdict(&points),
            "costs" => self.list(|at| {
                let (row, other) = &self.rows[at];
                let other = other.as_ref().unwrap_or(row);
                in_words(self.data, [other, row], self.compared[at].as_ref())
            }),
            "ratios" if matches!(self.claim.holds, Predicate::Flushes) => self.flushes(),
            "ratios" if self.points() > LISTED => self.spread(&points),
            "ratios" => self.list(|at| {
                let written = if is_time {
                    text::ratio_with
                } else {
                    text::share_with
                };
                let ratio = self.compared[at].as_ref().map(|c| written(&estimate(c)));
                let ratio = ratio.unwrap_or_else(|| "an unknown part".into());
                format!("{ratio} at {}", code(&self.rows[at].0.label))
            }),
            "why" => why.to_owned(),
            _ => String::new(),
        }
    }

    fn list(&self, one: impl Fn(usize) -> String) -> String {
        text::list(&(0..self.rows.len()).map(one).collect::<Vec<_>>())
    }

    fn ratios(&self) -> Vec<f64> {
        self.compared.iter().flatten().map(|c| c.ratio).collect()
    }

    /// Whether its points are of one operation: a mean of different ones is of nothing. To start a program is
    /// one operation, whatever the program.
    fn is_one_operation(&self) -> bool {
        let operation = |r: &'a ResultRow| {
            let named = !r.meaning.runs_programs();
            (&r.workload, named.then_some(&r.meaning.operation))
        };
        let mut all = self.rows.iter().map(|(r, _)| operation(r));
        let first = all.next();
        all.all(|of| Some(of) == first)
    }

    /// `1.20x in the mean (1.02-3.40), at 7 points`, or `1.02x to 3.40x, at 5 of 7 points`.
    fn spread(&self, points: &str) -> String {
        let ratios = self.ratios();
        let some = ratios.len() < self.points();
        let told = match spread(&ratios) {
            None => return format!("no ratio, at {points}"),
            Some(mean) if !some && self.is_one_operation() => mean,
            Some(_) => {
                let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let high = ratios.iter().copied().fold(0.0, f64::max);
                format!("{}x to {}x", text::ratio(low), text::ratio(high))
            }
        };
        match points {
            "" => told,
            points if some => format!("{told}, at {} of {points}", ratios.len()),
            points => format!("{told}, at {points}"),
        }
    }

    /// `, 1.80x native's time in the mean`, if every point has a ratio.
    fn mean(&self) -> String {
        let ratios = self.ratios();
        let whole = ratios.len() == self.points() && self.is_one_operation();
        let mean = geometric_mean(&ratios).filter(|_| whole);
        mean.map_or_else(String::new, |mean| {
            let baseline = code_span::baseline(self.against);
            format!(", {} in the mean", text::of_baseline(mean, &baseline))
        })
    }

    /// `64 device flushes for 64 syncs`.
    fn flushes(&self) -> String {
        self.list(|at| {
            let durability = &self.rows[at].0.durability;
            match durability.flushes {
                Some(n) => format!(
                    "{n} device flushes for {}",
                    text::count(durability.syncs as usize, "sync")
                ),
                None => durability.because.clone().unwrap_or_default(),
            }
        })
    }

    /// `the same at 2 of 4 record sizes; slower 1.80x at 4K`.
    fn each_verdict(&self, all: &str) -> String {
        let same = self.count(Verdict::Same);
        let apart = |v: &Verdict| matches!(v, Verdict::Slower | Verdict::Faster);
        let known = self.rows.iter().filter(|(_, other)| other.is_ok()).count();
        let apart_at = self.verdicts.iter().filter(|v| apart(v)).count();
        let open = known - same - apart_at;
        let counted = [(same, "the same"), (open, "too noisy")]
            .into_iter()
            .filter(|(n, _)| *n > 0);
        let counted = counted.map(|(n, word)| format!("{word} at {n} of {all}"));
        let differing = self
            .rows
            .iter()
            .zip(&self.compared)
            .zip(&self.verdicts)
            .filter(|(_, v)| apart(v));
        let differing = differing.filter_map(|(((row, _), compared), verdict)| {
            let ratio = compared.as_ref()?.ratio;
            let ratio = if *verdict == Verdict::Faster {
                1.0 / ratio
            } else {
                ratio
            };
            let at: Cow<str> = match request_size(row) {
                0 => code(&row.label).into(),
                size => format_size(size).into(),
            };
            Some(format!(
                "{} {}x at {at}",
                verdict.word(),
                text::ratio(ratio)
            ))
        });
        counted.chain(differing).collect::<Vec<_>>().join("; ")
    }
}

/// `2.41x (2.30-2.52) at ..., with 3.1 us of this host's CPU a KB against 9.8 us`. The ratio is that of
/// throughputs.
fn in_words(data: &Data, [here, there]: [&ResultRow; 2], c: Option<&Comparison>) -> String {
    let ratio = c.map_or_else(
        || "an unknown part".into(),
        |c| text::share_with(&estimate(c)),
    );
    let cost = host_cpu(data, here).zip(host_cpu(data, there));
    let cost = cost.map_or_else(String::new, |((ours, per), (theirs, _))| {
        let (ours, theirs) = (text::time(ours), text::time(theirs));
        format!(", with {ours} of this host's CPU {per} against {theirs}")
    });
    format!("{ratio} at `{}`{cost}", here.label)
}
